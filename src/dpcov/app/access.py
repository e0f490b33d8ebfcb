"""Access to the page: a one-time token, a cookie, and the checks of each request.

The token opens the page once. It is in a file that only the user can read, and in no argument of a
process. All other addresses start with a secret folder, and the browser sends the cookie for this
folder only. A server of another user on another port therefore never receives the cookie.
"""

from __future__ import annotations

import os
import tempfile
from hmac import compare_digest
from pathlib import Path
from secrets import token_urlsafe
from string import Template
from threading import Lock
from typing import TYPE_CHECKING

from dpcov.core.files import keep_private

if TYPE_CHECKING:
    from werkzeug.wrappers import Request

HOST = "127.0.0.1"
COOKIE = "dpcov"
# Random bytes of a secret.
SECRET_BYTES = 32
SAFE_METHODS = ("GET", "HEAD")
# Values of the header Sec-Fetch-Site that the page's own requests have.
OWN_SITES = (None, "same-origin", "none")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# A report has its own styles and pictures. The browser treats the report as another site.
DOCUMENT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; "
    "frame-ancestors 'none'; base-uri 'none'; sandbox"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Access:
    """Secrets of one run of the page.

    Parameters
    ----------
    port : int
        Port of the server on the loopback interface.

    """

    def __init__(self, port: int) -> None:
        self.host = f"{HOST}:{port}"
        self.origin = f"http://{self.host}"
        self.folder = f"/{token_urlsafe(SECRET_BYTES)}/"
        self.form_key = token_urlsafe(SECRET_BYTES)
        self._token: str | None = token_urlsafe(SECRET_BYTES)
        self._cookie = token_urlsafe(SECRET_BYTES)
        self._lock = Lock()
        self._file: Path | None = None

    def write_opening_file(self) -> Path:
        """Write the page that opens the browser, for the user only, and return its path."""
        folder = Path(tempfile.mkdtemp(prefix="dpcov-app-"))  # mode 0700
        path = folder / "open.html"
        page = Path(__file__).with_name("templates").joinpath("open.html").read_text("utf-8")
        stated = {"ADDRESS": f"{self.origin}/enter", "TOKEN": str(self._token)}
        text = Template(page).substitute(stated)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        os.close(os.open(path, flags, 0o600))
        keep_private(path)
        with open(path, "r+", encoding="utf-8") as out:  # noqa: PTH123  never creates a file
            out.write(text)
        self._file = path
        return path

    def remove_opening_file(self) -> None:
        """Remove the page that opens the browser, if it exists."""
        with self._lock:
            path, self._file = self._file, None
        if path is not None:
            path.unlink(missing_ok=True)
            path.parent.rmdir()

    def use_token(self, token: str) -> str | None:
        """Return the cookie for the right token, once; None for any other token."""
        with self._lock:
            if self._token is None or not _equal(token, self._token):
                return None
            self._token = None
        self.remove_opening_file()
        return self._cookie

    def is_own_host(self, request: Request) -> bool:
        """Return True if the browser asked for this server by its number, not by another name."""
        return request.headers.get("Host") == self.host

    def is_allowed(self, request: Request) -> bool:
        """Return True for a request of the open page itself."""
        if not self.is_own_host(request):
            return False
        origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
        if origin not in (None, self.origin) or site not in OWN_SITES:
            return False
        if not _equal(request.cookies.get(COOKIE, ""), self._cookie):
            return False
        if request.method in SAFE_METHODS:
            return True
        return origin == self.origin and _equal(request.form.get("key", ""), self.form_key)


def _equal(stated: str, secret: str) -> bool:
    return compare_digest(stated.encode(), secret.encode())
