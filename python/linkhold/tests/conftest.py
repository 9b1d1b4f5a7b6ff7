"""Shared by the tests: a small scenario, and the command to compare with."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]

SCENARIO = """\
schema = "linkhold.scenario/1"
name = "small"
description = "A cell that senses and has a primary user."
duration = "3s"
warm_up = "500ms"
seed = 7

[wired]
rtt = "20ms"

[radio]
phy_rate = "24Mbit/s"
mac_efficiency = 0.65
stations = 2
primary_user = { on_mean = "100ms", off_mean = "400ms" }
sensing = { period = "500ms", duration = "25ms" }

[[radio.station_sensing]]
station = 1
period = "1s"
duration = "200ms"

[router]
limit = "50pkt"

[[flows]]
direction = "downlink"
station = "all"
start = "100ms"

[[cases]]
name = "none"
mechanism = "none"

[[cases]]
name = "dsasync"
mechanism = "dsasync"

[output]
series_interval = "100ms"
"""


DIFFERENT = SCENARIO + """
[[cases]]
name = "often"
set = { "radio.sensing.period" = "250ms" }
"""

LATE = """\
schema = "linkhold.scenario/1"
name = "late"
duration = "1s"
[wired]
rtt = "20ms"
[radio]
phy_rate = "24Mbit/s"
[[flows]]
direction = "downlink"
[[flows]]
direction = "downlink"
start = "550ms"
[output]
series_interval = "100ms"
"""

# One of two stations has no flow.
HINTED = {"duration": "600ms", "flows.0.station": [0]}
HINT = "1 of 2 stations has no flow: write station = \"all\" under"


@pytest.fixture
def scenario(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "small.toml"
    path.write_text(SCENARIO, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def result():
    import linkhold

    return linkhold.run(SCENARIO, seeds=3)


@pytest.fixture(scope="session")
def command() -> str:
    """The `linkhold` command of this tree: LINKHOLD_BIN, or the debug build."""
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    binary = os.environ.get("LINKHOLD_BIN") or str(target / "debug" / "linkhold")
    if shutil.which(binary) is None:
        pytest.skip(f"no command at {binary}: build it (cargo build -p linkhold) or set LINKHOLD_BIN")
    return binary


@pytest.fixture
def run_command(command: str, scenario: pathlib.Path):
    """A function that runs the command in the scenario's folder."""

    def act(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [command, *arguments], capture_output=True, text=True, encoding="utf-8", cwd=scenario.parent, timeout=300
        )

    return act
