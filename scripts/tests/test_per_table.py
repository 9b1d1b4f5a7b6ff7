"""The table of packet error rates in per_tests.rs is what per_table.py computes with mpmath, which knows nothing of the program."""

import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "crates" / "linkhold-radio" / "src" / "snr"


def python_with_mpmath():
    """An interpreter that has mpmath: this one, or the system's."""
    for program in (sys.executable, "/usr/bin/python3"):
        if pathlib.Path(program).exists() and subprocess.run([program, "-c", "import mpmath"], capture_output=True).returncode == 0:
            return program
    return None


class Table(unittest.TestCase):
    def test_every_row_is_computed_anew(self):
        program = python_with_mpmath()
        if program is None:
            self.skipTest("mpmath is not installed (Debian: python3-mpmath)")
        printed = subprocess.run([program, FOLDER / "per_table.py"], check=True, capture_output=True, text=True).stdout
        computed = [(float(snr), value) for snr, value in re.findall(r"^([\d.]+) dB: (\S+)$", printed, re.M)]
        source = (FOLDER / "per_tests.rs").read_text()
        table = re.search(r"CCK_5_5_AT_1000_BYTES: .*?\[\n(.*?)\n\];", source, re.S)[1]
        rows = [(float(snr), value) for snr, value in re.findall(r'\(([\d.]+), "(\S+)"\)', table)]
        self.assertGreater(len(rows), 10)
        self.assertEqual(len(computed), len(rows))
        for (snr, expected), (at, found) in zip(computed, rows):
            self.assertEqual(at, snr)
            # In the table's form: seven digits and an exponent of two.
            self.assertEqual(found, f"{float(expected):.6e}")


if __name__ == "__main__":
    unittest.main()
