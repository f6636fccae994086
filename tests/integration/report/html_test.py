#!/usr/bin/env python3
"""The page of `rocattach report --html` in headless Chromium: it opens, zooms, sorts and
searches without an error, with hostile names, in light and dark and on a phone.

usage: html_test.py ROCATTACH MAKE_RECORDING
ROCATTACH_SCREENSHOTS=DIR keeps pictures; ROCATTACH_HTML_DISPATCHES sets the size.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

from browser import Browser, find_chromium

ROCATTACH = MAKE_RECORDING = ""
DISPATCHES = int(os.environ.get("ROCATTACH_HTML_DISPATCHES", "200000"))
SCREENSHOTS = os.environ.get("ROCATTACH_SCREENSHOTS", "")


def run(*command, status=0):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == status, (command, done.returncode, done.stderr)
    return done


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not find_chromium():
            raise unittest.SkipTest("chromium is not installed")
        cls.folder = tempfile.TemporaryDirectory()
        cls.recording = os.path.join(cls.folder.name, "run.rwa")
        cls.page = os.path.join(cls.folder.name, "run.html")
        # Three processes, with names that are as hostile as possible.
        run(MAKE_RECORDING, cls.recording, "7", "2000", "3")
        run(ROCATTACH, "report", "--html", cls.page, cls.recording)
        cls.report = json.loads(run(ROCATTACH, "report", "--json", cls.recording).stdout)
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def setUp(self):
        self.browser.show(1280, 900)
        self.browser.problems.clear()

    def tearDown(self):
        self.assertEqual(self.browser.problems, [])

    def picture(self, name, whole=True):
        if SCREENSHOTS:
            self.browser.screenshot(os.path.join(SCREENSHOTS, name + ".png"), whole)

    def view(self):
        box = self.browser.run("({...document.getElementById('timeline').dataset})")
        return float(box["from"]), float(box["to"])

    def rows(self):
        return self.browser.run(
            "[...document.querySelectorAll('tr.kernel')].map(row => "
            "[...row.cells].map(cell => cell.textContent))"
        )

    def table_is_sorted_by(self, key, descending):
        values = self.browser.run(
            "(() => { const kernels = JSON.parse(document.getElementById('data').textContent)"
            ".kernels; return [...document.querySelectorAll('tr.kernel')]"
            f".map(row => kernels[row.dataset.kernel].{key}); }})()"
        )
        self.assertEqual(values, sorted(values, reverse=descending))
        return values

    def test_shows_the_data_of_the_report(self):
        self.browser.open(self.page)
        self.picture("light")
        totals = {}
        for process in self.report["recordings"][0]["processes"]:
            for kernel in process["kernels"]:
                name = kernel["name"] or str(kernel["kernel_id"])
                totals.setdefault(name, 0)
                totals[name] += kernel["count"]
        rows = self.rows()
        self.assertEqual(len(rows), len(totals))
        counts = [int(row[1].replace(",", "")) for row in rows]
        self.assertEqual(sorted(counts), sorted(totals.values()))
        text = self.browser.run("document.body.innerText")
        self.assertIn("app (pid 4001)", text)
        self.assertIn("./app --number=1", text)
        self.assertIn("AMD Instinct MI210", text)
        untimed = self.report["recordings"][0]["processes"][0]
        self.assertIn(f"{untimed['untimed'] + untimed['unfinished']} without times", text)
        self.assertIn("GPU 0, queue 1", self.browser.run(
            "document.getElementById('data').textContent"))  # fmt: skip

    def test_zooms_and_pans(self):
        self.browser.open(self.page)
        whole = self.view()
        self.browser.run("document.getElementById('timeline').focus()")
        for key in "+++":
            self.browser.key(key)
        begin, end = self.view()
        self.assertAlmostEqual(end - begin, (whole[1] - whole[0]) / 8, delta=1)
        self.browser.key("ArrowRight")
        self.assertGreater(self.view()[0], begin)
        self.assertAlmostEqual(self.view()[1] - self.view()[0], end - begin, delta=1)
        # Dragging moves the timeline under the mouse.
        begin = self.view()[0]
        self.browser.run("scrollTo(0, 0)")
        x, y = self.browser.run(
            "(() => { const r = document.getElementById('timeline').getBoundingClientRect();"
            "return [r.x + 700, r.y + 60]; })()"
        )
        self.browser.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        self.browser.mouse("mouseMoved", x - 200, y, button="left", buttons=1)
        self.browser.mouse("mouseReleased", x - 200, y, button="left", clickCount=1)
        self.browser.settle()
        self.assertGreater(self.view()[0], begin)
        # Ctrl and the wheel zoom where the mouse is.
        before = self.view()
        self.browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-200, modifiers=2)
        self.browser.settle()
        self.assertLess(self.view()[1] - self.view()[0], before[1] - before[0])
        self.browser.key("0")
        self.assertEqual(self.view(), whole)
        for key in "+" * 12:
            self.browser.key(key)
        self.picture("zoomed", whole=False)

    def test_an_empty_view_leads_to_the_next_operation(self):
        self.browser.open(self.page)
        empty = ("[!document.getElementById('next-operation').hidden, "
                 "document.getElementById('range').textContent.endsWith(': nothing ran')]")
        self.assertEqual(self.browser.run(empty), [False, False])
        self.browser.run("document.getElementById('timeline').focus()")
        for key in ["+"] * 30 + ["End"] + ["ArrowRight"] * 6:
            self.browser.key(key)
        self.assertEqual(self.browser.run(empty), [True, True])
        after = self.view()
        self.browser.run("document.getElementById('next-operation').click()")
        self.browser.settle()
        self.assertEqual(self.browser.run(empty), [False, False])
        self.assertLess(self.view()[0], after[0])  # the first one follows the last
        self.assertAlmostEqual(self.view()[1] - self.view()[0], after[1] - after[0], delta=1)

    def test_the_overview_moves_the_view(self):
        self.browser.open(self.page)
        whole = self.view()
        self.browser.run("document.getElementById('timeline').focus()")
        for key in "+++":
            self.browser.key(key)
        before = self.view()
        x, y, width = self.browser.run(
            "(() => { const r = document.getElementById('overview-canvas')"
            ".getBoundingClientRect(); return [r.x, r.y + r.height / 2, r.width]; })()")
        self.browser.click(x + 190 + (width - 190) / 4, y)
        after = self.view()
        self.assertAlmostEqual(after[1] - after[0], before[1] - before[0], delta=1)
        self.assertAlmostEqual(((after[0] + after[1]) / 2 - whole[0]) / (whole[1] - whole[0]),
                               0.25, delta=0.01)

    def test_the_tooltip_names_the_operation_under_the_mouse(self):
        self.browser.open(self.page)
        self.browser.run("document.getElementById('timeline').focus()")
        for _ in range(40):
            self.browser.key("+")
        self.browser.run("document.getElementById('search').value = 'scale';"
                         "document.getElementById('search')"
                         ".dispatchEvent(new Event('input'))")  # fmt: skip
        self.browser.wait("document.getElementById('found').textContent !== ''")
        self.browser.run("document.getElementById('next-match').click()")
        self.browser.settle()
        box = self.browser.run(
            "(() => { const r = document.getElementById('timeline').getBoundingClientRect();"
            "return [r.x, r.y, r.width, r.height]; })()"
        )
        # The match is in the middle, in one of the lanes.
        found = set()
        for lane in range(14):
            x, y = box[0] + 190 + (box[2] - 190) / 2, box[1] + 26 + 40 * lane + 20
            if y > box[1] + box[3]:
                break
            self.browser.mouse("mouseMoved", x, y)
            self.browser.settle()
            if not self.browser.run("document.getElementById('tip').hidden"):
                found.add(self.browser.run("document.querySelector('#tip b').textContent"))
        self.assertIn("Scale(float*, float, int)", found)

    def test_sorts_and_opens_rows(self):
        self.browser.open(self.page)
        self.table_is_sorted_by("total", descending=True)
        for title, key, descending in (
            ("max", "max", True), ("max", "max", False), ("calls", "count", True),
            ("σ", "sigma", True), ("min", "min", False),
        ):  # fmt: skip
            self.browser.run(
                "[...document.querySelectorAll('#kernel-table th button')]"
                f".find(b => b.textContent === '{title}').click()"
            )
            self.browser.settle()
            self.table_is_sorted_by(key, descending)
        sort = self.browser.run(
            "[...document.querySelectorAll('th[aria-sort]')].map(h => "
            "[h.textContent, h.getAttribute('aria-sort')])"
        )
        self.assertEqual(sort, [["min", "ascending"]])
        # A row opens with the keyboard.
        self.browser.run("[...document.querySelectorAll('tr.kernel button')].find(b => "
                         "b.textContent.startsWith('Scale')).focus()")  # fmt: skip
        self.browser.key("Enter", "\r")
        self.assertEqual(self.browser.run("document.querySelectorAll('tr.details').length"), 1)
        text = self.browser.run("document.querySelector('tr.details').innerText")
        self.assertIn("_Z5ScalePffi", text)
        self.assertIn("SQ_WAVES", text)
        self.assertIn("app (pid 4001): 1 of 1 pass measured", text)
        self.assertGreater(self.browser.run("document.querySelectorAll('svg rect').length"), 0)
        self.picture("details")

    def test_searches(self):
        self.browser.open(self.page)
        everything = len(self.rows())
        self.browser.key("/")
        self.assertEqual(self.browser.run("document.activeElement.id"), "search")
        for key in "shift":
            self.browser.key(key)
        self.browser.wait("document.getElementById('found').textContent === '1 kernel'")
        self.assertEqual([row[-1] for row in self.rows()], ["Shift(float*, float, int)"])
        whole = self.view()
        self.browser.key("Enter", "\r")
        self.assertLess(self.view()[1] - self.view()[0], (whole[1] - whole[0]) / 10)
        self.picture("search")
        self.browser.run("document.getElementById('search').value = ''; document"
                         ".getElementById('search').dispatchEvent(new Event('input'))")  # fmt: skip
        self.browser.wait(f"document.querySelectorAll('tr.kernel').length === {everything}")

    def test_flame_graph_zooms_with_the_keyboard(self):
        self.browser.open(self.page)
        text = "document.getElementById('flame-text').textContent"
        self.assertTrue(self.browser.run(text).startswith("all kernel time: "))
        self.browser.run("document.getElementById('flame').focus()")
        self.browser.key("ArrowDown")
        self.browser.key("Enter", "\r")
        self.assertRegex(self.browser.run(text), r"^all kernel time → app \(pid 400\d\): ")
        self.assertFalse(self.browser.run("document.getElementById('flame-all').hidden"))
        self.browser.key("ArrowDown")
        self.browser.key("ArrowDown")
        self.assertRegex(self.browser.run(text), r"→ GPU \d, queue \d → .*dispatch")
        self.browser.key("Escape")
        self.assertTrue(self.browser.run("document.getElementById('flame-all').hidden"))

    def test_names_are_text(self):
        hostile = os.path.join(self.folder.name, "hostile.rwa")
        page = os.path.join(self.folder.name, "hostile.html")
        name = '</script><img src=x onerror="alert(1)"><b>x</b>'
        run(MAKE_RECORDING, hostile, "1", "50", "1", name)
        run(ROCATTACH, "report", "--html", page, hostile)
        self.browser.open(page)
        self.assertIn(name, [row[-1] for row in self.rows()])
        self.assertEqual(self.browser.run("document.images.length"), 0)
        self.assertEqual(self.browser.run("document.querySelectorAll('td b').length"), 0)
        self.browser.run("[...document.querySelectorAll('tr.kernel')].forEach(r => r.click())")
        self.browser.settle()
        self.assertEqual(self.browser.run("document.images.length"), 0)

    def test_dark_and_narrow(self):
        self.browser.show(1280, 900, dark=True)
        self.browser.open(self.page)
        ground = "getComputedStyle(document.body).backgroundColor"
        dark = self.browser.run(ground)
        self.picture("dark")
        self.browser.run("document.getElementById('theme').click()")
        self.assertNotEqual(self.browser.run(ground), dark)
        for dark_mode, name in ((False, "narrow"), (True, "narrow-dark")):
            self.browser.show(390, 844, dark=dark_mode, touch=True)
            self.browser.open(self.page)
            self.assertEqual(
                self.browser.run("document.documentElement.scrollWidth"), 390, "no sideways"
            )
            self.picture(name)

    def test_many_dispatches_stay_fluid(self):
        many = os.path.join(self.folder.name, "many.rwa")
        page = os.path.join(self.folder.name, "many.html")
        run(MAKE_RECORDING, many, "1", str(DISPATCHES))
        run(ROCATTACH, "report", "--html", page, many)
        self.assertLess(os.path.getsize(page), 12 << 20)
        self.browser.open(page)
        self.browser.run("document.getElementById('timeline').focus()")
        times = []
        for key in "++++++++++++" + "0":
            self.browser.key(key)
            times.append(
                float(self.browser.run("document.getElementById('timeline').dataset.drawMs"))
            )
        self.picture("many", whole=False)
        # At 60 frames a second each has 16 ms; other programs may occupy the processor.
        self.assertLess(sorted(times)[len(times) // 2], 50, times)


class CommandTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.recording = os.path.join(self.folder.name, "run.rwa")
        self.page = os.path.join(self.folder.name, "run.html")
        run(MAKE_RECORDING, self.recording, "1", "100")

    def test_does_not_overwrite(self):
        run(ROCATTACH, "report", "--html", self.page, self.recording)
        done = run(ROCATTACH, "report", "--html", self.page, self.recording, status=3)
        self.assertIn("exists; --force replaces it", done.stderr)
        done = run(ROCATTACH, "report", "--html", self.page, "--force", self.recording)
        self.assertEqual(done.stderr, f"rocattach: wrote {self.page}\n")
        self.assertEqual(os.listdir(self.folder.name).count("run.html.partial"), 0)
        for place, why in ((self.folder.name, "directory"), ("/dev/null", "regular file")):
            done = run(
                ROCATTACH, "report", "--force", "--html", place, self.recording, status=3
            )
            self.assertIn(why, done.stderr)

    def test_bad_input_leaves_no_page(self):
        for name, content in (("empty", b""), ("text", b"hello\n" * 100)):
            path = os.path.join(self.folder.name, name)
            with open(path, "wb") as file:
                file.write(content)
            done = run(ROCATTACH, "report", "--html", self.page, path, status=3)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertEqual(
                [f for f in os.listdir(self.folder.name) if f.startswith("run.html")], []
            )
        done = run(ROCATTACH, "report", "--html", self.page, self.folder.name, status=3)
        self.assertIn("directory", done.stderr)

    def test_a_full_disk_leaves_a_page_that_is_named_partial(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        done = subprocess.run(
            [ROCATTACH, "report", "--html", self.page, self.recording],
            capture_output=True, text=True, check=False, preexec_fn=limit,
        )  # fmt: skip
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(f"what was written is {self.page}.partial", done.stderr)
        self.assertNotIn("wrote", done.stderr)
        self.assertFalse(os.path.exists(self.page))
        self.assertTrue(os.path.exists(self.page + ".partial"))

    def test_a_torn_recording_says_so_first(self):
        torn = os.path.join(self.folder.name, "torn.rwa")
        with open(self.recording, "rb") as whole, open(torn, "wb") as file:
            file.write(whole.read()[:-500])
        run(ROCATTACH, "report", "--html", self.page, torn, status=1)
        with open(self.page, encoding="utf-8") as file:
            text = file.read()
        begin = text.index('id="data">') + len('id="data">')
        data = json.loads(text[begin : text.index("</script>", begin)])
        self.assertTrue(data["losses"])
        self.assertTrue(data["recordings"][0]["incomplete"])
        done = run(ROCATTACH, "compare", self.recording, torn, status=1)
        self.assertTrue(done.stdout.startswith("INCOMPLETE: recording B: "), done.stdout)

    def test_compare_finds_a_regression(self):
        other = os.path.join(self.folder.name, "other.rwa")
        run(MAKE_RECORDING, other, "2", "100")
        same = run(ROCATTACH, "compare", "--threshold", "20", self.recording, other)
        self.assertIn("0 kernels are slower", same.stdout)
        slow = os.path.join(self.folder.name, "slow.rwa")
        subprocess.run(
            [MAKE_RECORDING, slow, "1", "100"], check=True,
            env={**os.environ, "MAKE_RECORDING_SLOWER": "2"},
        )  # fmt: skip
        done = run(ROCATTACH, "compare", "--json", self.recording, slow, status=4)
        data = json.loads(done.stdout)
        self.assertEqual(data["regressions"], 3)
        for kernel in data["kernels"]:
            self.assertEqual(kernel["verdict"], "slower")
            self.assertLess(kernel["low"], kernel["change"])
            self.assertGreater(kernel["low"], 0.9)
        faster = json.loads(run(ROCATTACH, "compare", "--json", slow, self.recording).stdout)
        self.assertEqual((faster["regressions"], faster["improvements"]), (0, 3))
        missing = os.path.join(self.folder.name, "none.rwa")
        run(ROCATTACH, "compare", self.recording, missing, status=3)

    def test_compare_options_for_confidence_and_share(self):
        other = os.path.join(self.folder.name, "seed2.rwa")
        run(MAKE_RECORDING, other, "2", "100")

        def compare(*options, status=0):
            done = run(ROCATTACH, "compare", "--json", *options, self.recording, other,
                       status=status)  # fmt: skip
            return json.loads(done.stdout)

        # A higher confidence gives a wider interval.
        widths = [
            {k["name"]: k["high"] - k["low"] for k in compare("--confidence", c)["kernels"]}
            for c in ("50", "95", "99.9")
        ]
        self.assertEqual(len(widths[0]), 3)
        for name, width in widths[0].items():
            self.assertLess(width, widths[1][name])
            self.assertLess(widths[1][name], widths[2][name])
        slow = os.path.join(self.folder.name, "slow2.rwa")
        subprocess.run(
            [MAKE_RECORDING, slow, "1", "100"], check=True,
            env={**os.environ, "MAKE_RECORDING_SLOWER": "2"},
        )  # fmt: skip
        # Each kernel has about a third of the time.
        run(ROCATTACH, "compare", self.recording, slow, status=4)
        done = run(ROCATTACH, "compare", "--min-share", "60", self.recording, slow)
        self.assertIn("0 kernels are slower", done.stdout)
        for option, value in (("--confidence", "49"), ("--confidence", "100"),
                              ("--min-share", "-1"), ("--threshold", "x")):  # fmt: skip
            done = run(ROCATTACH, "compare", option, value, self.recording, slow, status=2)
            self.assertIn(option, done.stderr)

    def test_groups_come_from_a_file(self):
        groups = os.path.join(self.folder.name, "groups.yaml")
        with open(groups, "w", encoding="utf-8") as file:
            file.write("mine:\n  - '^S(cale|um)'\n")
        done = run(ROCATTACH, "report", "--json", "--groups", groups, self.recording)
        process = json.loads(done.stdout)["recordings"][0]["processes"][0]
        by_name = {group["name"]: group for group in process["groups"]}
        self.assertEqual(by_name["mine"]["kernels"], 2)
        self.assertEqual(by_name[""]["kernels"], 1)
        self.assertEqual(sum(g["count"] for g in by_name.values()), 100)
        text = run(ROCATTACH, "report", "--groups", groups, self.recording).stdout
        self.assertRegex(text, r"%\s+\d+ .* 2  mine\n")
        with open(groups, "w", encoding="utf-8") as file:
            file.write("mine: ['(']\n")
        done = run(ROCATTACH, "report", "--groups", groups, self.recording, status=2)
        self.assertIn("group mine", done.stderr)


if __name__ == "__main__":
    ROCATTACH, MAKE_RECORDING = sys.argv[1:3]
    if SCREENSHOTS:
        os.makedirs(SCREENSHOTS, exist_ok=True)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
