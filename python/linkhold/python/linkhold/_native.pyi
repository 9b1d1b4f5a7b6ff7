"""The native half of the package. Import `linkhold` instead."""

from collections.abc import Callable
from typing import TypedDict

__version__: str
__commit__: str

class Problem(TypedDict):
    """One thing that is wrong with a scenario."""

    file: str | None
    line: int | None
    column: int | None
    set: str | None
    key: str
    what: str
    right: str

class ScenarioError(ValueError):
    """A scenario is wrong; the text has a line for every problem."""

    problems: list[Problem]

class RunError(RuntimeError):
    """A run could not start; the text names its case and seed."""

class Run:
    """The report and the series of one scenario."""

    def report_json(self) -> str: ...
    def write_parquet(self, folder: str) -> None: ...
    def delay_cdf(self, case: str, outside_silence: bool) -> tuple[list[float], list[float]]: ...
    def estimate(self, case: str, metric: str) -> tuple[int, float, float, tuple[float, float] | None]: ...
    def table(self, width: int | None = None) -> str: ...
    def html(self) -> str: ...
    def html_table(self) -> str: ...
    def scenario_toml(self) -> str: ...

def run_points(
    file: str | None,
    text: str | None,
    points: list[list[str]],
    seeds: int,
    threads: int | None,
    keep_series: bool,
    baseline: str | None = None,
    tell: Callable[[list[str]], None] | None = None,
) -> list[Run]: ...
def check(
    file: str | None, text: str | None, set: list[str]
) -> tuple[str, str, list[str], list[tuple[str, str]], str, list[str]]: ...
def check_simulated(file: str | None, text: str | None, set: list[str]) -> list[str]: ...
def schema() -> str: ...
