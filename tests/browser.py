"""A headless Chromium over its DevTools pipe, with nothing but the standard library."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE = 60.0


def executable() -> str | None:
    """Return an installed Chromium, or None."""
    return next((path for path in map(shutil.which, NAMES) if path is not None), None)


class Browser:
    """One page in a browser of its own; `events` holds what the browser reported."""

    def __init__(self, path: str) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._commands = os.pipe()
        self._answers, from_browser = os.pipe()
        # The browser reads commands from descriptor 3 and answers on 4.
        script = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        folder = f"--user-data-dir={self._profile.name}"
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", script, path, *FLAGS, folder, "about:blank"],
            pass_fds=(to_browser, from_browser),
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._number, self._buffer = 0, b""
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self._call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._commands)
        os.close(self._answers)
        self._profile.cleanup()

    def open(self, page: Path, width: int, *, dark: bool = False, printed: bool = False) -> None:
        """Show a file in a window of this width, or as a printer does on paper of this width."""
        self.events.clear()
        self.show_as(width, dark=dark, printed=printed)
        self._call("Page.navigate", url=page.resolve().as_uri())
        deadline = time.monotonic() + PATIENCE
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            if time.monotonic() > deadline:
                raise TimeoutError("the page did not load")
            self.events.append(self._read(deadline))

    def show_as(self, width: int, *, dark: bool = False, printed: bool = False) -> None:
        """Give the window a width, a colour scheme, and the medium of a printer if wanted."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=900, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        medium = "print" if printed else ""
        self._call("Emulation.setEmulatedMedia", media=medium, features=[scheme])

    def value(self, expression: str) -> Any:
        """Return the value of a JavaScript expression on the page, or of its promise."""
        found = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        return found["result"].get("value")

    def press(self, key: str, *, code: int = 0, text: str = "", modifiers: int = 0) -> None:
        """Press and release a key; `text` is what the key types."""
        facts = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        typed = {"text": text} if text else {}
        self._call("Input.dispatchKeyEvent", type="keyDown", **facts, **typed)
        self._call("Input.dispatchKeyEvent", type="keyUp", **facts)

    def picture(self) -> bytes:
        """Return the whole page as PNG."""
        shot = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def printed(self) -> bytes:
        """Return the page as PDF, on paper of the size that the page requests."""
        paper = self._call("Page.printToPDF", preferCSSPageSize=True, printBackground=False)
        return base64.b64decode(paper["data"])

    def complaints(self) -> list[str]:
        """Return the console's errors and warnings, and the addresses that the page requested."""
        found = []
        for event in self.events:
            facts = event["params"]
            if event["method"] == "Log.entryAdded":
                found.append(facts["entry"]["text"])
            elif event["method"] in ("Runtime.exceptionThrown", "Runtime.consoleAPICalled"):
                found.append(json.dumps(facts))
            elif event["method"] == "Network.requestWillBeSent":
                address = facts["request"]["url"]
                if not address.startswith(("file:", "data:")):
                    found.append(address)
        return found

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._read(deadline)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(answer["error"]["message"])
                return dict(answer["result"])
            self.events.append(answer)

    def _read(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], deadline - time.monotonic())
            part = os.read(self._answers, 2**20) if ready else b""
            if not part:
                raise TimeoutError("the browser does not answer")
            self._buffer += part
        text, self._buffer = self._buffer.split(b"\0", 1)
        return dict(json.loads(text))
