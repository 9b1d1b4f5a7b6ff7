"""What README.md says of the aim for delay (scripts/readme_numbers.py). LINKHOLD names the program, which only computes means and
intervals here."""

import json
import pathlib
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))

import readme_numbers  # noqa: E402
from estimates import at_most  # noqa: E402
from measured import Measured  # noqa: E402

DELAY = "delay_p99_outside_silence_s"


def aim(*columns):
    """The sentence, where linkhold's percentile is so many ms beyond fq_codel's in the seeds of each column."""
    parts = {"measured": {}}
    for part, excess in zip(readme_numbers.COLUMNS, columns, strict=True):
        # fq_codel's differs far more from seed to seed than the excess does.
        alone = [{"case": "fq_codel", "cc": "cubic", "seed": seed, DELAY: 0.05 * seed} for seed in range(1, len(excess) + 1)]
        parts[part] = alone + [{**run, "case": "dsasync", DELAY: run[DELAY] + more / 1e3} for run, more in zip(alone, excess)]
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "raw.json").write_text(json.dumps(parts))
        return readme_numbers.aim(Measured(pathlib.Path(folder)))


class Aim(unittest.TestCase):
    def test_a_mean_below_the_aim_is_not_met_if_its_interval_reaches_beyond(self):
        said = aim([10, 11, 12], [-1, 26, 18], [30, 31, 32])
        self.assertIn("is met in the first column, is undecided in the second column and is missed in the last column:", said)
        self.assertIn("seed by seed the excess is 11.0 ± 2.5, 14.3 ± ", said)

    def test_columns_with_one_verdict_are_named_together(self):
        self.assertIn("is met in every column:", aim([1, 2, 3], [1, 2, 3], [1, 2, 3]))
        self.assertIn("is met in the first and last column and is missed in the second column:", aim([1, 2, 3], [41, 42, 43], [1, 2, 3]))

    def test_one_seed_decides_nothing(self):
        self.assertIn("is undecided in every column: seed by seed the excess is 1.0, 2.0 and 40.0 ms (", aim([1], [2], [40]))

    def test_the_bound_itself_is_met(self):
        self.assertEqual([at_most(24, 1, 25), at_most(24.5, 1, 25), at_most(26, 1, 25), at_most(26.5, 1, 25)], ["met", "undecided", "undecided", "missed"])


if __name__ == "__main__":
    unittest.main()
