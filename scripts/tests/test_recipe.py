"""The dummy of CONTRIBUTING's recipe still applies to the sources: `make try-recipe` builds and runs it, which takes minutes."""

import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import try_recipe
from try_recipe import CORE, FILES, RECIPE, ROOT

DUMMY = {name: (RECIPE / try_recipe.MODULE / name).read_text() for name in ("mod.rs", "settings.rs")}
# Items of a trait or of its implementation, up to where their body or value begins.
ITEM = re.compile(r"^    (?:const (\w+): ([^;=]+?)\s*(=|;)|fn (\w+)(\([^{;]*?)\s*(\{|;))", re.MULTILINE | re.DOTALL)


def items(text, header):
    """Name -> (signature, whether it has a body) of what the block that begins with `header` has."""
    block = text[text.index(header) :]
    block = block[: block.index("\n}\n")]
    found = {}
    for const, kind, value, function, signature, body in ITEM.findall(block):
        found[const or function] = (" ".join((kind or signature).split()), (value or body) in ("=", "{"))
    return found


def plain(signature):
    """Without names of arguments that are not used, which begin with an underscore."""
    return re.sub(r"\b_(\w+:)", r"\1", signature)


class Recipe(unittest.TestCase):
    def test_the_edits_apply_and_the_diff_is_what_contributing_says(self):
        names = sorted({str(file.relative_to(ROOT)) for file in (ROOT / CORE).glob("*.rs")} | {"CONTRIBUTING.md"})
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            copied = try_recipe.copy(tree, names)
            try_recipe.apply(tree)
            found = try_recipe.check_diff(tree, copied)
        said = (ROOT / "CONTRIBUTING.md").read_text()
        listed = re.search(r" {3}<!-- try-recipe -->\n(.*?) {3}<!-- /try-recipe -->", said, re.DOTALL)[1]
        lines = [f"   - `{name}` (+{added})\n" for name, (added, _) in sorted(found.items())]
        self.assertEqual("".join(lines), listed, "CONTRIBUTING.md lists other files")

    def test_the_dummy_has_what_the_traits_ask_for_and_nothing_else(self):
        for trait, source, own, header in (
            ("pub trait Mechanism: Send {", "mechanism.rs", "mod.rs", "impl Mechanism for WindowCap {"),
            ("pub trait Registered:", "settings.rs", "settings.rs", "impl Registered for WindowCapConfig {"),
        ):
            asked, given = items((ROOT / CORE / source).read_text(), trait), items(DUMMY[own], header)
            for name, (signature, optional) in asked.items():
                if name in given:
                    self.assertEqual(plain(given[name][0]), plain(signature), f"{name} of {trait}")
                else:
                    self.assertTrue(optional, f"{name} of {trait} is not in the dummy")
            self.assertEqual(given.keys() - asked.keys(), set(), f"{trait} has these no more")

    def test_every_name_that_the_dummy_uses_is_in_the_file_that_it_names(self):
        for text in DUMMY.values():
            for module, names in re.findall(r"^use crate::(\w+)::\{?([\w, ]+)\}?;", text, re.MULTILINE):
                source = (ROOT / CORE / f"{module}.rs").read_text()
                for name in names.split(", "):
                    declared = rf"(struct|enum|trait|macro_rules!|type) {name}\b"
                    self.assertRegex(source, declared, f"crate::{module}::{name}")

    def test_what_the_copy_must_not_change_is_noticed(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            names = [try_recipe.LIB, try_recipe.REGISTRY, f"{CORE}/chain.rs"]
            copied = try_recipe.copy(tree, names)
            try_recipe.apply(tree)
            (tree / names[2]).write_text("// changed\n")
            with self.assertRaises(try_recipe.Wrong):
                try_recipe.check_diff(tree, copied)
        self.assertEqual(len(FILES), 3)


if __name__ == "__main__":
    unittest.main()
