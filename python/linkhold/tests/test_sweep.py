"""`sweep`."""

from __future__ import annotations

import linkhold
import pytest
from conftest import HINT, HINTED, SCENARIO

SHORT = {"duration": "1s"}


def test_a_sweep_has_a_row_a_point_case_and_seed_in_order():
    over = {"wired.rtt": ["3ms", "50ms"], "router.limit": ["20pkt", "100pkt"]}
    rows = linkhold.sweep(SCENARIO, over=over, set=SHORT, seeds=2)
    assert [(row["wired.rtt"], row["router.limit"], row["case"], row["seed"]) for row in rows] == [
        (rtt, limit, case, seed)
        for rtt in over["wired.rtt"]
        for limit in over["router.limit"]
        for case in ("none", "dsasync")
        for seed in (7, 8)
    ]


def test_rows_are_those_of_single_runs():
    rows = linkhold.sweep(SCENARIO, over={"wired.rtt": ["3ms", "50ms"]}, set=SHORT)
    single = linkhold.run(SCENARIO, set={**SHORT, "wired.rtt": "50ms"}).totals()
    program = linkhold.run(SCENARIO, set=SHORT).report["program"]
    assert [{**row, "wired.rtt": None} for row in rows[2:]] == [{"wired.rtt": None, **row, **program} for row in single]
    assert rows[0]["delay_p50_s"] < rows[2]["delay_p50_s"]


def test_points_may_be_listed():
    rows = linkhold.sweep(SCENARIO, over=[{"wired.rtt": "3ms", "flows.0.count": 2}, {"wired.rtt": "50ms"}], set=SHORT)
    assert [(row["wired.rtt"], row.get("flows.0.count")) for row in rows[::2]] == [("3ms", 2), ("50ms", None)]


def test_a_sweep_can_be_a_table():
    pytest.importorskip("pyarrow")
    over = {"radio.mac_efficiency": [0.4, 0.8]}
    table = linkhold.sweep(SCENARIO, over=over, set=SHORT, table=True)
    assert table.column_names[-2:] == ["version", "commit"]
    assert set(table.column("version").to_pylist()) == {linkhold.__version__}
    assert table.column("radio.mac_efficiency").to_pylist() == [0.4, 0.4, 0.8, 0.8]
    limits = table.column("goodput_limit_bps").to_pylist()
    assert limits[2] == pytest.approx(2 * limits[0], rel=0.01)


def test_a_table_has_the_columns_of_all_points_and_values_of_several_kinds_as_text():
    pytest.importorskip("pyarrow")
    over = [{"wired.rtt": "3ms"}, {"wired.rtt": "3ms", "tcp.window_scale": "off"}, {"tcp.window_scale": 7}]
    table = linkhold.sweep(SCENARIO, over=over, set=SHORT, table=True)
    assert table.column_names[:4] == ["wired.rtt", "tcp.window_scale", "case", "seed"]
    assert table.column("wired.rtt").to_pylist()[::2] == ["3ms", "3ms", None]
    assert table.column("tcp.window_scale").to_pylist()[::2] == [None, "off", "7"]


def test_totals_that_no_row_has_are_numbers_in_a_table():
    pyarrow = pytest.importorskip("pyarrow")
    table = linkhold.sweep(SCENARIO, over={"wired.rtt": ["3ms"]}, set=SHORT, table=True)
    assert set(table.column("completion_mean_s").to_pylist()) == {None}
    assert table.schema.field("completion_mean_s").type == pyarrow.float64()
    assert not [field.name for field in table.schema if pyarrow.types.is_null(field.type)]


def test_a_table_has_a_column_for_each_value_of_nested_totals():
    pyarrow = pytest.importorskip("pyarrow")
    over = [{"flows.0.transport": "tcp"}, {"flows.0.transport": "udp", "flows.0.source": {"rate": "2Mbit/s"}}]
    table = linkhold.sweep(SCENARIO, over=over, set=SHORT, table=True)
    rows = linkhold.sweep(SCENARIO, over=over, set=SHORT)
    assert "udp" not in table.column_names
    for column, key in (("datagrams_sent", "sent"), ("datagrams_inside", "inside"), ("jitter_s", "jitter_s")):
        assert table.column(column).to_pylist() == [row["udp"][key] if "udp" in row else None for row in rows]
    flows = linkhold.run(SCENARIO, set={**SHORT, **over[1]}).flows()
    assert {name for name in table.column_names if name.startswith(("datagrams_", "jitter"))} - set(flows.column_names) == {
        "datagrams_inside"
    }
    assert pyarrow.types.is_integer(table.schema.field("datagrams_lost").type)


def test_everything_is_checked_before_anything_runs():
    with pytest.raises(linkhold.ScenarioError, match=r"--set wired\.rtt=fast"):
        linkhold.sweep(SCENARIO, over={"wired.rtt": ["3ms", "fast"]}, set={"duration": "100000min"})


@pytest.mark.parametrize(
    ("over", "kind", "text"),
    [
        ({"wired.rtt": []}, ValueError, "no point"),
        ({"wired.rtt": "3ms"}, TypeError, "list of values"),
        ("wired.rtt=3ms", TypeError, "a list of dicts, not 'wired.rtt=3ms'"),
        (["wired.rtt=3ms"], TypeError, "each a dict .*, and 'wired.rtt=3ms' is none"),
        ([("wired.rtt", "3ms")], TypeError, "each a dict"),
        (3, TypeError, "a list of dicts, not 3"),
        ({"seed": [1, 2]}, ValueError, "seeds=N"),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused(over, kind, text):
    with pytest.raises(kind, match=text):
        linkhold.sweep(SCENARIO, over=over)


class FakeClient:
    """The part of a Dask client that a sweep uses, in this process."""

    def __init__(self, fails=False):
        self.fails = fails
        self.cancelled = None

    def map(self, function, items, *, pure, **arguments):
        assert pure is False
        return [lambda item=item: function(item, **arguments) for item in items]

    def gather(self, futures):
        if self.fails:
            raise KeyboardInterrupt
        return [future() for future in futures]

    def cancel(self, futures):
        self.cancelled = len(futures)


def test_a_client_gives_the_rows_of_this_machine(scenario):
    over = {"wired.rtt": ["3ms", "50ms"]}
    here = linkhold.sweep(scenario, over=over, set=SHORT, seeds=2)
    assert linkhold.sweep(scenario, over=over, set=SHORT, seeds=2, client=FakeClient()) == here


@pytest.mark.parametrize("as_text", [False, True])
def test_workers_find_the_traces_of_the_caller(scenario, tmp_path, monkeypatch, as_text):
    class Elsewhere(FakeClient):
        def gather(self, futures):
            folder = tmp_path / "worker"
            folder.mkdir()
            monkeypatch.chdir(folder)
            return super().gather(futures)

    (tmp_path / "snr.csv").write_text("time,snr\n" + "".join(f"{step / 10},20\n" for step in range(31)))
    text = SCENARIO.replace("stations = 2", 'stations = 2\nsnr = { trace = "snr.csv", interval = "100ms" }')
    scenario.write_text(text)
    monkeypatch.chdir(tmp_path)
    given, over = text if as_text else scenario.name, {"wired.rtt": ["3ms"]}
    here = linkhold.sweep(given, over=over, set=SHORT)
    assert linkhold.sweep(given, over=over, set=SHORT, client=Elsewhere()) == here


def test_with_a_client_the_caller_is_warned_and_no_worker_is(scenario):
    with pytest.warns(linkhold.ScenarioWarning) as caught:
        linkhold.sweep(scenario, over={"wired.rtt": ["3ms", "50ms"]}, set=HINTED, client=FakeClient())
    [warning] = caught
    assert str(warning.message).startswith(HINT) and warning.filename == __file__


def test_a_client_gets_no_task_if_a_point_cannot_be_simulated(scenario):
    class Waiting(FakeClient):
        def map(self, *args, **arguments):
            raise AssertionError("a task was sent")

    over = {"flows.0.transport": ["tcp", "quic"]}
    with pytest.raises(linkhold.ScenarioError, match="no QUIC"):
        linkhold.sweep(scenario, over=over, set=SHORT, client=Waiting())


def test_a_client_is_told_to_stop_when_the_user_does(scenario):
    client = FakeClient(fails=True)
    with pytest.raises(KeyboardInterrupt):
        linkhold.sweep(scenario, over={"wired.rtt": ["3ms", "50ms"]}, set=SHORT, client=client)
    assert client.cancelled == 2


@pytest.mark.filterwarnings("default")
def test_a_dask_cluster_gives_the_rows_of_this_machine(scenario):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    over = {"wired.rtt": ["3ms", "50ms"]}
    here = linkhold.sweep(scenario, over=over, set=SHORT, seeds=2)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            assert linkhold.sweep(scenario, over=over, set=SHORT, seeds=2, client=client) == here
            with pytest.raises(linkhold.ScenarioError):
                linkhold.sweep(scenario, over={"wired.rtt": ["fast"]}, client=client)
