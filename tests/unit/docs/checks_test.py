#!/usr/bin/env python3
"""Checks that the checks fail: each is given a small tree with one violation.

usage: checks_test.py SOURCE_DIRECTORY
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = ""

LOCKED = """#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
namespace rocattach {
class Counter {
 public:
  void Add() {
    %s
    ++count_;
  }

 private:
  absl::Mutex mutex_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};
void Use() { Counter().Add(); }
}  // namespace rocattach
"""


class TreeTest(unittest.TestCase):
    """A tree with a library `low`, one `high` that may use it, and the scripts."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        self.write("userspace/low/CMakeLists.txt",
                   "rocattach_library(low SOURCES low.cc DEPS absl::status)\n")
        self.write("userspace/low/low.h", "namespace rocattach {\nclass Low {\n};\n}\n")
        self.write("userspace/low/low.cc", '#include "userspace/low/low.h"\n')
        self.write("userspace/high/CMakeLists.txt",
                   "rocattach_library(high SOURCES high.cc DEPS rocattach::low)\n")
        self.write("userspace/high/high.cc", '#include "userspace/low/low.h"\n')

    def write(self, name, text):
        path = self.top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def check(self, script, *arguments):
        """What the script says of the tree: its exit status and its messages."""
        (self.top / "scripts").mkdir(exist_ok=True)
        for name in (script, "compile_commands.py"):
            shutil.copy(pathlib.Path(SOURCE, "scripts", name), self.top / "scripts")
        done = subprocess.run([self.top / "scripts" / script, *arguments],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


class LayersTest(TreeTest):
    def refused(self, message):
        status, said = self.check("check-layers")
        self.assertEqual(status, 1, said)
        self.assertIn(message, said)

    def test_a_tree_in_order_passes(self):
        self.assertEqual(self.check("check-layers"), (0, ""))

    def test_an_include_that_is_not_declared(self):
        self.write("userspace/low/low.cc", '#include "userspace/high/high.h"\n')
        self.refused("userspace/low/low.cc:1: includes userspace/high/high.h")

    def test_a_folder_below_belongs_to_the_library_above(self):
        self.write("userspace/low/deep/deep.h", '#include "userspace/low/low.h"\n')
        self.write("userspace/high/more.cc", '#include "userspace/low/deep/deep.h"\n')
        self.assertEqual(self.check("check-layers"), (0, ""))
        self.write("userspace/low/deep/deep.h", '#include "userspace/high/high.h"\n')
        self.refused("userspace/low/deep/deep.h:1: includes userspace/high/high.h")

    def test_a_circle(self):
        self.write("userspace/low/CMakeLists.txt",
                   "rocattach_library(low SOURCES low.cc DEPS rocattach::high)\n")
        self.refused("userspace/low: in a circle with userspace/high")

    def test_two_types_of_one_name(self):
        self.write("userspace/high/high.h", "namespace rocattach {\nclass Low {\n};\n}\n")
        self.refused("rocattach::Low is defined in userspace/high/high.h and in")

    def test_two_types_of_one_name_behind_a_declaration_of_anothers(self):
        self.write("userspace/high/high.h",
                   "namespace other {\nclass App;\n}\n\nnamespace rocattach {\n"
                   "inline int F() {\n  return '{';\n}\nclass Low final : public A {\n};\n}\n")
        self.refused("rocattach::Low is defined in userspace/high/high.h and in")

    def test_types_of_one_name_that_are_apart(self):
        self.write("userspace/high/high.h",
                   "namespace rocattach {\nclass Low;\nnamespace {\nclass Low {\n};\n}\n"
                   "namespace high {\nclass Low {\n};\n}\nclass High {\n  struct Low {\n"
                   "  };\n};\n// class Low {\n}\nnamespace other {\nclass Low {\n};\n}\n")
        self.assertEqual(self.check("check-layers"), (0, ""))

    def test_a_local_function_with_the_name_of_a_shared_one(self):
        self.write("userspace/low/low.h",
                   "namespace rocattach {\nclass Low {\n  void Own();\n};\n"
                   "bool Shared(int a);\n}\n")
        self.write("userspace/low/low.cc",
                   "namespace rocattach {\nnamespace {\nvoid Own() {\n}\n}\n"
                   "bool Shared(int a) {\n  return a;\n}\n}\n")
        self.assertEqual(self.check("check-layers"), (0, ""))
        self.write("userspace/low/more.cc",
                   "namespace rocattach {\nnamespace {\nstd::vector<bool> Shared(int a,\n"
                   "    int b) {\n}\n}\n}\n")
        self.refused("userspace/low/more.cc: its own Shared() has the name of one in low.h")

    def test_a_local_function_with_the_name_of_one_shared_in_a_folder_below(self):
        self.write("userspace/low/deep/deep.h",
                   "namespace rocattach {\nbool Shared(int a);\n}\n")
        self.write("userspace/low/more.cc",
                   "namespace rocattach {\nnamespace {\nint Shared() {\n}\n}\n}\n")
        self.refused("userspace/low/more.cc: its own Shared() has the name of one in deep.h")

    def test_a_lock_that_is_not_checked(self):
        self.write("userspace/low/low.cc", "std::mutex lock;\n")
        self.refused("userspace/low/low.cc:1: std::mutex is not checked")

    def test_an_errno_that_is_lost(self):
        self.write("userspace/low/low.cc", "f(absl::ErrnoToStatus(errno, text));\n")
        self.refused("userspace/low/low.cc:1: absl::ErrnoToStatus() loses the errno")


class LocksTest(TreeTest):
    def setUp(self):
        super().setUp()
        clang = os.environ.get("CLANG", "clang++-15")
        if shutil.which(clang) is None:
            self.skipTest(f"{clang} is not installed")
        self.compiles(self.top / "userspace/low/low.cc")

    def compiles(self, source):
        build = self.top / "build/release"
        self.write("build/release/compile_commands.json", json.dumps([{
            "directory": str(build),
            "file": str(source),
            "command": f"c++ -std=c++20 -I{self.top} -o low.o -c {source}",
        }]))

    def test_a_member_that_is_locked(self):
        self.write("userspace/low/low.cc", LOCKED % "absl::MutexLock lock(&mutex_);")
        status, said = self.check("check-thread-safety")
        self.assertEqual((status, said), (0, "check-thread-safety: 1 sources, 0 failed\n"))

    def test_a_member_that_is_not(self):
        self.write("userspace/low/low.cc", LOCKED % "")
        status, said = self.check("check-thread-safety")
        self.assertEqual(status, 1)
        self.assertIn("writing variable 'count_' requires holding mutex 'mutex_'", said)


    def test_a_source_that_is_compiled_with_others(self):
        self.write("userspace/low/low.cc", LOCKED % "")
        self.write("userspace/low/more.cc", LOCKED % "absl::MutexLock lock(&mutex_);")
        unit = self.top / "build/release/Unity/unity_0_cxx.cxx"
        self.write(unit.relative_to(self.top), "".join(
            f'#include "{self.top}/userspace/low/{name}.cc"\n' for name in ("low", "more")))
        self.compiles(unit)
        status, said = self.check("check-thread-safety")
        self.assertEqual(status, 1)
        self.assertIn("check-thread-safety: 2 sources, 1 failed", said)
        self.assertIn("low.cc", said)


class FormatTest(TreeTest):
    def setUp(self):
        super().setUp()
        for program in ("clang-format-14", "shellcheck", "git"):
            if shutil.which(program) is None:
                self.skipTest(f"{program} is not installed")
        shutil.copy(pathlib.Path(SOURCE, ".clang-format"), self.top)
        subprocess.run(["git", "init", "-q", self.top], check=True)

    def check_added(self):
        subprocess.run(["git", "-C", self.top, "add", "userspace"], check=True)
        return self.check("check-format")

    def test_a_source_as_it_should_be(self):
        for path in ("low/low.h", "low/low.cc", "high/high.cc"):
            self.write(f"userspace/{path}", "int Sum(int a, int b);\n")
        self.assertEqual(self.check_added(), (0, ""))

    def test_a_source_that_is_not_formatted(self):
        self.write("userspace/low/low.h", "int  Sum( int a,int b );\n")
        status, said = self.check_added()
        self.assertNotEqual(status, 0)
        self.assertIn("userspace/low/low.h:1:4: error: code should be clang-formatted", said)


class CasesTest(unittest.TestCase):
    """tests/python_cases.py, by which ctest runs the cases of programs such as this."""

    PROGRAM = """import unittest


class Plain(unittest.TestCase):
    def test_passes(self):
        pass

    def test_fails(self):
        self.fail()

    def test_lacks_something(self):
        self.skipTest("needs a thing")


class Shared(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        pass

    def test_passes(self):
        pass


%s
if __name__ == "__main__":
    unittest.main()
"""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.program = pathlib.Path(folder.name, "some_test.py")

    def run_cases(self, *arguments, more="", ci=""):
        self.program.write_text(self.PROGRAM % more, encoding="utf-8")
        return subprocess.run(
            [sys.executable, "-B", pathlib.Path(SOURCE, "tests/python_cases.py"), *arguments],
            env={**os.environ, "CI": ci}, capture_output=True, text=True, check=False)

    def status(self, case, **options):
        return self.run_cases(self.program, case, **options).returncode

    def test_each_case_is_listed(self):
        self.assertEqual(self.run_cases("--list", self.program).stdout.split(),
                         ["Plain.test_fails", "Plain.test_lacks_something",
                          "Plain.test_passes", "Shared"])

    def test_each_case_has_its_status(self):
        self.assertEqual(self.status("Plain.test_passes"), 0)
        self.assertEqual(self.status("Shared"), 0)
        self.assertEqual(self.status("Plain.test_fails"), 1)

    def test_skipped_cases_do_not_pass(self):
        self.assertEqual(self.status("Plain.test_lacks_something"), 77)
        self.assertEqual(self.status("Plain.test_lacks_something", ci="true"), 1)

    def test_a_case_that_is_not_there(self):
        self.assertEqual(self.status("Plain.test_other"), 1)

    def test_a_case_that_was_not_listed(self):
        more = "Late = type('Late', (Plain,), {'test_more': lambda self: None})\n"
        self.assertEqual(self.status("Plain.test_passes", more=more), 1)


if __name__ == "__main__":
    SOURCE = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
