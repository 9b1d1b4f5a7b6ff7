"""Run or check one scenario."""

from __future__ import annotations

import html
import json
import os
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _native
from ._scenario import MAX_SEEDS, Overrides, Scenario, overrides, source, tell, threads_of, whole

if TYPE_CHECKING:
    import pyarrow as pa


class Estimate(NamedTuple):
    """A mean over the seeds of one case."""

    n: int
    """Number of seeds with a value of the metric."""
    mean: float
    """Mean of the values, in the metric's unit; nan without values."""
    std: float
    """Sample standard deviation; nan with fewer than two values."""
    ci95: tuple[float, float] | None
    """95 % confidence interval of the mean (Student's t); None with fewer than two values."""


class Checked(NamedTuple):
    """The content of a scenario that was checked and is valid."""

    name: str
    """Name of the scenario."""
    description: str
    """The scenario's own description, one or two sentences; may be empty."""
    cases: list[str]
    """Names of the cases, in the file's order."""
    facts: list[tuple[str, str]]
    """The settings as facts: what a fact is about ("router"), and the fact in words, with units."""
    summary: str
    """The facts as text, one on each line."""

    def __str__(self) -> str:
        return f"{self.name}\n{self.summary}"


class Result:
    """The results of a scenario's runs. `print` it for the table that the command prints."""

    def __init__(self, native: _native.Run) -> None:
        self._native = native
        self._report: dict[str, Any] | None = None
        self._tables: dict[str, pa.Table] | None = None

    @property
    def report(self) -> dict[str, Any]:
        """The object of the contract `linkhold.run/1`, the same as `linkhold run --json` prints.

        Keys: `schema`, `program`, `scenario`, `runs` (one for each case and seed, with `flows`, `link`, `totals` and
        `mechanisms`) and `compare`. A flow has `transport` only if it is not TCP. Rates are in bit/s (`_bps`), times in s
        (`_s`). Only `wall_s` differs if the same runs are repeated. A number that does not exist (the delay of a flow without data) is None.
        """
        if self._report is None:
            self._report = json.loads(self._native.report_json())
        return self._report

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The report's runs: cases in the file's order, seeds ascending within a case."""
        runs: list[dict[str, Any]] = self.report["runs"]
        return runs

    @property
    def compare(self) -> list[dict[str, Any]]:
        """Comparisons of every case but the baseline with the baseline, in every metric, paired by seed.

        Keys: `case`, `baseline`, `metric`, `unit`, `baseline_value`, `value` (means over the seeds, in `unit`),
        `ratio` (None if the baseline is 0) and its `ci95` (`[low, high]`; None with one seed).
        """
        rows: list[dict[str, Any]] = self.report["compare"]
        return rows

    @property
    def cases(self) -> list[str]:
        """Names of the cases, in the file's order."""
        return list(dict.fromkeys(run["case"] for run in self.runs))

    @property
    def seeds(self) -> list[int]:
        """The seeds, ascending."""
        return list(dict.fromkeys(run["seed"] for run in self.runs))

    def totals(self) -> list[dict[str, Any]]:
        """One row for each case and seed: sums over the flows, pooled delays, and the link.

        Columns: `case`, `seed`, the report's `totals` (`goodput_bps`, `limit_share`, `delay_p99_s`, ...),
        `goodput_limit_bps` in bit/s and `silent_fraction` from 0 to 1.
        """
        return [totals_of(run) for run in self.runs]

    def estimate(self, case: str, metric: str = "goodput_bps") -> Estimate:
        """Mean and 95 % interval of a metric over the seeds of `case`, in the metric's unit.

        The metrics are, of the `totals`, `goodput_bps`, `limit_share`, `retransmit_bps`, `retransmits`,
        `rto_events`, `jain_index`, `completion_mean_s`, and those that begin with `delay_` and `queueing_delay_`. Raises
        KeyError for a case or metric that is not there, with those that are.
        """
        return Estimate(*self._native.estimate(case, metric))

    def delay_cdf(self, case: str, *, outside_silence: bool = False) -> tuple[list[float], list[float]]:
        """Distribution of the one-way delay of data segments, over all seeds of `case`: a list of delays in s, and for
        each delay the share (0 to 1) of segments that took no longer. Delays are at most 1/64 too high.

        With `outside_silence` only segments that met no silence on their way count.
        """
        return self._native.delay_cdf(case, outside_silence)

    def flows(self) -> pa.Table:
        """One row for each flow of each run: `case`, `seed`, `flow`, `direction`, `station`, `start_s`, `goodput_bps`,
        `retransmit_bps`, `retransmits`, `rto_events`, `spurious_rtos`, `fast_recoveries`, `bytes`, `delay_mean_s`,
        `delay_std_s`, `delay_p50_s`, `delay_p95_s`, `delay_p99_s`, the same percentiles `_outside_silence_s`,
        `delay_min_s`, `queueing_delay_p50_s`, `_p95_s` and `_p99_s` (one-way delay less `delay_min_s`), `completion_s`,
        `resume_p50_s` and `kept_rtos` (reductions of the window for a timeout that were not undone); `transport`, and of
        flows that are not plain TCP `jitter_s` and columns that begin with `datagrams_`, `quic_`, `media_` and `web_`.
        Counts of timeouts and recoveries are null in results of `linkhold testbed` where the kernel does not tell them of a flow. The table
        is that of the command's `flows.parquet`. Needs pyarrow.
        """
        return self._table("flows")

    def series(self) -> pa.Table:
        """One row for each interval of a flow, or, where `flow` is null, of the router: `case`, `seed`, `flow`, `t_s`
        (end of the interval), `goodput_bps`; for a flow also `cwnd_bytes`, `ssthresh_bytes`, `rtt_s`, `in_flight_bytes`
        and `rto_events` (since the start); for the router also `limit_bps`, `held_bytes` and `queue_bytes`. What is read
        of a sender is null before its flow starts.

        There are limits: only flows 0 to 63 have rows, and each series has fewer than 512. A series that is full halves its
        rows and doubles its intervals: means for rates, the later reading for the rest. So an interval may be longer
        than the scenario's `output.series_interval`; `t_s` tells it. The table is that of the command's `series.parquet`.
        Needs pyarrow.
        """
        return self._table("series")

    def silences(self) -> pa.Table:
        """One row for each silence of each run: `case`, `seed`, `start_s`, `end_s`, `cause` (sensing, primary_user,
        channel_switch, fade or grant) and `station`, which is null where the whole network was silent. Of each run there
        are the first 20,000 at most; shares and counts in the report's `link` are of all. The table is that of the
        command's `silences.parquet`. Needs pyarrow.
        """
        return self._table("silences")

    @property
    def scenario(self) -> str:
        """The text of the scenario as it was run: run again, without `set` and from any folder, it gives the same."""
        return self._native.scenario_toml()

    def html(self) -> str:
        """The self-contained HTML report that the command writes."""
        return self._native.html()

    def _table(self, name: str) -> pa.Table:
        if self._tables is None:
            self._tables = _tables_of(self._native)
        return self._tables[name]

    def __reduce__(self) -> tuple[type[Result], tuple[_native.Run]]:
        # What was read from the native half can be read again.
        return Result, (self._native,)

    def __str__(self) -> str:
        return self._native.table()

    def _repr_html_(self) -> str:
        """What a notebook shows: the table of cases."""
        name = html.escape(self.report["scenario"]["name"])
        seeds = len(self.seeds)
        return f"<p><b>{name}</b>, {seeds} seed{'s' if seeds > 1 else ''}</p>{self._native.html_table()}"

    def __repr__(self) -> str:
        name = self.report["scenario"]["name"]
        return f"<linkhold.Result {name}: cases {', '.join(self.cases)}; seeds {len(self.seeds)}>"


def pyarrow() -> Any:
    """The optional package pyarrow; if it is missing, the error says how to get it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("tables need pyarrow: pip install 'linkhold[tables]'") from error
    return pyarrow


def _tables_of(native: _native.Run) -> dict[str, pa.Table]:
    # The tables are read from the command's own files, so that columns and types cannot differ from theirs.
    parquet = pyarrow().parquet
    with tempfile.TemporaryDirectory(prefix="linkhold-") as folder:
        native.write_parquet(folder)
        tables = {}
        for name in ("flows", "series", "silences"):
            with parquet.ParquetFile(os.path.join(folder, f"{name}.parquet")) as file:
                tables[name] = file.read()
        return tables


def totals_of(run: dict[str, Any]) -> dict[str, Any]:
    """One run of a report as a row."""
    link = run["link"]
    return {
        "case": run["case"],
        "seed": run["seed"],
        **run["totals"],
        "goodput_limit_bps": link["goodput_limit_bps"],
        "silent_fraction": link["silent_fraction"],
    }


def run(
    scenario: Scenario,
    set: Overrides = (),
    seeds: int = 1,
    threads: int | None = None,
    baseline: str | None = None,
) -> Result:
    """Run every case of a scenario with every seed, side by side.

    scenario: path of a scenario file, or its text (a `str` with a line break in it). Traces are looked for beside the
        file, or, for a text, in the working folder.
    set: keys to change, as `{"wired.rtt": "50ms"}` or `["wired.rtt=50ms"]`. A key is a dotted path; an element of a
        list is named by its index from 0, by its name, or by * for all. Quantities are texts with their unit. A case's
        own `set` is applied after this one.
    seeds: repetitions, counted up from the scenario's seed; two or more give confidence intervals.
    threads: number of threads; one per core if None. Results do not depend on it.

    baseline: name of the case that the others are compared with; the first if None.

    The interpreter's lock is released while runs go on; Ctrl-C stops them.

    Raises ScenarioError, a ValueError, with file, line and key of everything that is wrong with the scenario, and
    RunError, a RuntimeError, if a run cannot start; FileNotFoundError if there is no such scenario file, and KeyError if
    there is no case of the baseline's name. Warns, with ScenarioWarning, of what is valid and probably not meant, before
    the first run.
    """
    file, text = source(scenario)
    count = whole("seeds", seeds, MAX_SEEDS)
    [native] = _native.run_points(file, text, [overrides(set)], count, threads_of(threads), True, baseline, tell)
    return Result(native)


def check(scenario: Scenario, set: Overrides = ()) -> Checked:
    """Check a scenario without running it, and return its content in short. Raises ScenarioError and warns as `run`
    does. What only the testbed can run (QUIC) passes here, and is refused by `run`.
    """
    file, text = source(scenario)
    name, description, cases, facts, summary, hints = _native.check(file, text, overrides(set))
    tell(hints)
    return Checked(name, description, cases, facts, summary)


def schema() -> dict[str, Any]:
    """The JSON Schema of the scenario file: every key with its unit, default and meaning."""
    parsed: dict[str, Any] = json.loads(_native.schema())
    return parsed
