"""Server of the page on the loopback interface."""

from __future__ import annotations

import logging
import socket
import webbrowser
from pathlib import Path
from typing import Any

from dpcov.app.access import HOST, Access
from dpcov.app.folder import Folder
from dpcov.app.pages import MAX_BODY_BYTES, Pages
from dpcov.core.installing import library
from dpcov.core.printable import shown
from dpcov.errors import OutputError

THREADS = 4  # so that a long release leaves threads for other pages
# Largest header of a request in bytes.
MAX_HEADER_BYTES = 2**16
# Largest number of connections at the same time: a browser opens about six.
MAX_CONNECTIONS = 50


def serve(folder: Path, *, port: int = 0, browser: bool = True) -> None:
    """Serve the page until the user stops the command.

    Parameters
    ----------
    folder : Path
        Folder with the tables.

    port : int, default 0
        Port on the loopback interface. 0 stands for any free port.

    browser : bool, default True
        If True, open the browser.

    Raises
    ------
    OutputError
        If waitress, werkzeug or jinja2 is not installed, or if the port is in use.

    """
    waitress = library("waitress", "The page needs waitress. Install it", OutputError)
    library("jinja2", "The page needs jinja2. Install it", OutputError)
    library("werkzeug", "The page needs werkzeug. Install it", OutputError)
    logging.getLogger("waitress").setLevel(logging.CRITICAL)  # its messages can quote a request
    tables = Folder(folder)
    with socket.socket() as listening:
        try:
            listening.bind((HOST, port))
            listening.listen(MAX_CONNECTIONS)
        except OSError as error:
            raise OutputError(
                f"Port {port} cannot be used: {error.strerror or 'the system refuses'}. Choose "
                "another port."
            ) from None
        access = Access(listening.getsockname()[1])
        server = waitress.create_server(
            Pages(tables, access),
            sockets=[listening],
            threads=THREADS,
            ident=None,
            max_request_body_size=MAX_BODY_BYTES,
            max_request_header_size=MAX_HEADER_BYTES,
            connection_limit=MAX_CONNECTIONS,
        )
        _run(server, access, tables, browser)


def _run(server: Any, access: Access, tables: Folder, browser: bool) -> None:
    """Open the page and serve it until the user stops the command."""
    opening = access.write_opening_file()
    try:
        print(f"dpcov app serves {shown(tables.root)} on {access.origin}, for you only.")
        print(f"To open the page, open this file in a browser; it works once: {shown(opening)}")
        print("Press Ctrl-C to stop.", flush=True)
        if browser:
            webbrowser.open(opening.as_uri())  # the arguments of the browser contain no secret
        server.run()
    finally:
        access.remove_opening_file()
        server.close()
