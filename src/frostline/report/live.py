"""A folder's page, served on this machine alone and made anew whenever it is asked for, while a study runs."""

from __future__ import annotations

import contextlib
import html
import json
import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from frostline.errors import UserError
from frostline.report.page import render
from frostline.report.pages import page_of
from frostline.report.result_folder import open_folder

HOST = "127.0.0.1"
_TRY_AGAIN = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="3"><title>Not yet</title><p>{}</p>'
)


@contextlib.contextmanager
def serving(folder: Path, *, port: int = 0) -> Iterator[str]:
    """Serve the page until the block is left; gives its address.

    Args:
        folder: of a study, run or measurement.
        port: 0 for any that is free.
    """
    open_folder(folder)  # a mistake is said at once

    class Handler(_Handler):
        place = folder

    try:
        server = ThreadingHTTPServer((HOST, port), Handler)
    except OSError as error:
        raise UserError(f"`port={port}`: cannot be used ({error.strerror}); give another one") from None
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    place: Path

    def do_GET(self) -> None:
        """The page, or how far the study is."""
        # A page of another site could else ask through a name that it has turned to this machine.
        if self.headers.get("Host", "").partition(":")[0] not in (HOST, "localhost"):
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", "ask for 127.0.0.1")
        elif self.path == "/":
            try:
                state = _state(self.place)  # before the folder is read: what changes meanwhile is then seen
                self._answer(HTTPStatus.OK, "text/html", render(page_of(open_folder(self.place)), state=state))
            except (UserError, OSError) as error:  # a folder that is being written may be read too early: ask again
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "text/html", _TRY_AGAIN.format(html.escape(str(error))))
        elif self.path == "/progress.json":
            self._answer(HTTPStatus.OK, "application/json", _state(self.place))
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", "there is only /")

    def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        with contextlib.suppress(ConnectionError):  # whoever asked may have gone
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *values: object) -> None:
        """Nothing: requests are not news."""


def _state(folder: Path) -> str:
    """Something that differs whenever the page would; the store itself changes when it is only read."""
    watched = ("progress.json", "tables.json", "frostline.json")
    found = {}
    for name in watched:
        with contextlib.suppress(FileNotFoundError):  # it may go while one looks
            found[name] = (folder / name).stat().st_mtime_ns
    return json.dumps(found)
