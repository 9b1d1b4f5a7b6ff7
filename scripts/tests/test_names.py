"""Every name that a script uses is one that it has: some of their code runs once a month, and fails after an hour of measuring."""

import builtins
import pathlib
import symtable
import unittest

SCRIPTS = sorted(pathlib.Path(__file__).resolve().parent.parent.rglob("*.py"))
OF_A_MODULE = {"__file__", "__name__", "__doc__"}


def tables(table):
    yield table
    for inner in table.get_children():
        yield from tables(inner)


def unknown(path):
    """Names that are looked up in the module and are neither there nor built in."""
    module = symtable.symtable(path.read_text(), str(path), "exec")
    known = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace()}
    # What a function declares global.
    known |= {symbol.get_name() for table in tables(module) for symbol in table.get_symbols() if symbol.is_declared_global()}
    used = {symbol.get_name() for table in tables(module) for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced()}
    used |= {symbol.get_name() for symbol in module.get_symbols() if symbol.is_referenced()}
    return sorted(used - known - OF_A_MODULE - set(dir(builtins)))


class Names(unittest.TestCase):
    def test_every_script_has_the_names_it_uses(self):
        self.assertGreater(len(SCRIPTS), 20)
        self.assertEqual({path.name: names for path in SCRIPTS if (names := unknown(path))}, {})


if __name__ == "__main__":
    unittest.main()
