"""What the runs over emulated Wi-Fi are judged by, and the constants of the agent that say when silences should begin and end.

Two aims for retransmissions, fixed before anything was measured, and not the same:
- Required (issue 8): with the agent at most a sixth of those without it. `make test-wifi` asserts it of its one pair of downloads
  (check.py), and `make wifi-page` of all its pairs together (scripts/wifi_page.py).
- Aimed at (issue 12): at most an eighth, in every pair, with as many bytes. scripts/wifi_page.py counts the pairs that meet it and
  writes that into docs/router.md; no test fails by it.
"""

import fractions
import pathlib
import re

MOST_REPEATED = fractions.Fraction(1, 6)
AIM_REPEATED = fractions.Fraction(1, 8)

TRANSLATOR = pathlib.Path(__file__).resolve().parents[2] / "crates" / "linkhold-linux" / "src" / "agent" / "nl80211" / "translator.rs"
UNITS = {"secs": 1, "millis": 1_000, "micros": 1_000_000}


def agents(name):
    """A duration among the constants of the agent's translator, seconds."""
    found = re.findall(rf"^pub const {name}: Duration = Duration::from_(\w+)\(([\d_]+)\);$", TRANSLATOR.read_text(), re.MULTILINE)
    if len(found) != 1 or found[0][0] not in UNITS:
        raise SystemExit(f"{TRANSLATOR}: no constant {name}, or not one that is written as `pub const {name}: Duration = ...`")
    unit, number = found[0]
    return int(number.replace("_", "")) / UNITS[unit]
