"""Figures of a `Result`: every function returns a `matplotlib.figure.Figure`, which pyplot knows.

A notebook shows the figure, and in a script `matplotlib.pyplot.show()` does. A program that makes many figures closes each
with `matplotlib.pyplot.close(figure)`, as with all figures of pyplot.

The first colours are those of Okabe and Ito ("Color Universal Design", 2008), which colour-blind readers can tell apart. No
two cases have the same colour, lines differ in their dashes as well, and a case has the same colour in every figure of a
`Result`. Text, axes and grid have the colours of matplotlib's style (`pyplot.style.use("dark_background")`).
"""

from __future__ import annotations

import colorsys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

try:
    import matplotlib
    from matplotlib import colors, pyplot
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter
except ImportError as error:
    raise ImportError("plots need matplotlib: pip install 'linkhold[plots]'") from error

if TYPE_CHECKING:
    import pyarrow as pa
    from matplotlib.axes import Axes

    from ._run import Result

__all__ = ["compare", "delay_cdf", "goodput"]

# As in the HTML report: the seven of Okabe and Ito, then nine between them. The style's own colour stands for their black.
_COLOURS = (
    "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", None, "#882255", "#332288",
    "#999933", "#CC6677", "#117733", "#7F4F24", "#6C757D", "#DDCC77", "#AA44DD",
)  # fmt: skip
_DASHES: tuple[Any, ...] = ("solid", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)))
_MARKERS = ("o", "s", "D", "^", "P", "X")
# How much of the style's colour a grid has, and how much of its own or the style's a silence: whatever is below shows through.
_GRID = 0.35
_SILENT: dict[str, tuple[str | None, float]] = {"network": (None, 0.17), "station": ("#7F43BB", 0.25)}
# Most points of one line: goodput swings with every silence, and more points than this cannot be told apart.
_POINTS = 300

# Title of an axis and the factor from the report's unit, for every metric.
_METRICS: dict[str, tuple[str, float]] = {
    "goodput_bps": ("goodput of all flows (Mbit/s)", 1e-6),
    "limit_share": ("share of the limit (%)", 100.0),
    "retransmit_bps": ("retransmitted (Mbit/s)", 1e-6),
    "retransmits": ("retransmitted segments per run", 1.0),
    "rto_events": ("retransmission timeouts per run", 1.0),
    "delay_mean_s": ("mean one-way delay (ms)", 1e3),
    "delay_std_s": ("standard deviation of the one-way delay (ms)", 1e3),
    "delay_p50_s": ("median one-way delay (ms)", 1e3),
    "delay_p95_s": ("95th percentile of the one-way delay (ms)", 1e3),
    "delay_p99_s": ("99th percentile of the one-way delay (ms)", 1e3),
    "delay_p50_outside_silence_s": ("median one-way delay outside silences (ms)", 1e3),
    "delay_p95_outside_silence_s": ("95th percentile of the one-way delay outside silences (ms)", 1e3),
    "delay_p99_outside_silence_s": ("99th percentile of the one-way delay outside silences (ms)", 1e3),
    "queueing_delay_p50_s": ("median queueing delay (ms)", 1e3),
    "queueing_delay_p95_s": ("95th percentile of the queueing delay (ms)", 1e3),
    "queueing_delay_p99_s": ("99th percentile of the queueing delay (ms)", 1e3),
    "jain_index": ("Jain's fairness index", 1.0),
    "completion_mean_s": ("mean completion time (s)", 1.0),
}


def goodput(
    result: Result,
    *,
    cases: Sequence[str] | str | None = None,
    seed: int | None = None,
    start_s: float = 0.0,
    end_s: float | None = None,
) -> Figure:
    """Goodput of all flows over time in Mbit/s for one seed: a line for each case, the limit dashed (of each case where
    they differ), silences shaded. Where cases have different silences, those of one are shaded, which the legend names.

    cases: all if None; one may be given as a text. seed: the first if None. start_s, end_s: the time shown, in s. If
    there are too many intervals to be told apart, a point is the mean of several neighbours; the axis says how much time
    that is. Needs pyarrow.
    """
    seed = result.seeds[0] if seed is None else seed
    if seed not in result.seeds:
        raise KeyError(f"there is no seed {seed}; there are {_listed(result.seeds)}")
    shown = _cases(result, cases)
    runs = {run["case"]: run for run in result.runs if run["seed"] == seed}
    end = max(run["sim_s"] for run in runs.values()) if end_s is None else end_s
    series = _rows_of(result.series(), seed, routers=True)
    silences = _rows_of(result.silences(), seed)
    width = 0.0
    widths: dict[str, float] = {}
    rows: dict[str, list[dict[str, Any]]] = {}
    for case in shown:
        own = [row for row in series if row["case"] == case]
        widths[case] = width = own[0]["t_s"] if own else 0.0
        rows[case] = [row for row in own if start_s < row["t_s"] <= end + 1e-9]
        if not rows[case]:
            raise ValueError(f"from start_s = {start_s:g} to end_s = {end:g} no interval of the series ends; each is {_time(width)} long")
    figure, axes = _figure(8.0, 4.2)
    # A case that ran for less time has no silences after it, and differs from the others by nothing else.
    until = min(end, *(runs[case]["sim_s"] for case in shown))
    _shade(axes, {case: [row for row in silences if row["case"] == case] for case in shown}, start_s, until, end)
    same_limit = _same(runs[case]["link"]["goodput_limit_bps"] for case in shown)
    means: dict[str, float] = {}
    for number, case in enumerate(shown):
        inside = rows[case]
        # A point stands at the end of its interval, and the line is level over the interval.
        group = max(1, -(-len(inside) // _POINTS))
        parts = [inside[first : first + group] for first in range(0, len(inside), group)]
        means[case] = widths[case] * group
        times = [start_s] + [part[-1]["t_s"] for part in parts]
        style = _style(result, case)
        if number == 0 or not same_limit:
            limit = [_mean(row["limit_bps"] for row in part) / 1e6 for part in parts]
            axes.plot(
                times, limit[:1] + limit, drawstyle="steps-pre", color=_ink() if same_limit else style["color"], linewidth=1.0,
                linestyle=(0, (4, 2)), label="limit" if same_limit else f"limit, {case}", zorder=2,
            )  # fmt: skip
        values = [_mean(row["goodput_bps"] for row in part) / 1e6 for part in parts]
        axes.plot(times, values[:1] + values, drawstyle="steps-pre", label=case, zorder=3, **style)
    axes.set_xlim(start_s, end)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("time (s)")
    # Cases that ran for different times are thinned differently.
    up_to = "" if len(set(means.values())) == 1 else "up to "
    axes.set_ylabel(f"goodput (Mbit/s), mean of {up_to}{_time(max(means.values()))}")
    _legend(figure, axes, f"{result.report['scenario']['name']}, seed {seed}")
    return figure


def _same(limits: Iterable[float]) -> bool:
    """Whether limits are alike, as the report sees it: within half a per cent."""
    values = list(limits)
    return max(values) - min(values) <= 0.005 * max(values)


def compare(result: Result, metric: str = "goodput_bps", *, cases: Sequence[str] | str | None = None) -> Figure:
    """Comparison of the cases: the mean over the seeds with its 95 % confidence interval, every seed as a small mark,
    and in words the ratio to the baseline with its interval, paired by seed.

    metric: one of those of `Result.estimate`, such as `goodput_bps`, `limit_share`, `rto_events` or `delay_p99_s`; the axis
    has its unit. cases: all if None; one may be given as a text.
    """
    if metric not in _METRICS:
        raise KeyError(f"there is no metric {metric!r}; there are {_listed(_METRICS)}")
    title, factor = _METRICS[metric]
    shown = _cases(result, cases)
    figure, axes = _figure(8.0, 1.5 + 0.62 * len(shown))
    ratios = {row["case"]: row for row in result.compare if row["metric"] == metric}
    most = 0.0
    for row, case in enumerate(shown):
        estimate = result.estimate(case, metric)
        colour = _style(result, case)["color"]
        low, high = estimate.ci95 or (estimate.mean, estimate.mean)
        values = [total[metric] for total in result.totals() if total["case"] == case]
        seeds = [value * factor for value in values if value is not None]
        axes.plot(seeds, [row - 0.24] * len(seeds), "|", color=colour, markersize=7, alpha=0.8, zorder=2)
        axes.errorbar(
            [estimate.mean * factor], [row],
            xerr=[[(estimate.mean - low) * factor], [(high - estimate.mean) * factor]] if estimate.ci95 else None,
            fmt=_MARKERS[result.cases.index(case) % len(_MARKERS)], color=colour, ecolor=_ink(),
            markersize=8, capsize=5, elinewidth=1.6, zorder=3,
        )  # fmt: skip
        most = max([most, high * factor, *seeds])
        axes.annotate(
            _in_words(estimate.mean * factor, estimate.ci95 and (high - low) / 2 * factor, ratios.get(case)),
            (1.02, row), xycoords=("axes fraction", "data"), va="center", fontsize=9, color=_ink(),
            annotation_clip=False,
        )  # fmt: skip
    if metric == "goodput_bps":
        limits = [
            _mean(run["link"]["goodput_limit_bps"] for run in result.runs if run["case"] == case) * factor for case in shown
        ]
        dashed: dict[str, Any] = {"color": _ink(), "linewidth": 1.2, "linestyle": (0, (4, 2)), "zorder": 1}
        words: dict[str, Any] = {"fontsize": 9, "color": _ink(), "annotation_clip": False, "textcoords": "offset points"}
        if _same(limits):
            limit = _mean(limits)
            axes.axvline(limit, **dashed)
            axes.annotate(
                f"limit {limit:.4g}", (limit, 1.0), xycoords=("data", "axes fraction"), xytext=(0, 3), ha="center", **words
            )
        else:
            # What is attainable is another with each case.
            for row, limit in enumerate(limits):
                axes.plot([limit, limit], [row - 0.4, row + 0.4], **dashed)
                axes.annotate(f"limit {limit:.4g}", (limit, row + 0.4), xytext=(-3, 1), ha="right", va="bottom", **words)
        most = max([most, *limits])
    axes.set_yticks(range(len(shown)), shown)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.set_xlim(0, most * 1.06 or 1.0)
    seeds_text = f"{len(result.seeds)} seeds, bars: 95 % interval" if len(result.seeds) > 1 else "one seed"
    axes.set_xlabel(f"{title}; {seeds_text}")
    axes.grid(axis="y", visible=False)
    axes.set_title(result.report["scenario"]["name"], loc="left", fontsize=10, pad=18)
    return figure


def delay_cdf(
    result: Result,
    *,
    cases: Sequence[str] | str | None = None,
    outside_silence: bool = False,
    tail: bool = False,
) -> Figure:
    """Distribution of the one-way delay of data segments in ms (logarithmic) over all seeds, a line for each case.

    cases: all if None; one may be given as a text. outside_silence: only segments that met no silence. tail: show the share of segments that took
    longer, also logarithmic, which makes the last per cent visible.
    """
    shown = _cases(result, cases)
    figure, axes = _figure(8.0, 4.2)
    everything: list[float] = []
    for case in shown:
        delays, shares = result.delay_cdf(case, outside_silence=outside_silence)
        if not delays:
            continue
        millis = [delays[0] * 1e3] + [delay * 1e3 for delay in delays]
        percent = [100 * ((1 - share) if tail else share) for share in [0.0, *shares]]
        if tail:
            # The last share is zero, which a logarithmic axis cannot show.
            percent[-1] = percent[-2]
        axes.plot(millis, percent, drawstyle="steps-post", label=case, **_style(result, case))
        everything += (millis[0], millis[-1])
    axes.set_xscale("log")
    if everything:
        ticks = _one_two_five(min(everything), max(everything))
        axes.set_xlim(ticks[0], ticks[-1])
        axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    segments = "segments that met no silence" if outside_silence else "segments"
    axes.set_xlabel("one-way delay (ms)")
    if tail:
        axes.set_yscale("log")
        axes.set_ylim(0.01, 110)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_ylabel(f"{segments} that took longer (%)")
    else:
        axes.set_ylim(0, 102)
        axes.set_ylabel(f"{segments} up to that delay (%)")
    _legend(figure, axes, result.report["scenario"]["name"])
    return figure


class _Figure(Figure):
    """A figure that a notebook shows once, whether it is the result of its cell or not."""

    def _ipython_display_(self) -> None:
        import importlib
        from io import BytesIO

        # There is no need for IPython's types where only IPython calls.
        notebook: Any = importlib.import_module("IPython.display")
        picture = BytesIO()
        self.savefig(picture, format="png")
        notebook.display(notebook.Image(picture.getvalue()))
        if "inline" in matplotlib.get_backend():
            # At the end of a cell the inline backend shows every figure that is still open, and closes it.
            pyplot.close(self)


def _ink() -> str:
    """The colour of text in the style in force, which may be a dark one."""
    return colors.to_hex(matplotlib.rcParams["text.color"])


def _colour(index: int) -> str:
    if index < len(_COLOURS):
        return _COLOURS[index] or _ink()
    # Steps of the golden angle never come back to a hue, and stay far from those just before.
    red, green, blue = colorsys.hls_to_rgb(index * 137.508 / 360 % 1, 0.42, 0.65)
    return f"#{round(red * 255):02X}{round(green * 255):02X}{round(blue * 255):02X}"


def _figure(width: float, height: float) -> tuple[Figure, Axes]:
    figure = pyplot.figure(FigureClass=_Figure, figsize=(width, height), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    axes.set_axisbelow(True)
    axes.grid(visible=True, linewidth=0.8, alpha=_GRID)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _legend(figure: Figure, axes: Axes, title: str) -> None:
    # Lines come first, shades last. The legend is outside the axes, where it hides nothing and the layout makes room.
    handles, labels = axes.get_legend_handles_labels()
    order = sorted(range(len(labels)), key=lambda index: labels[index].startswith("silence, "))
    words = [labels[index] for index in order]
    figure.legend(
        [handles[index] for index in order], words, title=title,
        loc="outside upper left", alignment="left", ncols=_columns(words), frameon=False, fontsize=9, title_fontsize=10,
        handlelength=2.6,
    )  # fmt: skip


def _columns(labels: list[str]) -> int:
    """In how many columns a legend is no wider than its figure."""
    for columns in range(min(5, len(labels)), 1, -1):
        # As matplotlib splits them: the first columns have one more.
        rows, more = divmod(len(labels), columns)
        firsts = [rows * column + min(column, more) for column in range(columns + 1)]
        widest = [max(map(len, labels[first:last])) for first, last in zip(firsts, firsts[1:])]
        # A handle and the gaps are as wide as 8 letters, and 108 of them are as wide as the figure.
        if sum(widest) + 8 * columns <= 108:
            return columns
    return 1


def _cases(result: Result, wanted: Sequence[str] | str | None) -> list[str]:
    if wanted is None:
        return result.cases
    if not isinstance(wanted, (str, Iterable)):
        raise TypeError(f"cases is a list of names, or one name, not {wanted!r}")
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    if not names:
        raise ValueError(f"cases names no case; there are {_listed(result.cases)}, and None is all")
    for case in names:
        if case not in result.cases:
            raise KeyError(f"there is no case {case!r}; there are {_listed(result.cases)}")
    return names


def _style(result: Result, case: str) -> dict[str, Any]:
    index = result.cases.index(case)
    return {
        "color": _colour(index),
        "linestyle": _DASHES[index % len(_DASHES)],
        "linewidth": 1.6,
    }


def _shade(axes: Axes, silences: dict[str, list[dict[str, Any]]], start_s: float, until: float, end: float) -> None:
    """Shades the silences of the cases. If those from `start_s` to `until` differ, it shades those of the first case that
    has any, and the legend names it. Silences nearer to each other than a pixel are drawn as one.
    """
    seen = {
        case: {
            (max(row["start_s"], start_s), min(row["end_s"], until), row["station"])
            for row in rows
            if row["start_s"] < until and row["end_s"] > start_s
        }
        for case, rows in silences.items()
    }
    whose = ""
    # A case that ran for longer has those of the others, and more.
    case = max(silences, key=lambda case: len(silences[case]))
    if any(other != seen[case] for other in seen.values()):
        case = next(case for case in seen if seen[case])
        whose = f", {case}"
    rows = silences[case]
    of: dict[str, Callable[[Any], bool]] = {
        "network": lambda station: station is None,
        "station": lambda station: station is not None,
    }
    labels = {"network": "silence, whole network", "station": "silence, one station"}
    for scope, is_meant in of.items():
        spans: list[list[float]] = []
        for row in rows:
            if not is_meant(row["station"]) or row["end_s"] <= start_s or row["start_s"] >= end:
                continue
            if spans and row["start_s"] <= spans[-1][1] + (end - start_s) / 2000:
                spans[-1][1] = max(spans[-1][1], row["end_s"])
            else:
                spans.append([row["start_s"], row["end_s"]])
        for number, (start, stop) in enumerate(spans):
            label = labels[scope] + whose if number == 0 else None
            colour, alpha = _SILENT[scope]
            axes.axvspan(start, stop, color=colour or _ink(), alpha=alpha, linewidth=0, zorder=0, label=label)


def _rows_of(table: pa.Table, seed: int, *, routers: bool = False) -> list[dict[str, Any]]:
    # Arrow picks the rows before they become dicts: with many flows they are a small part of the table.
    from pyarrow import compute

    wanted = compute.equal(table["seed"], seed)
    if routers:
        wanted = compute.and_(wanted, compute.is_null(table["flow"]))
    rows: list[dict[str, Any]] = table.filter(wanted).to_pylist()
    return rows


def _in_words(mean: float, half: float | None, row: dict[str, Any] | None) -> str:
    text = f"{mean:.4g}" if half is None else f"{mean:.4g} ± {half:.2g}"
    if row is None or row["ratio"] is None:
        return text
    interval = "" if row["ci95"] is None else f" ({row['ci95'][0]:.3f} to {row['ci95'][1]:.3f})"
    return f"{text}\n{row['ratio']:.3f} × {row['baseline']}{interval}"


def _mean(values: Iterable[float | None]) -> float:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else float("nan")


def _one_two_five(low: float, high: float) -> list[float]:
    """The ticks 1, 2, 5, 10, ... from the last not above `low` to the first not below `high`."""
    ticks = [step * 10.0**exponent for exponent in range(-6, 9) for step in (1, 2, 5)]
    first = max((index for index, tick in enumerate(ticks) if tick <= low), default=0)
    last = min((index for index, tick in enumerate(ticks) if tick >= high), default=len(ticks) - 1)
    return ticks[first : last + 1]


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _listed(items: Iterable[Any]) -> str:
    return ", ".join(str(item) for item in items)
