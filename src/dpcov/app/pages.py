"""The application: checks each request, and passes it to the page that the address names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from dpcov.app import access as secrets
from dpcov.app.access import Access
from dpcov.app.describing import Describing
from dpcov.app.folder import Folder
from dpcov.app.number_formats import preferred
from dpcov.app.releasing import Releasing
from dpcov.app.results import Results
from dpcov.app.site import Site
from dpcov.core.installing import library
from dpcov.errors import DpcovError, OutputError

# Largest body of a request in bytes: the form of a wide table needs less.
MAX_BODY_BYTES = 2**21
NO_ACCESS_MESSAGE = (
    "This page belongs to the person who started dpcov app. Open the file that the terminal names, "
    "or start dpcov app again: the file works once."
)
SCRIPTS = {"app.css": "text/css", "app.js": "text/javascript"}


class Pages:
    """WSGI application of one folder and one user.

    Parameters
    ----------
    folder : Folder
        Folder with the tables.

    access : Access
        Secrets and checks of the run.

    """

    def __init__(self, folder: Folder, access: Access) -> None:
        self.site, self.access = Site(folder, access), access
        needed = "The page needs werkzeug. Install it"
        self.faults = library("werkzeug", needed, OutputError, module="werkzeug.exceptions")
        self.views: dict[tuple[str, str], Callable[[Any], Any]] = {}
        for part in (Describing(self.site), Releasing(self.site), Results(self.site)):
            self.views |= part.views

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request. No error text leaves this method unless dpcov wrote the text."""
        request = self.site.wrappers.Request(environ)
        request.max_content_length = request.max_form_memory_size = MAX_BODY_BYTES
        try:
            response = self._answer(request)
        except self.faults.HTTPException as fault:
            response = self.site.plain(f"The request was refused: {fault.name}.", fault.code or 400)
        except Exception as error:
            name = type(error).__name__
            response = self.site.plain(f"Unexpected {name}; its text is hidden.", 500)
        for name, value in secrets.HEADERS.items():
            response.headers.setdefault(name, value)
        answered: Iterable[bytes] = response(environ, start)
        return answered

    def _answer(self, request: Any) -> Any:
        """Check who asks, and return the page that the address names."""
        if request.path == "/enter":
            return self._enter(request)
        if not request.path.startswith(self.access.folder) or not self.access.is_allowed(request):
            return self.site.plain(NO_ACCESS_MESSAGE, 403)
        page = request.path.removeprefix(self.access.folder)
        if page in SCRIPTS:
            body = Path(__file__).with_name("static").joinpath(page).read_bytes()
            return self.site.wrappers.Response(body, mimetype=SCRIPTS[page])
        method = "GET" if request.method == "HEAD" else request.method
        view = self.views.get((method, page))
        if view is None:
            return self.site.page("message", status=404, title="There is no such page.", message="")
        if self.site.format is None:
            self.site.format = preferred(request.headers.get("Accept-Language", ""))
        try:
            return view(request)
        except DpcovError as error:
            title = "dpcov could not do this"
            return self.site.page("message", status=400, title=title, message=str(error))

    def _enter(self, request: Any) -> Any:
        """Exchange the one-time token for the cookie."""
        if request.method != "POST" or not self.access.is_own_host(request):
            return self.site.plain(NO_ACCESS_MESSAGE, 403)
        cookie = self.access.use_token(request.form.get("token", ""))
        if cookie is None:
            return self.site.plain(NO_ACCESS_MESSAGE, 403)
        response = self.site.page("enter", title="dpcov is open")
        response.set_cookie(
            secrets.COOKIE, cookie, path=self.access.folder, httponly=True, samesite="Strict"
        )
        return response
