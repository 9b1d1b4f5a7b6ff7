"""Run a scenario at every point of a grid, on this machine or on a Dask cluster."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Union, overload

from . import _native
from ._run import pyarrow, totals_of
from ._scenario import MAX_SEEDS, Overrides, Scenario, overrides, source, tell, threads_of, whole

if TYPE_CHECKING:
    import pyarrow as pa

Point = Mapping[str, Any]
Grid = Union[Mapping[str, Sequence[Any]], Iterable[Point]]
Row = dict[str, Any]

# Keys that a point cannot have, each with what to do instead: rows already have columns for seed and case.
_TAKEN = {"seed": "the scenario's seed changes by seeds=N and set", "cases": "name a case's key, as cases.NAME.mode"}

# Totals that are objects, with what the columns of their values begin with in `Result.flows`.
_NESTED = {"udp": "datagrams_", "quic": "quic_", "media": "media_", "web": "web_"}
_UNPREFIXED = ("jitter_s",)


@overload
def sweep(
    scenario: Scenario,
    over: Grid,
    set: Overrides = ...,
    seeds: int = ...,
    threads: int | None = ...,
    client: Any = ...,
    table: Literal[False] = ...,
) -> list[Row]: ...
@overload
def sweep(
    scenario: Scenario,
    over: Grid,
    set: Overrides = ...,
    seeds: int = ...,
    threads: int | None = ...,
    client: Any = ...,
    *,
    table: Literal[True],
) -> pa.Table: ...
def sweep(
    scenario: Scenario,
    over: Grid,
    set: Overrides = (),
    seeds: int = 1,
    threads: int | None = None,
    client: Any = None,
    table: bool = False,
) -> list[Row] | pa.Table:
    """Run a scenario at every point, and return one row of totals for each point, case and seed, in that order.

        linkhold.sweep("demo.toml", over={"wired.rtt": ["3ms", "50ms"], "router.limit": ["50pkt", "1000pkt"]}, seeds=5)

    scenario, set, seeds: as for `run`; `over` is applied after `set`.
    over: a dict of every key's values, in which every combination is a point (the last key varies fastest); or a list
        of points, each a dict.
    threads: number of threads; one per core if None. With a client, threads of each task; 1 if None.
    client: a `dask.distributed.Client`, on which every point is a task. A scenario with measured traces needs them at the
        same path on every worker.
    table: return a pyarrow Table instead of a list of dicts. A column of values of several kinds (a number and "off")
        has them as text, and a total that no row has is a column of nulls of type double. The totals `udp`, `quic`,
        `media` and `web` are a column for each of their values, named as in `Result.flows`: `datagrams_lost`, `jitter_s`,
        `media_stalls`, `web_page_p95_s`.

    Columns: the keys of `over` with the values as given, then `case`, `seed` and the other columns of `Result.totals`,
    rates in bit/s, times in s; last `version` and `commit` of the program that ran the row.

    Everything is checked before the first run. Raises and warns as `run` does, of all points together.
    """
    points = _points(over)
    file, text = source(scenario)
    count = whole("seeds", seeds, MAX_SEEDS)
    base = overrides(set)
    sets = [base + overrides(point) for point in points]
    per_point = (
        _here(file, text, sets, count, threads_of(threads))
        if client is None
        else _on_cluster(client, file, text, sets, count, threads_of(threads) or 1)
    )
    rows = [{**point, **row} for point, rows_of_point in zip(points, per_point) for row in rows_of_point]
    return _table(points, rows) if table else rows


def _table(points: list[Point], rows: list[Row]) -> pa.Table:
    rows = [_flat(row) for row in rows]
    # Not every point has every key, and not every row every total.
    names = dict.fromkeys(name for part in (points, rows) for row in part for name in row)
    return pyarrow().table({name: _column([row.get(name) for row in rows]) for name in names})


def _flat(row: Row) -> Row:
    """The row with the values of nested totals beside the others."""
    flat: Row = {}
    for name, value in row.items():
        if name in _NESTED and isinstance(value, Mapping):
            flat.update({key if key in _UNPREFIXED else _NESTED[name] + key: item for key, item in value.items()})
        else:
            flat[name] = value
    return flat


def _column(values: list[Any]) -> pa.Array:
    arrow = pyarrow()
    if all(value is None for value in values):
        # What may be missing in every row is a number.
        return arrow.array(values, arrow.float64())
    try:
        return arrow.array(values)
    except (arrow.ArrowInvalid, arrow.ArrowTypeError):
        return arrow.array([None if value is None else str(value) for value in values])


def _points(over: Grid) -> list[Point]:
    if isinstance(over, Mapping):
        for key, values in over.items():
            if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
                raise TypeError(f'over["{key}"] is a list of values; write [{values!r}]')
        points: list[Point] = [dict(zip(over, values)) for values in itertools.product(*over.values())]
    else:
        if isinstance(over, str) or not isinstance(over, Iterable):
            raise TypeError(f'over is a dict of lists, as {{"wired.rtt": ["3ms", "50ms"]}}, or a list of dicts, not {over!r}')
        listed = list(over)
        for point in listed:
            if not isinstance(point, Mapping):
                raise TypeError(f'over is a list of points, each a dict as {{"wired.rtt": "3ms"}}, and {point!r} is none')
        points = [dict(point) for point in listed]
    if not points:
        raise ValueError("over names no point; every key needs at least one value")
    for key in dict.fromkeys(key for point in points for key in point):
        if key in _TAKEN:
            raise ValueError(f"over cannot have the key {key!r}: {_TAKEN[key]}")
    return points


def _here(
    file: str | None, text: str | None, sets: list[list[str]], seeds: int, threads: int | None
) -> Iterable[list[Row]]:
    # All points, cases and seeds share one pool, so that a scenario with few cases also keeps all cores busy.
    return [_rows(native) for native in _native.run_points(file, text, sets, seeds, threads, False, None, tell)]


def _rows(native: _native.Run) -> list[Row]:
    report = json.loads(native.report_json())
    # On a cluster this is the worker's program.
    program = {name: report["program"][name] for name in ("version", "commit")}
    return [{**totals_of(run), **program} for run in report["runs"]]


def _on_worker(
    overrides_of_point: list[str], file: str | None, text: str | None, seeds: int, threads: int
) -> list[Row]:
    [native] = _native.run_points(file, text, [overrides_of_point], seeds, threads, False)
    return _rows(native)


def _on_cluster(
    client: Any, file: str | None, text: str | None, sets: list[list[str]], seeds: int, threads: int
) -> Iterable[list[Row]]:
    # Told here: nobody may see what a worker warns of.
    tell([hint for overrides_of_point in sets for hint in _native.check_simulated(file, text, overrides_of_point)])
    if text is None and file is not None:
        # Workers get the text, so that they need no files of the caller except traces.
        with open(file, encoding="utf-8") as opened:
            text = opened.read()
    # Traces are looked for from the caller's folder, and not from a worker's.
    file = os.path.abspath("<scenario text>" if file is None else file)
    futures = client.map(_on_worker, sets, file=file, text=text, seeds=seeds, threads=threads, pure=False)
    try:
        rows: list[list[Row]] = client.gather(futures)
    except BaseException:
        client.cancel(futures)
        raise
    return rows
