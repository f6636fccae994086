"""Chromium without a screen, driven over a pipe: no driver, no port."""

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

SECONDS = 60


def find_chromium():
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page of one browser. `problems` has what its console complained about."""

    def __init__(self):
        self.problems = []
        self._loaded = False
        self._number = 0
        self._buffer = b""
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # The browser reads commands from descriptor 3 and answers on 4.
        command = (
            'exec "$0" --headless=new --no-sandbox --disable-gpu --hide-scrollbars '
            "--disable-dev-shm-usage --no-first-run --disable-background-networking "
            "--disable-component-update --disable-sync --disable-extensions "
            '--user-data-dir="$1" --remote-debugging-pipe '
            f"about:blank 3<&{to_read} 4>&{to_write} >/dev/null 2>&1"
        )
        self._process = subprocess.Popen(
            ["bash", "-c", command, find_chromium(), self._folder.name],
            pass_fds=(to_read, to_write),
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(t["targetId"] for t in targets if t["type"] == "page")
        self._session = None
        self._session = self._call(
            "Target.attachToTarget", targetId=page, flatten=True
        )["sessionId"]
        for domain in ("Runtime", "Page", "Log", "Network"):
            self._call(domain + ".enable")

    def close(self):
        # With its own processes, which are in its group.
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._folder.cleanup()

    def _message(self):
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], SECONDS)[0]:
                raise RuntimeError("the browser does not answer")
            part = os.read(self._read, 1 << 20)
            if not part:
                raise RuntimeError("the browser has ended")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def _call(self, method, **parameters):
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        if getattr(self, "_session", None):
            request["sessionId"] = self._session
        os.write(self._write, json.dumps(request).encode() + b"\0")
        while True:
            message = self._message()
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self._note(message)

    def _note(self, message):
        method, what = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = what["exceptionDetails"]
            self.problems.append(
                details.get("exception", {}).get("description", details["text"])
            )
        elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning"):
            self.problems.append(str(what["args"]))
        elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
            self.problems.append(what["entry"]["text"])
        elif method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Page.javascriptDialogOpening":
            self.problems.append("dialog: " + what["message"])
        elif method == "Network.requestWillBeSent":
            url = what["request"]["url"]
            if not url.startswith(("file:", "data:", "about:")):
                self.problems.append("requested " + url)

    def show(self, width, height, dark=False, touch=False):
        """The size of the window, and what the user prefers."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=2 if touch else 1, mobile=touch,
        )  # fmt: skip
        self._call(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )

    def open(self, path):
        self._loaded = False
        self._call("Page.navigate", url="file://" + os.path.abspath(path))
        self.wait("document.readyState === 'complete'", lambda: self._loaded)
        self.wait("document.documentElement.dataset.ready === 'true'")
        self.settle()

    def run(self, script):
        """The value of an expression on the page."""
        result = self._call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"])
        return result["result"].get("value")

    def wait(self, condition, also=lambda: True):
        end = time.monotonic() + SECONDS
        while not (self.run(condition) and also()):
            if time.monotonic() > end:
                raise RuntimeError("never true: " + condition)
            time.sleep(0.05)

    def settle(self):
        """Waits until what was asked for is drawn."""
        self.run(
            "new Promise(f => requestAnimationFrame(() => requestAnimationFrame(f)))"
        )

    def key(self, key, text=None):
        event = {"key": key}
        if text or len(key) == 1:
            event["text"] = text or key
        self._call("Input.dispatchKeyEvent", type="keyDown", **event)
        self._call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()

    def mouse(self, kind, x, y, **more):
        self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", buttons=1, clickCount=1)
        self.settle()

    def screenshot(self, path, whole=True):
        data = self._call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
