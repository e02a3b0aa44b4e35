"""A live page of a result folder, served on this machine only and rendered on every request."""

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
    """Serve the page while the block runs; yield its address.

    Args:
        folder: folder of a study, a run or a measurement.
        port: port to serve on; 0 for any free port.
    """
    open_folder(folder)  # refuse a wrong folder at once

    class Handler(_Handler):
        result_folder = folder

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
    result_folder: Path

    def do_GET(self) -> None:
        """Send the page, or the state of the folder."""
        # Otherwise another site could read the page through a name that it points to this machine (DNS rebinding).
        if self.headers.get("Host", "").partition(":")[0] not in (HOST, "localhost"):
            self._answer(HTTPStatus.FORBIDDEN, "text/plain", "use http://127.0.0.1")
        elif self.path == "/":
            try:
                state = _state(self.result_folder)  # before the folder is read, to notice later changes
                page = page_of(open_folder(self.result_folder))
                self._answer(HTTPStatus.OK, "text/html", render(page, state=state))
            except (UserError, OSError) as error:  # files that are being written may be incomplete: try again
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "text/html", _TRY_AGAIN.format(html.escape(str(error))))
        elif self.path == "/progress.json":
            self._answer(HTTPStatus.OK, "application/json", _state(self.result_folder))
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", "not found; the page is at /")

    def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        with contextlib.suppress(ConnectionError):  # the browser may have closed the connection
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *values: object) -> None:
        """Print nothing."""


def _state(folder: Path) -> str:
    """Return a text that changes whenever the page would; the store is not watched, since reading changes it."""
    times = {}
    for name in ("progress.json", "tables.json", "frostline.json"):
        with contextlib.suppress(FileNotFoundError):  # files may disappear meanwhile
            times[name] = (folder / name).stat().st_mtime_ns
    return json.dumps(times)
