"""Numbers of pages that no script writes: what scripts/loose_numbers.py finds, and that each on the real pages is as its list says."""

import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import loose_numbers  # noqa: E402
from loose_numbers import Between, Entry, Tables, entries, faults, is_said, loose  # noqa: E402

MAKEFILE = (loose_numbers.ROOT / "Makefile").read_text()
TABLE = """# A page

<!-- measured -->
| claim | paper | measured |
|---|---:|---:|
| Goodput improves | 74.0 | −11.2 [−24.2, 1.71] |

Goodput:

| Mbit/s | `plain` | `frozen` |
|---|---:|---:|
| linux, 3 ms | 11.7 ± 0.91 | 12.4 |
| linux, 50 ms | 0.93 / 2.50 | 10.4 |
<!-- /measured -->

"""


def shown(text):
    return [number.shown for number in loose(text)]


class Found(unittest.TestCase):
    def test_numbers_with_a_unit_counts_and_shares_are_found(self):
        for text, found in (
            ("It carries 24 Mbit/s for 0.7 ms.", ["24 Mbit/s", "0.7 ms"]),
            ("By 31 to 38 %, in 3 of 12 cells.", ["31 to 38 %", "3 of 12"]),
            ("It keeps 0.97 of it, ±51 ms, −72 %.", ["0.97", "±51 ms", "−72 %"]),
            ("At most 1,234 packets and 56 ± 15 %\nof it", ["1,234 packets", "56 ± 15 %"]),
            ("| cell | 8 MB |", ["8 MB"]),
        ):
            self.assertEqual(shown(text), found, text)

    def test_names_code_addresses_and_what_scripts_wrote_are_not(self):
        for text in (
            "802.11 and 802.15.4, section 4.2, Linux 6.18, TS 38.133, two of 1500",
            "`--for 120ms` and `x\ny 3 ms`",
            "```sh\nsleep 3 s\n```",
            "<!-- measured NAME -->5 ms<!-- /measured --> and <!-- measured -->\n7 %\n<!-- /measured --> <!-- replace 8 MB -->",
            "[a page](docs/1.5.md) <https://example.org/2.5>",
            "runs ± half a 95 % interval",
        ):
            self.assertEqual(shown(text), [], text)

    def test_a_page_that_a_script_writes_whole_is_left_out(self):
        self.assertEqual(shown("# Page\n\nWritten by `make late-table`; do not edit. 9 %"), [])
        self.assertEqual(shown("# Page\n\nIt is not written by `make late-table`: 9 %"), ["9 %"])


class Typed(unittest.TestCase):
    def test_sentences_of_a_script_are_searched_and_its_documentation_is_not(self):
        script = '''"""It measures for 9 s in all of it."""
LINES = ["Written by `make late-table`; do not edit.", "A queue of 1000 packets ends it.", f"It has `{3} ms`, and 7 % of it are lost", "key 5 s", "radio.rate=3 Mbit/s and more of it"]
parser.add_argument("--seeds", help="as many as take 8 s to run")
'''
        self.assertEqual(shown(loose_numbers.typed(script)), ["1000 packets", "7 %"])


class Judged(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.page = pathlib.Path(folder.name) / "README.md"

    def faults(self, prose, *lines):
        self.page.write_text(TABLE + prose)
        return faults({"page": self.page}, entries("\n".join(["## page", *lines])))

    def test_a_number_needs_an_entry_and_an_entry_its_number(self):
        self.assertEqual(self.faults("It carries 12 ms more.", "setting | carries «12 ms» more"), [])
        self.assertIn("no script writes: It carries «12 ms» more", self.faults("It carries 12 ms more.")[0])
        missing = self.faults("It carries 13 ms more.", "setting | carries «12 ms» more")
        self.assertEqual(len(missing), 2)
        self.assertIn("has no longer", missing[1])

    def test_an_expression_must_give_the_number(self):
        line = '= 100 * (1 - t("Goodput", "50 ms", "plain") / t("Goodput", "3 ms", "plain")) | loses «92 %» there'
        self.assertEqual(self.faults("It loses 92 % there.", line), [])
        self.assertIn("the tables and files say", self.faults("It loses 93 % there.", line.replace("92", "93"))[0])
        self.assertIn("cannot be had", self.faults("It loses 92 % there.", line.replace("plain", "frosen"))[0])

    def test_what_is_measured_here_names_what_measured_it(self):
        for names, wrong in (("", 1), (" (commit 1234567)", 0), (" (`make late-table`)", 0), (" (`linkhold run x.toml`)", 0), (" as `tests/rates.rs` prints", 0)):
            self.assertEqual(len(self.faults(f"It takes 12 ms{names}.", "here | takes «12 ms»")), wrong, names)

    def test_there_are_no_other_reasons(self):
        self.assertIn("no reason 'hearsay'", self.faults("It takes 12 ms.", "hearsay | takes «12 ms»")[0])


class FromTables(unittest.TestCase):
    def test_cells_rows_claims_and_other_pages_are_read(self):
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "a" / "README.md"
            page.parent.mkdir()
            page.write_text(TABLE)
            tables = Tables(page)
            for expression, said in (
                ('claim("improves")', "−11.2"),
                ('half("Goodput", "linux, 3 ms", "plain")', "0.91"),
                ('t("Goodput", "50 ms", "plain", 1)', "2.50"),
                ('(least(*row("Goodput", "linux, 3 ms")), most(*column("Goodput", "frozen")))', "11.7 to 12.4"),
                ('of("../a").t("Goodput", "50 ms", "frozen")', "10.4"),
                ('[t("Goodput", one, "frozen") for one in ("linux, 3 ms", "linux, 50 ms")]', "12.4 and 10.4"),
            ):
                self.assertTrue(is_said(said, tables.value(expression)), expression)

    def test_a_number_may_be_what_its_rounding_hides_and_no_more(self):
        ratio = Between.shown("93.7") / Between.shown("354")
        self.assertTrue(is_said("0.264", [ratio]) and is_said("0.265", [ratio]))
        self.assertFalse(is_said("0.263", [ratio]))
        self.assertTrue(is_said("16 %", [Between.shown("15.7"), Between.shown("16.4")]))
        self.assertFalse(is_said("16 %", [Between.shown("15.7"), Between.shown("17.0")]))
        self.assertFalse(is_said("16 to 17 %", [Between.shown("16")]))

    def test_words_fit_one_entry_in_its_place(self):
        first, second = loose("With 5 ms it is as with 5 ms less.")
        entry = Entry("page", "setting", "as with «5 ms» less")
        self.assertTrue(entry.covers(second))
        self.assertFalse(entry.covers(first))


class FromFiles(unittest.TestCase):
    CODE = """/// How long a switch may be late: 500 ms.
pub const LATE: Duration = Duration::from_millis(500);
pub const SPACE: u64 = 64_000_000;
const SHARE: f64 = 0.97;
fn rates() -> [f64; 2] {
    let rates = [
        24.5,
        20.0,
    ];
    rates.min(100.0).min(100.0)
}
"""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "src").mkdir()
        (self.root / "src" / "code.rs").write_text(self.CODE)
        (self.root / "scenario.toml").write_text('rate = "24Mbit/s"\nburst = "-0.3s"\n')
        (self.root / "README.md").write_text("# A page\n")
        self.tables = Tables(self.root / "README.md")
        patched = mock.patch.object(loose_numbers, "ROOT", self.root)
        patched.start()
        self.addCleanup(patched.stop)

    def value(self, expression):
        (value,) = self.tables.value(expression)
        self.assertTrue(value.exact, expression)
        return value.least

    def test_a_number_is_read_in_the_gap_of_words_that_the_file_has_once(self):
        for words, number in (
            ("LATE: Duration = Duration::from_millis(«»)", 500),
            ("late: «» ms", 500),
            ("SHARE: f64 = «»;", 0.97),
            ("SPACE: u64 = «»;", 64_000_000),
            ("let rates = [ «», 20.0, ]", 24.5),
            ("let rates =\n[\n\t24.5,\n«»,", 20),
        ):
            self.assertEqual(self.value(f'at("src/code.rs", {words!r})'), number, words)
        self.assertEqual(self.value("""at("scenario.toml", 'rate = "«»Mbit/s"')"""), 24)
        self.assertEqual(self.value("""at("scenario.toml", 'burst = "«»s"')"""), -0.3)

    def test_a_number_is_read_whole(self):
        for words in ("[ 24.«»,", "[ «».5,", "SPACE: u64 = 64«»", "64_«»;", "LATE: Duration = Duration::from_millis(5«»)"):
            with self.assertRaisesRegex(LookupError, "0 times"):
                self.tables.at("src/code.rs", words)

    def test_words_that_are_not_there_once_are_an_error_that_says_how_often(self):
        for words, times in ((".min(«»)", 2), ("EARLY: Duration = Duration::from_millis(«»)", 0), ("LATE: Duration = «»;", 0)):
            with self.assertRaises(LookupError) as caught:
                self.tables.at("src/code.rs", words)
            self.assertEqual(str(caught.exception), f"src/code.rs has {times} times {words!r}, which it must have once")

    def test_a_file_that_is_not_there_and_words_without_one_gap_are_errors(self):
        with self.assertRaisesRegex(LookupError, "there is no file src/moved.rs"):
            self.tables.at("src/moved.rs", "LATE = «»")
        for words in ("LATE = 500", "from «» to «»"):
            with self.assertRaisesRegex(LookupError, "must have the gap «» once"):
                self.tables.at("src/code.rs", words)

    def test_units_are_converted_and_several_files_give_a_list(self):
        late, space = 'at("src/code.rs", "LATE: Duration = Duration::from_millis(«»)")', 'at("src/code.rs", "SPACE: u64 = «»;")'
        rate, burst = """at("scenario.toml", 'rate = "«»Mbit/s"')""", """at("scenario.toml", 'burst = "«»s"')"""
        for expression, said in (
            (f"{late} / 1000", "0.5 s"),
            (f"{space} / 1000000", "64 MB"),
            (f"{late} * 1048576 / 1024", "512,000 kB"),
            (f"1000 * -{burst}", "300 ms"),
            (f"[{rate}, {late}]", "24 and 500 Mb/s"),
            (f"round({late} / 7, -1)", "70 ms"),
        ):
            self.assertTrue(is_said(said, self.tables.value(expression)), expression)

    def test_a_constant_that_changes_makes_its_page_wrong_also_by_less_than_the_page_shows(self):
        page = self.root / "README.md"
        page.write_text("# A page\n\nA switch may be 1 s late.\n")
        line = '= at("src/code.rs", "LATE: Duration = Duration::from_millis(«»)") / 1000 | be «1 s» late'
        for millis, wrong in (("1_000", []), ("1_200", ["the tables and files say 1.2"]), ("999", ["the tables and files say 0.999"])):
            (self.root / "src" / "code.rs").write_text(self.CODE.replace("from_millis(500)", f"from_millis({millis})"))
            found = faults({"page": page}, entries(f"## page\n{line}"))
            self.assertEqual([one.rpartition(": ")[2] for one in found], wrong)
        (self.root / "src" / "code.rs").unlink()
        self.assertIn("cannot be had: there is no file src/code.rs", faults({"page": page}, entries(f"## page\n{line}"))[0])


class Pages(unittest.TestCase):
    def test_every_number_of_the_pages_is_as_the_list_says(self):
        listed = entries(loose_numbers.LIST.read_text())
        self.assertGreater(len(listed), 500)
        self.assertEqual(faults(loose_numbers.named_pages(), listed), [])

    def test_pages_that_a_script_writes_whole_are_checked(self):
        recipes = dict(re.findall(r"^([a-z][a-z-]*):.*\n((?:\t.*\n)*)", MAKEFILE, re.MULTILINE))
        whole = 0
        for name, path in loose_numbers.named_pages().items():
            if path.suffix == ".py":
                continue
            target = re.search(r"\n\nWritten by `make ([a-z-]+)`", path.read_text())
            if target:
                whole += 1
                scripts = re.findall(r"scripts/\w+\.(?:py|sh)", recipes[target[1]])
                scripts += [inner for one in scripts for inner in re.findall(r"scripts/\w+\.py", (loose_numbers.ROOT / one).read_text())]
                writer = [one for one in scripts if f"{one} --raw --check" in recipes["pages"]]
                self.assertTrue(writer, f"{name}: {scripts}")
                self.assertTrue(set(writer) <= {str(one.relative_to(loose_numbers.ROOT)) for one in loose_numbers.WRITERS}, name)
        self.assertGreaterEqual(whole, 8)


if __name__ == "__main__":
    unittest.main()
