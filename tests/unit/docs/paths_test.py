#!/usr/bin/env python3
"""Checks that what documents refer to exists: paths, links, and the table of guarantees;
and that they and the messages of the programs use the words of the glossary.

usage: paths_test.py SOURCE_DIRECTORY
"""

import glob
import os
import re
import sys
import unittest

SOURCE = ""
# A span of code that begins with one of these is a path of this tree.
FOLDERS = ("bpf", "docs", "injector", "schemas", "scripts", "tests", "userspace", ".ci")
# What docs/glossary.md replaced; it lists such words itself.
REPLACED = (
    r"level of the hold|(first|second|signal|yielding) level|take turns|takes turns"
    r"|the reason is said|touching none|touch none|stands? in\b|the one that came along"
    r"|to mend it|means nothing here|the time is over|nothing is to be done|back end"
    r"|for ever\b|tells more|(tools|programs|readers) of others|goes? on by itself"
    r"|(is|are) said\b|cannot be told|stands? for no limit|lost meanwhile"
    r"|the kernel's word|leaves? its executable alone|what can be known"
)
# The same for names in sources.
REPLACED_NAMES = (
    r"\b(LookAround|Told|LeaveAlone|Rehearse|SessionWish|Beat|Understand|TellMeter"
    r"|behind_our_back|wish|wishes|StopLevel\w*)\b"
)
COLUMNS = ["guarantee", "code", "test", "fuzz target", "benchmark"]


def documents():
    names = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"]
    for pattern in ("docs/*.md", "docs/decisions/*.md", "tests/*/README.md"):
        names += sorted(glob.glob(pattern, root_dir=SOURCE))
    return names


def read(name):
    with open(os.path.join(SOURCE, name), encoding="utf-8") as document:
        return document.read()


def without_code_blocks(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def named_paths(text):
    """Spans of code that are paths: `scripts/bench window` names scripts/bench."""
    for span in re.findall(r"`([^`\n]+)`", text):
        word = span.split()[0]
        if word.split("/")[0] in FOLDERS and "/" in word and "…" not in word:
            yield word


def exists(path):
    return bool(glob.glob(os.path.join(SOURCE, path.rstrip("/"))))


def anchors(text):
    """The anchors that GitHub makes of a document's headings."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", without_code_blocks(text), re.MULTILINE):
        words = re.sub(r"[^\w\- ]", "", heading.lower())
        found.add(words.replace(" ", "-"))
    return found


def table(text, columns):
    """The rows of the table with these columns, as lists of cells."""
    head = "| " + " | ".join(columns) + " |"
    rows = []
    for line in text[text.index(head) :].splitlines()[2:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


class PathsTest(unittest.TestCase):
    def test_every_path_exists(self):
        count = 0
        for name in documents():
            for path in named_paths(without_code_blocks(read(name))):
                count += 1
                with self.subTest(document=name, path=path):
                    self.assertTrue(exists(path))
        self.assertGreater(count, 100)

    def test_every_link_leads_somewhere(self):
        count = 0
        for name in documents():
            for link in re.findall(r"\]\(([^)\s]+)\)", without_code_blocks(read(name))):
                if re.match(r"\w+:", link):
                    continue
                count += 1
                file, _, anchor = link.partition("#")
                target = os.path.normpath(os.path.join(os.path.dirname(name), file))
                if not file:
                    target = name
                with self.subTest(document=name, link=link):
                    self.assertTrue(exists(target))
                    if anchor:
                        self.assertIn(anchor, anchors(read(target)))
        self.assertGreater(count, 50)

    def test_decisions_are_all_listed(self):
        listed = set(re.findall(r"\]\((\d{4}-[\w-]+\.md)\)", read("docs/decisions/README.md")))
        files = glob.glob("[0-9]*.md", root_dir=os.path.join(SOURCE, "docs/decisions"))
        self.assertEqual(listed, set(files))
        numbers = sorted(name[:4] for name in files)
        self.assertEqual(numbers, ["%04d" % (i + 1) for i in range(len(files))])


class WordsTest(unittest.TestCase):
    def check(self, name, text):
        found = re.search(REPLACED, " ".join(text.split()))
        with self.subTest(name):
            self.assertIsNone(found, found and found.group(0))

    def test_documents_and_manual_pages(self):
        names = set(documents()) - {"docs/glossary.md"}
        names |= set(glob.glob("docs/man/*.[13]", root_dir=SOURCE))
        for name in names:
            self.check(name, read(name))

    def test_messages_of_the_programs(self):
        count = 0
        for pattern in ("userspace/**/*.cc", "userspace/**/*.py", "injector/*.cc"):
            for name in glob.glob(pattern, root_dir=SOURCE, recursive=True):
                literals = re.findall(r'"((?:[^"\\\n]|\\.)*)"', read(name))
                count += len(literals)
                self.check(name, "".join(literals))
        self.assertGreater(count, 500)

    def test_names_in_sources(self):
        count = 0
        for folder in ("bpf", "injector", "userspace", "tests"):
            for ending in ("c", "cc", "h"):
                for name in glob.glob(f"{folder}/**/*.{ending}", root_dir=SOURCE,
                                      recursive=True):
                    count += 1
                    found = re.search(REPLACED_NAMES, read(name))
                    with self.subTest(name):
                        self.assertIsNone(found, found and found.group(0))
        self.assertGreater(count, 500)


class FaultsTest(unittest.TestCase):
    def test_every_fault_has_a_test_or_a_reason(self):
        tests = set()
        for path in glob.glob("tests/**/*_test.cc", root_dir=SOURCE, recursive=True):
            tests |= {
                f"{suite}.{case}"
                for suite, case in re.findall(r"^TEST(?:_[FP])?\((\w+),\s*(\w+)\)", read(path), re.M)
            }
        rows = table(read("docs/attach-faults.md"), ["fault", "what happens", "test"])
        self.assertGreater(len(rows), 40)
        for fault, _, test in rows:
            with self.subTest(fault):
                self.assertTrue(test)
                named = re.findall(r"`(\w+\.\w+)`", test)
                self.assertEqual([name for name in named if name not in tests], [])


class GuaranteesTest(unittest.TestCase):
    def setUp(self):
        self.rows = table(read("docs/architecture.md"), COLUMNS)

    def test_each_has_code_and_a_test(self):
        self.assertGreater(len(self.rows), 10)
        for row in self.rows:
            with self.subTest(row[0]):
                self.assertEqual(len(row), len(COLUMNS))
                for cell in row[1:3]:
                    self.assertTrue(list(named_paths(cell)), cell)

    def test_columns_name_paths_of_their_kind(self):
        for guarantee, code, test, fuzz, bench in self.rows:
            with self.subTest(guarantee):
                for path in named_paths(code):
                    self.assertFalse(path.startswith("tests/"), path)
                for path in named_paths(test):
                    self.assertRegex(path, r"^(tests/(unit|integration)/|scripts/test)")
                for path in named_paths(fuzz):
                    self.assertTrue(path.startswith("tests/fuzz/"), path)
                for path in named_paths(bench):
                    self.assertTrue(path.startswith("tests/bench/"), path)

    def test_sections_are_those_of_the_benchmark_script(self):
        script = read("scripts/bench")
        for row in self.rows:
            for section in re.findall(r"\((\w+)\)", row[4]):
                self.assertRegex(script, r'"%s": \w+\.run' % section)

    def test_every_fuzz_target_serves_a_guarantee(self):
        named = {path for row in self.rows for path in named_paths(row[3])}
        pattern = os.path.join(SOURCE, "tests/fuzz/*/*fuzz*.cc")
        self.assertEqual(named, {os.path.relpath(p, SOURCE) for p in glob.glob(pattern)})

    def test_each_has_its_mechanism(self):
        guarantees = table(read("docs/architecture.md"), ["guarantee", "mechanism"])
        self.assertEqual([row[0] for row in guarantees], [row[0] for row in self.rows])


if __name__ == "__main__":
    SOURCE = sys.argv[1]
    unittest.main(argv=sys.argv[:1])
