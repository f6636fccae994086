#!/usr/bin/env python3
"""Compares --help of both programs with the manual pages and the completion.

usage: options_test.py SOURCE_DIRECTORY ROCATTACH [ROCATTACH_WATCH]
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = ROCATTACH = WATCH = ""
COMMANDS = (
    "attach", "profile", "report", "compare", "dump", "convert", "recover", "merge",
    "counters", "session", "top", "why", "doctor",
)
# Commands with a page of their own.
PAGES = {"convert": "rocattach-convert.1"}

# An option at the start of a line of help: "  -p,--process NAME", "  --json".
HELP_LINE = re.compile(r"^  (-{1,2}[a-zA-Z][\w-]*(?:,-{1,2}[a-z][\w-]*)*)", re.MULTILINE)


def help_text(*command, option="--help"):
    run = subprocess.run(
        [*command, option], capture_output=True, text=True, check=True
    )
    return run.stdout


def full_help(*command):
    """The help with every option: --help is the everyday part of it where it says so."""
    text = help_text(*command)
    return help_text(*command, option="--help-all") if "--help-all" in text else text


def options_in(text):
    return {name for line in HELP_LINE.findall(text) for name in line.split(",")}


def help_options(*command):
    options = options_in(full_help(*command))
    assert "--help" in options, command
    return options


def entries(text):
    """Option -> what help says of it, in one line."""
    found = {}
    for entry in re.split(r"\n(?=  -|\S|\n)", text):
        match = HELP_LINE.match(entry)
        if match:
            for name in match.group(1).split(","):
                found[name] = " ".join(entry.split())
    return found


def help_values(*command):
    """What help says of an option's values: name -> (range or None, default or None)."""
    values = {}
    for name, entry in entries(full_help(*command)).items():
        limits = re.search(r"[(;] ?(\d+) to (\d+)[;)]", entry)
        default = re.search(r"[(;] ?default: ([^;)\s]+)[;)]", entry)
        if name.startswith("--") and (limits or default):
            values[name] = (
                limits.groups() if limits else None, default.group(1) if default else None
            )
    return values


def groups_in(text):
    """Group -> its options, in the order of the help."""
    parts = re.split(r"^([A-Z][\w ]*):\n", text, flags=re.MULTILINE)
    groups = {name: options_in(body) for name, body in zip(parts[1::2], parts[2::2])}
    return {name: options for name, options in groups.items() if options}


# In the order in which help shows them.
GROUPS = ["What to watch", "What to record", "Counters", "Sessions", "Output", "Limits", "Other"]


def check_groups(test, everyday, *command):
    """--help is short, in groups, and a part of --help-all."""
    short, full = groups_in(help_text(*command)), groups_in(full_help(*command))
    for groups in (short, full):
        test.assertEqual(list(groups), [name for name in GROUPS if name in groups])
    for name, options in short.items():
        test.assertLessEqual(options, full[name])
    shown = set().union(*short.values())
    test.assertLessEqual(set(everyday), shown)
    test.assertIn("--help-all", shown)
    test.assertLess(len(shown), len(set().union(*full.values())))


def manual_item(text, option):
    """What the page says of an option, without the macros' names."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if option in manual_options(line))
    item = [lines[first]]
    # Items of a list within this one belong to it.
    for line in lines[first + 1 :]:
        if re.match(r"\.(It Fl|Ss|Sh) ", line):
            break
        item.append(re.sub(r"^\.\w+ ", "", line))
    return "\n".join(item)


def command_options(command):
    """Options of a command, those of its own commands included."""
    if command != "session":
        return help_options(ROCATTACH, command)
    own = ("start", "stop", "status")
    return set().union(*(help_options(ROCATTACH, command, name) for name in own))


def manual_options(text):
    """The options that have an item of their own: '.It Fl d Ar DIR , Fl -output…'."""
    options = set()
    for line in text.splitlines():
        if line.startswith(".It Fl "):
            options |= {"-" + name for name in re.findall(r"Fl (-?[a-zA-Z][\w-]*)", line)}
    return options


def manual(name):
    with open(os.path.join(SOURCE, "docs", "man", name), encoding="ascii") as page:
        return page.read()


def subsections(text):
    """The text of each .Ss of a page, by its title; "" is what stands before."""
    parts = re.split(r"^\.Ss (.*)$", text, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2]))}


def complete(program, *words):
    """What bash offers for the last of `words`."""
    script = os.path.join(SOURCE, "scripts", "completion", program + ".bash")
    code = (
        'source "$1" || exit 1; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); '
        "function=$(complete -p ${WORD0} | sed 's/.*-F \\([^ ]*\\).*/\\1/'); "
        '$function; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    run = subprocess.run(
        ["bash", "--norc", "-u", "-c", code, "bash", script, *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "WORD0": program},
    )
    assert run.stderr == "", run.stderr
    return set(run.stdout.split())


def check_values(test, page, *command):
    values = help_values(*command)
    for option, (limits, default) in values.items():
        with test.subTest(option):
            item = manual_item(page, option)
            if limits:
                test.assertRegex(item, r"\b%s to %s\b" % limits)
            if default:
                test.assertIn("default", item)
                test.assertIn(default, re.split(r"[\s,]+|\.(?:\s|$)", item))
    return values


class WatchTest(unittest.TestCase):
    def setUp(self):
        if not WATCH:
            self.skipTest("rocattach-watch is not part of this build")

    def test_manual_has_every_option_and_no_other(self):
        self.assertEqual(manual_options(manual("rocattach-watch.1")), help_options(WATCH))

    def test_manual_has_the_ranges_and_defaults(self):
        found = check_values(self, manual("rocattach-watch.1"), WATCH)
        self.assertIn("--threads", found)
        self.assertEqual(found["--hold-timeout-msec"][0], ("1", "10000"))

    def test_completion_has_every_option_and_no_other(self):
        offered = complete("rocattach-watch", "rocattach-watch", "-")
        self.assertEqual(offered - {"--"}, help_options(WATCH))

    def test_completion_knows_the_values(self):
        text = full_help(WATCH)
        for option in ("--hold", "--capture", "--backend"):
            values = re.search(option + r" \{([\w,]+)\}", text).group(1)
            self.assertEqual(
                complete("rocattach-watch", "rocattach-watch", option, ""),
                set(values.split(",")),
            )

    def test_help_is_short_and_in_groups(self):
        check_groups(self, ["--auto", "--name", "--pmc", "--output-file"], WATCH)
        self.assertEqual(set(groups_in(full_help(WATCH))), set(GROUPS))
        self.assertLess(len(help_text(WATCH).splitlines()), 100)

    def test_completion_offers_names(self):
        with tempfile.TemporaryDirectory() as directory:
            os.symlink(ROCATTACH, os.path.join(directory, "rocattach"))
            program = os.path.join(directory, "rocattach-watch")
            for words, name in (
                (("--pmc", "SQ_WA"), "SQ_WAVES"),
                (("--pmc", "SQ_WAVES", "L2Cache"), "L2CacheHit"),
                (("--set", ""), "launch_stats"),
                (("--block", ""), "5.1"),
                (("-b", "TC"), "TCC"),
                (("--arch", ""), "gfx90a"),
            ):
                self.assertIn(name, complete("rocattach-watch", program, *words))
        self.assertIn("root", complete("rocattach-watch", "rocattach-watch", "--uid", ""))
        self.assertIn("1", complete("rocattach-watch", "rocattach-watch", "-p", ""))

    def test_completion_leaves_the_command_alone(self):
        offered = complete("rocattach-watch", "rocattach-watch", "--auto", "--", "--j")
        self.assertNotIn("--json", offered)


class ClientTest(unittest.TestCase):
    def test_manual_has_every_option_and_no_other(self):
        parts = subsections(manual("rocattach.1"))
        self.assertEqual(manual_options(parts[""]), help_options(ROCATTACH))
        for command in COMMANDS:
            with self.subTest(command):
                text = parts["rocattach " + command]
                if command in PAGES:
                    self.assertIn(".Xr rocattach-" + command + " 1", text)
                    text = manual(PAGES[command])
                self.assertEqual(manual_options(text), command_options(command))

    def test_completion_has_every_option_and_no_other(self):
        self.assertEqual(
            {o for o in complete("rocattach", ROCATTACH, "-") if o.startswith("-")},
            help_options(ROCATTACH),
        )
        for command in COMMANDS:
            with self.subTest(command):
                self.assertEqual(
                    complete("rocattach", ROCATTACH, command, "-"),
                    command_options(command),
                )

    def test_help_is_short_and_in_groups(self):
        check_groups(self, ["--pid", "--pmc", "--output-file"], ROCATTACH, "attach")
        check_groups(self, ["--attach-pid", "--block", "--name"], ROCATTACH, "profile")
        check_groups(self, ["--pid", "--pmc", "--wait"], ROCATTACH, "session", "start")

    def test_completion_offers_names(self):
        for words, name in (
            (("session", "start", "--pmc", "SQ_WAVES", "SQ_WA"), "SQ_WAVES"),
            (("session", "start", "--set", ""), "launch_stats"),
            (("attach", "--block", ""), "5.1"),
            (("profile", "-b", "2", "5."), "5.1.1"),
            (("counters", "--arch", ""), "gfx90a"),
            (("counters", "--names", ""), "sets"),
        ):
            self.assertIn(name, complete("rocattach", ROCATTACH, *words))

    def test_completion_offers_sessions_that_are_not_over(self):
        with tempfile.TemporaryDirectory() as directory:
            program = os.path.join(directory, "rocattach")
            with open(program, "w", encoding="ascii") as script:
                script.write(
                    "#!/bin/sh\n"
                    "echo 'session 1: ended; collected nothing'\n"
                    "echo 'session 12: collecting; pid 7'\n"
                )
            os.chmod(program, 0o755)
            self.assertEqual(complete("rocattach", program, "session", "stop", ""), {"12"})

    def test_commands_are_all_there(self):
        text = subprocess.run([ROCATTACH, "--help"], capture_output=True, text=True).stdout
        listed = re.findall(r"^  (\w+)", text.partition("Subcommands:")[2], re.MULTILINE)
        self.assertEqual(sorted(listed), sorted(COMMANDS))
        offered = complete("rocattach", ROCATTACH, "")
        self.assertEqual({o for o in offered if not o.startswith("-")}, set(COMMANDS))

    def test_completion_asks_the_program_for_types(self):
        types = complete("rocattach", ROCATTACH, "dump", "--type", "")
        self.assertIn("dispatch", types)
        self.assertIn("window,copy", complete("rocattach", ROCATTACH, "dump", "-t", "window,co"))

    def test_completion_asks_the_program_for_formats(self):
        formats = complete("rocattach", ROCATTACH, "convert", "-f", "")
        self.assertLessEqual({"csv", "json", "ndjson", "rocpd"}, formats)
        self.assertIn("csv,rocpd", complete("rocattach", ROCATTACH, "convert", "-f", "csv,ro"))
        text = subprocess.run(
            [ROCATTACH, "convert", "--help"], capture_output=True, text=True, check=True
        ).stdout
        self.assertLessEqual(formats, complete("rocattach", ROCATTACH, "attach", "-f", ""))
        page = manual(PAGES["convert"])
        for name in formats:
            self.assertIn(name, text)
            self.assertIn(".It Cm %s\n" % name, page)

    def test_completion_offers_recordings(self):
        with tempfile.TemporaryDirectory() as directory:
            for name in ("a run.rwa", "notes.txt"):
                with open(os.path.join(directory, name), "w", encoding="ascii"):
                    pass
            os.mkdir(os.path.join(directory, "more"))
            offered = complete("rocattach", ROCATTACH, "report", directory + "/")
            text = " ".join(sorted(offered))
            self.assertIn("run.rwa", text)
            self.assertIn(directory + "/more", text)
            self.assertNotIn("notes.txt", text)


    def test_manual_has_the_ranges_and_defaults(self):
        parts = subsections(manual("rocattach.1"))
        found = check_values(self, parts["rocattach report"], ROCATTACH, "report")
        self.assertIn("--top", found)
        found = check_values(self, parts["rocattach compare"], ROCATTACH, "compare")
        self.assertIn("--threshold", found)
        check_values(self, parts["rocattach session"], ROCATTACH, "session", "start")
        check_values(self, parts["rocattach profile"], ROCATTACH, "profile")
        check_values(self, parts["rocattach merge"], ROCATTACH, "merge")
        check_values(self, manual(PAGES["convert"]), ROCATTACH, "convert")


class PagesTest(unittest.TestCase):
    @unittest.skipUnless(shutil.which("man") or os.environ.get("CI"), "man is not installed")
    def test_man_has_no_warnings(self):
        for page in ("rocattach.1", "rocattach-convert.1", "rocattach-watch.1"):
            run = subprocess.run(
                ["man", "--warnings", "-l", os.path.join(SOURCE, "docs", "man", page)],
                capture_output=True,
                text=True,
                env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "90"},
            )
            self.assertEqual((run.returncode, run.stderr), (0, ""), page)
            self.assertIn("EXIT STATUS", run.stdout)

    def test_pages_name_each_other(self):
        self.assertIn(".Xr rocattach-watch 1", manual("rocattach.1"))
        self.assertIn(".Xr rocattach 1", manual("rocattach-watch.1"))


if __name__ == "__main__":
    SOURCE, ROCATTACH = sys.argv[1], os.path.abspath(sys.argv[2])
    WATCH = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else ""
    unittest.main(argv=sys.argv[:1])
