"""`plots`: the figures show the numbers of the result."""

from __future__ import annotations

import linkhold
import pytest

pytest.importorskip("matplotlib").use("Agg")


@pytest.fixture(autouse=True)
def closed_figures():
    from matplotlib import pyplot

    yield
    pyplot.close("all")


def test_pyplot_knows_the_figures(result):
    from matplotlib import pyplot

    figure = linkhold.plots.compare(result)
    assert pyplot.gcf() is figure
    pyplot.close(figure)
    assert not pyplot.get_fignums()


NOTEBOOK = """
import sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

class Shell(InteractiveShell):
    def enable_gui(self, gui=None):
        "A notebook's kernel has no windows."

shell = Shell.instance()
shell.run_line_magic("matplotlib", "inline")
shell.user_ns["text"] = sys.stdin.read()
assert shell.run_cell("import linkhold; result = linkhold.run(text, set={'duration': '1s'})").success
for cell in ("figure = linkhold.plots.compare(result)", "linkhold.plots.compare(result)", "figure"):
    with capture_output() as shown:
        done = shell.run_cell(cell)
    assert done.success, done
    print(cell, "|", sum("image/png" in output.data for output in shown.outputs))
"""


def test_a_notebook_shows_each_figure_once():
    import subprocess
    import sys

    pytest.importorskip("IPython")
    from conftest import SCENARIO

    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK], input=SCENARIO, capture_output=True, text=True, timeout=120
    )  # fmt: skip
    counts = [line.rpartition("| ")[2] for line in done.stdout.splitlines() if " | " in line]
    assert counts == ["1", "1", "1"], done.stdout + done.stderr


def test_no_two_of_many_cases_have_the_same_colour():
    assert len({linkhold.plots._colour(index) for index in range(64)}) == 64


def lines(figure, label):
    return [line for line in figure.axes[0].lines if line.get_label() == label]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def rendered(figure, tmp_path):
    path = tmp_path / "figure.png"
    figure.savefig(path)
    return path.stat().st_size


def test_goodput_over_time_has_a_line_a_case_the_limit_and_shaded_silences(result, tmp_path):
    figure = linkhold.plots.goodput(result, seed=8)
    assert legend(figure) == ["limit", "none", "dsasync", "silence, whole network", "silence, one station"]
    assert figure.axes[0].get_xlabel() == "time (s)"
    assert figure.axes[0].get_ylabel() == "goodput (Mbit/s), mean of 100 ms"
    [line] = lines(figure, "none")
    rows = [
        row["goodput_bps"] / 1e6
        for row in result.series().to_pylist()
        if row["flow"] is None and (row["case"], row["seed"]) == ("none", 8)
    ]
    assert list(line.get_ydata())[1:] == pytest.approx(rows)
    assert rendered(figure, tmp_path) > 10_000


def test_where_cases_have_different_silences_the_legend_says_whose_are_shaded():
    from conftest import DIFFERENT

    result = linkhold.run(DIFFERENT)
    shades = lambda cases: [name for name in legend(linkhold.plots.goodput(result, cases=cases)) if name.startswith("silence")]
    assert shades(["none", "dsasync"]) == ["silence, whole network", "silence, one station"]
    assert shades(["often"]) == ["silence, whole network", "silence, one station"]
    assert shades(["none", "often"]) == ["silence, whole network, none", "silence, one station, none"]
    assert shades(["often", "none"]) == ["silence, whole network, often", "silence, one station, often"]
    figure = linkhold.plots.goodput(result)
    figure.canvas.draw()
    assert figure.legends[0].get_window_extent().x1 <= figure.bbox.x1


def test_a_case_that_ends_earlier_has_the_silences_of_the_others_until_then():
    from conftest import SCENARIO

    short = SCENARIO + '[[cases]]\nname = "short"\nset = { duration = "2s" }\n'
    result = linkhold.run(short)
    figure = linkhold.plots.goodput(result, cases=["short", "none"])
    assert legend(figure)[-2:] == ["silence, whole network", "silence, one station"]
    # Those of the case that ran on are there as well.
    assert len(figure.axes[0].patches) == len(linkhold.plots.goodput(result, cases="none").axes[0].patches)


def test_a_part_of_the_time_can_be_shown(result):
    figure = linkhold.plots.goodput(result, cases=["dsasync"], start_s=1.0, end_s=2.0)
    assert figure.axes[0].get_xlim() == (1.0, 2.0)
    [line] = lines(figure, "dsasync")
    assert len(line.get_xdata()) == 11
    assert not lines(figure, "none")


OFTEN_SILENT = """
schema = "linkhold.scenario/1"
name = "often-silent"
duration = "60s"
[radio]
phy_rate = "2Mbit/s"
[radio.sensing]
period = "50ms"
duration = "25ms"
[[flows]]
direction = "downlink"
"""


def test_a_part_of_a_long_run_shows_each_silence_by_itself():
    result = linkhold.run(OFTEN_SILENT)
    # 25 ms are less than a two-thousandth of the run, and much more than one of what is shown.
    figure = linkhold.plots.goodput(result, start_s=59.0, end_s=60.0)
    assert len(figure.axes[0].patches) in (20, 21)


def test_a_time_without_a_whole_interval_is_refused(result):
    with pytest.raises(ValueError, match="start_s = 0 to end_s = 0.05 no interval"):
        linkhold.plots.goodput(result, end_s=0.05)


def test_cases_with_limits_of_their_own_show_each():
    from conftest import SCENARIO

    slow = SCENARIO + '[[cases]]\nname = "slow"\nset = { "radio.phy_rate" = "6Mbit/s" }\n'
    result = linkhold.run(slow, set={"duration": "2s"})
    limits = {run["case"]: run["link"]["goodput_limit_bps"] / 1e6 for run in result.runs}
    words = [text.get_text() for text in linkhold.plots.compare(result).axes[0].texts]
    assert {f"limit {limit:.4g}" for limit in limits.values()} <= set(words)
    assert sum(text.startswith("limit ") for text in words) == len(limits)
    names = [name for name in legend(linkhold.plots.goodput(result)) if name.startswith("limit")]
    assert names == [f"limit, {case}" for case in result.cases]
    alike = linkhold.plots.compare(result, cases=["none", "dsasync"])
    assert sum(text.get_text().startswith("limit ") for text in alike.axes[0].texts) == 1


def test_long_series_are_thinned_to_means_and_the_axis_says_so():
    from conftest import SCENARIO

    long = linkhold.run(SCENARIO, set={"duration": "40s"})
    figure = linkhold.plots.goodput(long)
    assert figure.axes[0].get_ylabel() == "goodput (Mbit/s), mean of 200 ms"
    [line] = lines(figure, "none")
    assert len(line.get_xdata()) == 201


@pytest.mark.parametrize("metric", ["goodput_bps", "delay_p99_s", "queueing_delay_p95_s", "limit_share", "rto_events", "completion_mean_s"])
def test_cases_are_compared_with_their_intervals(result, tmp_path, metric):
    figure = linkhold.plots.compare(result, metric)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["none", "dsasync"]
    assert axes.get_xlabel().endswith("3 seeds, bars: 95 % interval")
    if metric == "goodput_bps":
        words = [text.get_text() for text in axes.texts]
        ratio = next(row["ratio"] for row in result.compare if row["metric"] == metric)
        assert any(f"{ratio:.3f} × none" in text for text in words), words
        low, high = result.estimate("dsasync").ci95
        [bar] = axes.containers[1].lines[2]
        [[[left, _], [right, _]]] = bar.get_segments()
        assert (left, right) == pytest.approx((low / 1e6, high / 1e6))
    assert rendered(figure, tmp_path) > 5_000


@pytest.mark.parametrize("act", ["goodput", "compare", "delay_cdf"])
def test_figures_have_the_colours_of_a_dark_style(act):
    from conftest import DIFFERENT
    from matplotlib import colors, pyplot

    # The seventh case is black on white.
    many = DIFFERENT + "".join(f'[[cases]]\nname = "c{number}"\n' for number in range(4))
    result = linkhold.run(many, set={"duration": "1s"})
    with pyplot.style.context("dark_background"):
        figure = getattr(linkhold.plots, act)(result)
        figure.canvas.draw()
    axes = figure.axes[0]
    texts = [axes.xaxis.label, *axes.get_xticklabels(), *axes.get_yticklabels(), *axes.texts]
    drawn = [text.get_color() for text in texts] + [axes.spines["left"].get_edgecolor()]
    drawn += [line.get_color() for line in axes.lines]
    # Brightness; the style's background is black.
    assert min(sum(colors.to_rgb(colour)) for colour in drawn) > 0.4
    assert axes.get_facecolor() == (0, 0, 0, 1)


def test_every_metric_of_the_comparison_has_an_axis_title(result):
    for row in result.compare:
        assert linkhold.plots.compare(result, row["metric"]).axes[0].get_xlabel()


def test_one_seed_has_no_bars():
    from conftest import SCENARIO

    axes = linkhold.plots.compare(linkhold.run(SCENARIO)).axes[0]
    assert axes.get_xlabel().endswith("; one seed")
    assert not any(container.lines[2] for container in axes.containers)


@pytest.mark.parametrize("tail", [False, True])
@pytest.mark.parametrize("outside_silence", [False, True])
def test_the_delay_distribution_rises_to_all_segments(result, tmp_path, tail, outside_silence):
    figure = linkhold.plots.delay_cdf(result, tail=tail, outside_silence=outside_silence)
    assert figure.axes[0].get_xlabel() == "one-way delay (ms)"
    assert legend(figure) == ["none", "dsasync"]
    [line] = lines(figure, "dsasync")
    y = list(line.get_ydata())
    assert (y[0], y == sorted(y, reverse=tail)) == (100.0 if tail else 0.0, True)
    assert tail or y[-1] == 100.0
    assert line.get_xdata()[-1] == pytest.approx(1e3 * result.delay_cdf("dsasync", outside_silence=outside_silence)[0][-1])
    assert rendered(figure, tmp_path) > 10_000


def test_names_that_do_not_exist_are_refused(result):
    with pytest.raises(KeyError, match="there are none, dsasync"):
        linkhold.plots.delay_cdf(result, cases=["nothing"])
    with pytest.raises(KeyError, match="there are 7, 8, 9"):
        linkhold.plots.goodput(result, seed=1)
    for other in ("speed", "kept_rtos", "silent_fraction"):
        with pytest.raises(KeyError, match="there are goodput_bps, limit_share, .*, completion_mean_s"):
            linkhold.plots.compare(result, other)


@pytest.mark.parametrize("act", ["goodput", "compare", "delay_cdf"])
def test_cases_are_a_list_of_names_or_one_name(result, act):
    from matplotlib import pyplot

    draw = getattr(linkhold.plots, act)
    refused = [([], ValueError, "there are none, dsasync"), (3, TypeError, "list of names"), ("nothing", KeyError, "no case 'nothing'")]
    for cases, kind, text in refused:
        with pytest.raises(kind, match=text):
            draw(result, cases=cases)
    assert not pyplot.get_fignums()
    one = draw(result, cases="dsasync").axes[0]
    assert one.get_lines() and len(one.get_lines()) == len(draw(result, cases=["dsasync"]).axes[0].get_lines())


def test_what_is_refused_opens_no_figure(result):
    from matplotlib import pyplot

    with pytest.raises(ValueError, match="no interval"):
        linkhold.plots.goodput(result, end_s=0.05)
    assert not pyplot.get_fignums()
