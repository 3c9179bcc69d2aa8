"""Drives a page in Chromium, through the pipe of its DevTools protocol."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-background-networking"
)


class Browser:
    """One page of a Chromium that runs without a window."""

    def __init__(self, process: subprocess.Popen[bytes], requests: int, answers: int, downloads: Path) -> None:
        self.process, self.requests, self.answers, self.downloads = process, requests, answers, downloads
        self.errors: list[str] = []  # that the page has printed
        self._number = 0
        self._buffer = b""
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "DOM"):
            self.call(f"{domain}.enable")
        self.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(downloads))

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a command of the protocol."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self._session
        os.write(self.requests, json.dumps(message).encode() + b"\0")
        while (answer := self._read()).get("id") != self._number:
            if answer.get("method") == "Runtime.exceptionThrown":
                self.errors.append(answer["params"]["exceptionDetails"]["exception"]["description"])
            if answer.get("method") == "Log.entryAdded" and answer["params"]["entry"]["source"] != "network":
                self.errors.append(answer["params"]["entry"]["text"])
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            part = os.read(self.answers, 1 << 20)
            assert part, "Chromium has ended"
            self._buffer += part
        message, self._buffer = self._buffer.split(b"\0", 1)
        parsed: dict[str, Any] = json.loads(message)
        return parsed

    def open(self, url: str, *, width: int = 1000) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, expression: str, *, timeout_s: float = 30.0) -> Any:
        """Return the value of an expression once it is true."""
        end = time.monotonic() + timeout_s
        while not (value := self.value(expression)):
            assert time.monotonic() < end, (
                f"not true: {expression}; the page shows: {self.value('document.body.innerText')}"
            )
            time.sleep(0.02)
        return value

    def type(self, text: str) -> None:
        """Insert text where the focus is. The focus of a new page comes with its first frame."""
        self.wait("document.activeElement !== document.body")
        self.call("Input.insertText", text=text)

    def point(self, selector: str, *, click: bool = False) -> None:
        """Move the mouse to the middle of the first element that a CSS selector finds."""
        element = f"document.querySelector({selector!r})"
        self.value(f"{element}.scrollIntoView({{block: 'nearest'}})")
        box = self.value(f"{element}.getBoundingClientRect().toJSON()")
        at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
        self.call("Input.dispatchMouseEvent", type="mouseMoved", **at)
        for kind in ("mousePressed", "mouseReleased") if click else ():
            self.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **at)

    def drop(self, file: Path) -> None:
        """Drop a file on the page."""
        data = {"items": [], "files": [str(file)], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            self.call("Input.dispatchDragEvent", type=kind, x=100, y=100, data=data)


@contextmanager
def browsing() -> Iterator[Browser]:
    """Yield a browser that ends with this context."""
    assert CHROMIUM is not None
    requests_read, requests = os.pipe()
    answers, answers_write = os.pipe()
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        profile, downloads = Path(folder, "profile"), Path(folder, "downloads")
        downloads.mkdir()
        command = [CHROMIUM, *FLAGS.split(), "--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        pipes = f'exec "$@" 3<&{requests_read} 4>&{answers_write}'  # the descriptors that the protocol uses
        process = subprocess.Popen(
            ["bash", "-c", pipes, "bash", *command],
            pass_fds=(requests_read, answers_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(requests_read)
        os.close(answers_write)
        try:
            yield Browser(process, requests, answers, downloads)
        finally:
            process.kill()
            process.wait()
            os.close(requests)
            os.close(answers)
