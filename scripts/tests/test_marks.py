"""Numbers between marks of a page (scripts/marks.py)."""

import pathlib
import sys
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(SCRIPTS))

import marks  # noqa: E402


class Marks(unittest.TestCase):
    def test_a_page_names_the_script_that_fills_it(self):
        script = SCRIPTS / "wifi_page.py"
        self.assertIsNone(marks.unnamed("[`wifi_page.py`](../scripts/wifi_page.py) writes it", script))
        self.assertIn("scripts/wifi_page.py", marks.unnamed("`make wifi-page` writes it", script))
        # A test, or a program that lies elsewhere, fills no page of ours.
        self.assertIsNone(marks.unnamed("nobody is named", pathlib.Path("/usr/lib/python3/unittest/__main__.py")))

    def test_marks_are_filled_and_what_has_no_place_is_refused(self):
        text = "it takes <!-- measured time -->3 ms<!-- /measured -->"
        self.assertIn("-->4 ms<", marks.filled("page", text, {"time": "4 ms"}))
        for contents in ({"rate": "1"}, {"time": "4 ms", "rate": "1"}):
            with self.assertRaises(SystemExit):
                marks.filled("page", text, contents)


if __name__ == "__main__":
    unittest.main()
