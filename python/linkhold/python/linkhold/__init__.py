"""Simulate how TCP fares across radio links that fall silent, and what a mechanism at the base station wins back.

    import linkhold

    result = linkhold.run("scenarios/demo.toml", seeds=5)
    print(result)                                   # the command's table
    result.report["compare"]                        # every case against the baseline, paired by seed
    linkhold.plots.compare(result).savefig("goodput.png")

Quantities carry their unit. In results the unit is the end of a name: `_bps` is bits per second, `_s` seconds, `_bytes`
bytes; shares run from 0 to 1. In settings the unit is part of the text: "25ms", "24Mbit/s", "256KiB", "100pkt".

One scenario and one seed give the same results on any number of threads, and the same as the command `linkhold run`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._native import RunError, ScenarioError, __version__
from ._run import Checked, Estimate, Result, check, run, schema
from ._scenario import ScenarioWarning
from ._sweep import sweep

if TYPE_CHECKING:
    from . import plots as plots

# Without `plots`: "from linkhold import *" is for those without matplotlib, too.
__all__ = [
    "Checked",
    "Estimate",
    "Result",
    "RunError",
    "ScenarioError",
    "ScenarioWarning",
    "__version__",
    "check",
    "run",
    "schema",
    "sweep",
]


def __getattr__(name: str) -> Any:
    # Imported on first use, so that only plots need matplotlib.
    if name == "plots":
        import importlib

        return importlib.import_module(".plots", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
