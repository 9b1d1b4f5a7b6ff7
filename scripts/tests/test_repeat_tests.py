"""That what scripts/repeat_tests.sh repeats is there to be run."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class RepeatTests(unittest.TestCase):
    def test_every_listed_test_is_in_the_namespace_suite(self):
        script = (ROOT / "scripts/repeat_tests.sh").read_text()
        listed = re.search(r"^order=\(\n(.*?)^\)", script, re.MULTILINE | re.DOTALL)[1].split()
        suite = re.findall(r'^ +\("(\w+)", ', (ROOT / "crates/linkhold-linux/tests/namespaces/main.rs").read_text(), re.MULTILINE)
        self.assertGreater(len(suite), len(listed))
        self.assertEqual([name for name in listed if name not in suite], [])
        self.assertEqual(len(set(listed)), len(listed))


if __name__ == "__main__":
    unittest.main()
