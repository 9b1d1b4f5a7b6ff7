"""`run`, `check` and `schema`."""

from __future__ import annotations

import json
import math
import os
import pathlib
import pickle
import signal
import statistics
import subprocess
import sys
import threading
import time
import warnings

import linkhold
import pytest
from conftest import HINT, HINTED, LATE, SCENARIO


def numbers(report: dict) -> list[dict]:
    return [{**run, "wall_s": None} for run in report["runs"]]


def test_a_result_has_the_contract(result):
    report = result.report
    assert report["schema"] == "linkhold.run/1"
    assert [(run["case"], run["seed"]) for run in report["runs"]] == [
        (case, seed) for case in ("none", "dsasync") for seed in (7, 8, 9)
    ]
    assert report["scenario"]["file"] == ""
    assert all(run["totals"]["goodput_bps"] > 0 for run in report["runs"])
    assert result.compare is report["compare"]
    assert {row["case"] for row in result.compare} == {"dsasync"}
    assert json.loads(json.dumps(report)) == report


def test_results_do_not_depend_on_threads(result):
    again = linkhold.run(SCENARIO, seeds=3, threads=1)
    assert numbers(again.report) == numbers(result.report)
    assert again.series().equals(result.series())


def test_other_seeds_give_other_silences_and_cases_share_them(result):
    def silences(case, seed):
        return [
            (row["start_s"], row["end_s"], row["station"])
            for row in result.silences().to_pylist()
            if row["case"] == case and row["seed"] == seed
        ]

    assert silences("none", 7) == silences("dsasync", 7)
    assert silences("none", 7) != silences("none", 8)


@pytest.mark.parametrize("as_path", [str, pathlib.Path])
def test_a_path_and_its_text_give_the_same(scenario, as_path):
    of_path = linkhold.run(as_path(scenario))
    assert of_path.report["scenario"]["file"] == str(scenario)
    assert numbers(of_path.report) == numbers(linkhold.run(SCENARIO).report)


def test_overrides_are_a_dict_or_a_list():
    as_list = linkhold.run(SCENARIO, set=["duration=1s", "wired.rtt=50ms", "radio.mac_efficiency=0.5"])
    as_dict = linkhold.run(SCENARIO, set={"duration": "1s", "wired.rtt": "50ms", "radio.mac_efficiency": 0.5})
    assert as_list.report["scenario"] == as_dict.report["scenario"]
    assert as_list.report["scenario"]["overrides"] == ["duration=1s", "wired.rtt=50ms", "radio.mac_efficiency=0.5"]
    assert numbers(as_list.report) == numbers(as_dict.report)


def test_values_of_every_kind_reach_the_scenario():
    checked = linkhold.check(
        SCENARIO,
        set={
            "radio.sensing.announced": False,
            "flows.0.station": [0, 1],
            "flows.0.source": {"rate": "2Mbit/s"},
            "flows.0.count": 3,
        },
    )
    assert "not announced" in checked.summary
    assert "3 connections on each of 2 stations, paced at 2" in checked.summary


@pytest.mark.parametrize(
    "act", [linkhold.run, linkhold.check, lambda text, set: linkhold.sweep(text, over={"wired.rtt": ["3ms", "9ms"]}, set=set)]
)
def test_what_is_probably_not_meant_is_warned_of_once_where_it_was_called(act):
    with pytest.warns(linkhold.ScenarioWarning) as caught:
        act(SCENARIO, set=HINTED)
    [warning] = caught
    assert str(warning.message).startswith(HINT)
    assert (warning.category, warning.filename) == (linkhold.ScenarioWarning, __file__)


def test_a_warning_that_is_an_error_ends_a_run_before_it_begins():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(linkhold.ScenarioWarning, match="has no flow"):
            linkhold.run(SCENARIO, set={**HINTED, "duration": "100000min"})


def test_numbers_of_numpy_are_numbers():
    numpy = pytest.importorskip("numpy")
    plain = linkhold.check(SCENARIO, set={"radio.mac_efficiency": 0.5, "flows.0.count": 2})
    assert linkhold.check(SCENARIO, set={"radio.mac_efficiency": numpy.float64(0.5), "flows.0.count": numpy.int32(2)}) == plain


def test_check_says_what_a_scenario_comes_to():
    checked = linkhold.check(SCENARIO)
    assert (checked.name, checked.cases) == ("small", ["none", "dsasync"])
    assert "20ms round trip" in dict(checked.facts)["wired"]
    assert checked.summary in str(checked)


def test_schema_describes_the_file():
    assert {"radio", "flows", "cases"} <= linkhold.schema()["properties"].keys()


def test_quic_is_read_and_not_simulated(scenario):
    scenario.write_text(SCENARIO.replace('start = "100ms"', 'start = "100ms"\ntransport = "quic"'))
    assert "over QUIC (testbed only)" in linkhold.check(scenario).summary
    with pytest.raises(linkhold.ScenarioError) as caught:
        linkhold.run(scenario)
    [problem] = caught.value.problems
    line = SCENARIO.splitlines().index('start = "100ms"') + 2
    assert (problem["file"], problem["line"], problem["key"]) == (str(scenario), line, "flows[0].transport")
    assert "the simulator has no QUIC" in problem["what"] and "linkhold testbed" in problem["right"]


def test_every_problem_is_told_with_file_line_and_key(scenario):
    scenario.write_text(SCENARIO.replace('limit = "50pkt"', 'limt = "50pkt"'))
    with pytest.raises(linkhold.ScenarioError) as caught:
        linkhold.run(scenario, set=["wired.rtt=20"])
    error = caught.value
    assert isinstance(error, ValueError)
    line = SCENARIO.splitlines().index('limit = "50pkt"') + 1
    assert f"{scenario}:{line}:1: router.limt: unknown key" in str(error)
    by_key = {problem["key"]: problem for problem in error.problems}
    assert (by_key["router.limt"]["file"], by_key["router.limt"]["line"]) == (str(scenario), line)
    assert (by_key["wired.rtt"]["set"], by_key["wired.rtt"]["line"]) == ("wired.rtt=20", None)
    assert "has no unit" in by_key["wired.rtt"]["what"]
    with pytest.raises(linkhold.ScenarioError):
        linkhold.check(scenario)


def test_a_file_that_is_not_there_is_told(tmp_path):
    for act in (linkhold.run, linkhold.check, lambda path: linkhold.sweep(path, over={"wired.rtt": ["3ms"]})):
        with pytest.raises(FileNotFoundError) as caught:
            act(tmp_path / "none.toml")
        assert caught.value.filename == str(tmp_path / "none.toml")
    with pytest.raises(linkhold.ScenarioError, match="cannot read the scenario file: it is a folder"):
        linkhold.run(tmp_path)


def test_a_text_without_a_file_has_a_name_in_errors():
    with pytest.raises(linkhold.ScenarioError, match=r"^<scenario text>:1:\d+: schema: "):
        linkhold.run(SCENARIO.replace("scenario/1", "scenario/99"))


def test_errors_survive_pickling():
    with pytest.raises(linkhold.ScenarioError) as caught:
        linkhold.check(SCENARIO, set=["wired.rtt=20"])
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy), copy.problems) == (linkhold.ScenarioError, str(caught.value), caught.value.problems)


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ({"seeds": 0}, ValueError),
        ({"seeds": 1.5}, TypeError),
        ({"seeds": True}, TypeError),
        ({"threads": 0}, ValueError),
        ({"set": "wired.rtt=50ms"}, TypeError),
        ({"set": [("wired.rtt", "50ms")]}, TypeError),
        ({"set": {"wired.rtt": None}}, TypeError),
    ],
)
def test_bad_arguments_are_refused(arguments, kind):
    with pytest.raises(kind):
        linkhold.run(SCENARIO, **arguments)
    with pytest.raises(TypeError, match="path or the text"):
        linkhold.run(42)


def test_an_estimate_is_students(result):
    values = [row["goodput_bps"] for row in result.totals() if row["case"] == "none"]
    estimate = result.estimate("none")
    assert estimate.n == 3
    assert estimate.mean == pytest.approx(statistics.fmean(values))
    assert estimate.std == pytest.approx(statistics.stdev(values))
    # t(0.975, 2) = 4.30265 (any table).
    half = 4.30265 * statistics.stdev(values) / math.sqrt(3)
    assert estimate.ci95 == pytest.approx((estimate.mean - half, estimate.mean + half), rel=1e-5)
    with pytest.raises(KeyError, match="there are none, dsasync"):
        result.estimate("nothing")
    for other in ("speed", "kept_rtos", "goodput_limit_bps"):
        with pytest.raises(KeyError, match="there are goodput_bps, limit_share, .*, jain_index, completion_mean_s"):
            result.estimate("none", other)


def test_the_metrics_are_those_that_the_documentation_names(result):
    text = linkhold.Result.estimate.__doc__
    totals = [name for name in result.totals()[0] if name not in ("case", "seed")]
    named = [name for name in totals if f"`{name}`" in text or name.startswith(("delay_", "queueing_delay_"))]
    with pytest.raises(KeyError) as caught:
        result.estimate("none", "speed")
    assert sorted(named) == sorted(caught.value.args[0].partition("there are ")[2].split(", "))
    assert {row["metric"] for row in result.compare} <= {*named}


def test_the_delay_distribution_agrees_with_the_percentiles():
    result = linkhold.run(SCENARIO)
    totals = result.totals()[0]
    delays, shares = result.delay_cdf("none")
    assert delays == sorted(delays) and shares == sorted(shares) and shares[-1] == 1.0
    median = next(delay for delay, share in zip(delays, shares) if share >= 0.5)
    assert median == pytest.approx(totals["delay_p50_s"], rel=1 / 64)
    outside, _ = result.delay_cdf("none", outside_silence=True)
    assert outside[-1] < delays[-1]


def test_tables_hold_flows_series_and_silences(result):
    flows = result.flows().to_pylist()
    assert len(flows) == 2 * 3 * 2
    assert flows[0]["goodput_bps"] == result.runs[0]["flows"][0]["goodput_bps"]
    series = result.series().to_pylist()
    router = [row for row in series if row["flow"] is None and (row["case"], row["seed"]) == ("none", 7)]
    assert [round(row["t_s"], 6) for row in router] == [round(0.1 * step, 6) for step in range(1, 31)]
    assert {row["flow"] for row in series} == {None, 0, 1}
    silences = result.silences().to_pylist()
    assert {row["cause"] for row in silences} == {"sensing", "primary_user"}
    assert {row["station"] for row in silences} == {None, 1}


def test_before_a_flow_starts_the_series_has_no_readings():
    pytest.importorskip("pyarrow")
    rows = [row for row in linkhold.run(LATE).series().to_pylist() if row["flow"] == 1]
    before, after = rows[:5], rows[6:]
    assert [round(row["t_s"], 6) for row in rows] == [round(0.1 * step, 6) for step in range(1, 11)]
    for name in ("cwnd_bytes", "rtt_s", "in_flight_bytes"):
        assert [row[name] for row in before] == [None] * 5, name
        assert all(row[name] > 0 for row in after), name
    assert {row["ssthresh_bytes"] for row in before} == {None}
    assert {(row["goodput_bps"], row["rto_events"]) for row in before} == {(0.0, 0)}


def test_series_and_silences_have_the_limits_that_they_state():
    pytest.importorskip("pyarrow")
    series = linkhold.run(LATE, set={"flows.0.count": 70, "output.series_interval": "1ms"}).series()
    assert set(series["flow"].to_pylist()) == {None, *range(64)}
    router = [row["t_s"] for row in series.to_pylist() if row["flow"] is None]
    assert (len(router), router[0]) == (500, pytest.approx(0.002))
    assert "flows 0 to 63" in linkhold.Result.series.__doc__ and "fewer than 512" in linkhold.Result.series.__doc__
    assert "20,000" in linkhold.Result.silences.__doc__


def test_everything_but_plots_can_be_imported_without_matplotlib():
    code = "import sys; sys.modules['matplotlib'] = None\nfrom linkhold import *\nprint(sweep.__name__, 'plots' in globals())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["sweep", "False"], done.stderr


def test_the_package_has_the_licences():
    import importlib.metadata

    root = pathlib.Path(__file__).resolve().parents[3]
    files = {file.name: file for file in importlib.metadata.files("linkhold") or [] if file.name.startswith("LICENSE")}
    assert files.keys() == {"LICENSE-APACHE", "LICENSE-MIT"}
    for name, file in files.items():
        assert file.read_text() == (root / name).read_text()


def test_without_pyarrow_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import linkhold\n"
        "result = linkhold.run(sys.stdin.read(), set={'duration': '600ms'})\n"
        "assert result.report['runs']\n"
        "try: result.flows()\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input=SCENARIO, capture_output=True, text=True, timeout=60)
    assert "linkhold[tables]" in done.stdout, done.stderr


def test_printing_shows_the_table_and_the_report_is_a_page(result):
    assert "dsasync" in str(result) and "of limit" in str(result)
    assert repr(result) == "<linkhold.Result small: cases none, dsasync; seeds 3>"
    assert result.html().startswith("<!") and "small" in result.html()


def test_the_version_is_that_of_the_reports(result):
    program = result.report["program"]
    assert linkhold.__version__ == program["version"]
    assert program["commit"]


def test_a_result_pickles_with_everything_in_it(result):
    copy = pickle.loads(pickle.dumps(result))
    assert copy.report == result.report
    assert copy.series().equals(result.series())
    assert copy.silences().equals(result.silences())
    assert copy.delay_cdf("dsasync") == result.delay_cdf("dsasync")
    assert (copy.scenario, copy.html(), str(copy)) == (result.scenario, result.html(), str(result))


def test_a_notebook_shows_the_table_of_cases(result):
    text = result._repr_html_()
    assert "<table>" in text and "dsasync" in text and "3 seeds" in text
    assert f"{result.estimate('none').mean / 1e6:.1f}" in text
    renamed = linkhold.run(SCENARIO.replace('name = "dsasync"', 'name = "a-b"'), set={"duration": "1s"})
    assert ">a-b</span></td>" in renamed._repr_html_()


def test_the_scenario_of_a_result_gives_it_again():
    overrides = {"duration": "1s", "wired.rtt": "50ms"}
    changed = linkhold.run(SCENARIO, set=overrides)
    assert "wired.rtt=50ms" in changed.scenario
    assert numbers(linkhold.run(changed.scenario).report) == numbers(changed.report)
    assert linkhold.run(SCENARIO).scenario == SCENARIO


def test_a_baseline_can_be_named():
    named = linkhold.run(SCENARIO, set={"duration": "1s"}, seeds=2, baseline="dsasync")
    assert {(row["case"], row["baseline"]) for row in named.compare} == {("none", "dsasync")}
    with pytest.raises(KeyError, match="there are none, dsasync"):
        linkhold.run(SCENARIO, baseline="fifo")


def test_the_example_of_the_readme_runs(monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    matplotlib.use("Agg")
    root = pathlib.Path(__file__).resolve().parents[3]
    monkeypatch.chdir(root)
    text = (root / "python" / "linkhold" / "README.md").read_text()
    [example] = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    assert "seeds=5" in example and "to_pandas()" in example
    # One seed shows that every line runs; five take minutes in an unoptimised build.
    names: dict = {}
    exec(compile(example.replace("seeds=5", 'seeds=1, set={"duration": "16s"}'), "README.md", "exec"), names)
    assert len(names["rows"]) == 8 * len(names["result"].cases)


LONG = {"set": ["duration=1000min", "output.series_interval=10s"], "seeds": 4}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_an_interrupt_stops_the_runs():
    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    started = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            linkhold.run(SCENARIO, **LONG)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - started < 20


def test_other_threads_of_python_go_on_meanwhile():
    ticks = 0
    over = threading.Event()

    def count():
        nonlocal ticks
        while not over.wait(0.01):
            ticks += 1

    counter = threading.Thread(target=count)
    counter.start()
    started = time.monotonic()
    linkhold.run(SCENARIO, set={"duration": "60s", "output.series_interval": "1s"}, threads=1)
    spent = time.monotonic() - started
    over.set()
    counter.join()
    # A busy machine delays ticks, but if the run held the lock there would be one tick or none.
    assert ticks > min(5, spent * 10), f"{ticks} ticks in {spent:.2f} s with {os.cpu_count()} cores"
