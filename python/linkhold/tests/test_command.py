"""The package and the command give the same results."""

from __future__ import annotations

import json

import linkhold
import pytest


def comparable(report: dict) -> dict:
    """The report without what depends on the build and on this machine's speed."""
    assert all(run.pop("wall_s") > 0 for run in report["runs"])
    assert report["program"].pop("commit")
    assert report["program"] == {"version": linkhold.__version__}
    return report


@pytest.mark.parametrize("overrides", [[], ["wired.rtt=50ms", "flows.0.count=2", "cases.dsasync.mechanism.mode=hold"]])
def test_same_scenario_and_seeds_give_the_json_of_the_command(run_command, scenario, monkeypatch, overrides):
    monkeypatch.chdir(scenario.parent)
    set_arguments = [part for text in overrides for part in ("--set", text)]
    done = run_command("run", scenario.name, "--seeds", "2", "--json", *set_arguments)
    assert done.returncode == 0, done.stderr
    ours = linkhold.run(scenario.name, set=overrides, seeds=2).report
    assert comparable(ours) == comparable(json.loads(done.stdout))


def test_tables_are_the_parquet_files_of_the_command(run_command, scenario, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(scenario.parent)
    done = run_command("run", scenario.name, "--seeds", "2", "--out", "out")
    assert done.returncode == 0, done.stderr
    result = linkhold.run(scenario, seeds=2)
    for name in ("flows", "series", "silences"):
        assert getattr(result, name)().equals(parquet.read_table(scenario.parent / "out" / f"{name}.parquet")), name


def test_errors_have_the_text_of_the_command(run_command, scenario, monkeypatch):
    monkeypatch.chdir(scenario.parent)
    scenario.write_text(scenario.read_text().replace('limit = "50pkt"', 'limt = "50pkt"'))
    done = run_command("run", scenario.name, "--set", "wired.rtt=20", "--json")
    assert done.returncode == 2
    with pytest.raises(linkhold.ScenarioError) as caught:
        linkhold.run(scenario.name, set={"wired.rtt": 20})
    assert str(caught.value) == done.stderr.strip()


def test_schema_is_the_one_of_the_command(run_command):
    assert json.loads(run_command("scenario", "schema").stdout) == linkhold.schema()
