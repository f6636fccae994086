#!/usr/bin/env python3
"""Runs the cases of a unittest program as tests of their own, each with its own status.

usage: python_cases.py --list PROGRAM            prints the tests, one a line
       python_cases.py PROGRAM TEST [ARGUMENT…]  runs PROGRAM ARGUMENT…, but TEST only

A test is CLASS.METHOD, or CLASS alone where its cases share a fixture (setUpClass).
Exit status: 0 passed, 1 failed, 77 skipped. In CI, what is skipped has failed: there,
whatever a test needs must be installed.
"""

import ast
import os
import pathlib
import runpy
import sys
import unittest

SKIPPED = 77


def listed(program):
    """CLASS.METHOD or CLASS for each class of the program that has cases."""
    tree = ast.parse(pathlib.Path(program).read_text(encoding="utf-8"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}

    def methods(node):
        """The methods of the class and of its bases in this file."""
        found = {n.name for n in node.body if isinstance(n, ast.FunctionDef)}
        for base in node.bases:
            if isinstance(base, ast.Name) and base.id in classes:
                found |= methods(classes[base.id])
        return found

    def has_fixture(node):
        """Whether its cases share one; a base from another file may have one."""
        for base in node.bases:
            name = base.attr if isinstance(base, ast.Attribute) else base.id
            if name in classes:
                if has_fixture(classes[name]):
                    return True
            elif name != "TestCase" or not isinstance(base, ast.Attribute) \
                    or base.value.id != "unittest":
                return True
        return "setUpClass" in methods(node)

    for name, node in classes.items():
        cases = sorted(method for method in methods(node) if method.startswith("test"))
        if not node.bases or not cases:
            continue
        if has_fixture(node):
            yield name
        else:
            yield from (f"{name}.{case}" for case in cases)


class OnlyTest:
    """Replaces unittest.main: runs one test of the program, and ends the process."""

    def __init__(self, program, test):
        self._program, self._test = program, test

    def __call__(self, *_args, **_options):
        main = sys.modules["__main__"]
        loader = unittest.defaultTestLoader
        if not self._is_complete(loader, main):
            sys.exit(1)
        result = unittest.TextTestRunner(verbosity=2).run(
            loader.loadTestsFromName(self._test, main))
        if result.testsRun == 0 or not result.wasSuccessful():
            sys.exit(1)
        if result.skipped:
            for case, why in result.skipped:
                print(f"SKIPPED: {case}: {why}")
            sys.exit(1 if os.environ.get("CI") else SKIPPED)
        sys.exit(0)

    def _is_complete(self, loader, main):
        """Whether the tests that are listed are all that the program has."""
        def cases(suite):
            for item in suite:
                if isinstance(item, unittest.TestSuite):
                    yield from cases(item)
                else:
                    yield f"{type(item).__name__}.{item._testMethodName}"

        tests = set(listed(self._program))
        missing = {case for case in cases(loader.loadTestsFromModule(main))
                   if case not in tests and case.split(".")[0] not in tests}
        if missing:
            print(f"not listed: {' '.join(sorted(missing))}", file=sys.stderr)
        return not missing


def main():
    if sys.argv[1] == "--list":
        print("\n".join(listed(sys.argv[2])))
        return
    program, test = sys.argv[1:3]
    sys.argv = [program, *sys.argv[3:]]
    sys.path[0] = str(pathlib.Path(program).parent)
    unittest.main = OnlyTest(program, test)
    # The program is the module __main__ from here on.
    runpy.run_path(program, run_name="__main__")
    sys.exit(f"{program} has not called unittest.main()")


if __name__ == "__main__":
    main()
