"""A real S3 server on this machine's loopback: moto's, a program of its own; and what stands before one that fails.

Its packages ask for older ones than ours, so that it has an environment of its own: AGENT_GRID_MOTO is its
`moto_server`, unless that is on the PATH.
"""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest

from grid.core.places import Address

_START_SECONDS = 120.0
_KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
Fault = Callable[[str, str], int]
"""Of a request's method and path the status that it is answered with; 0: what the server says."""


def environment(url: str) -> dict[str, str]:
    """What a program that asks this server has in its environment."""
    return {**_KEYS, "AWS_ENDPOINT_URL": url}


@contextmanager
def served() -> Iterator[str]:
    """The server's address; skips where it is not to be had."""
    program = shutil.which(os.environ.get("AGENT_GRID_MOTO", "moto_server"))
    if program is None:
        pytest.skip("AGENT_GRID_MOTO: moto_server of an environment with moto[s3], flask and flask-cors")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [program, "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            until = time.monotonic() + _START_SECONDS
            while not _listens(port):
                assert server.poll() is None
                assert time.monotonic() < until
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def bucket(url: str) -> Address:
    """A new one."""
    name = f"bucket-{uuid.uuid4().hex}"
    with urlopen(Request(f"{url}/{name}", method="PUT")):  # noqa: S310 - ours
        return Address(f"s3://{name}")


def copied(source: Path, target: Path) -> Path:
    """A folder's files, under another place."""
    for path in source.rglob("*"):
        if path.is_file():
            one = target / path.relative_to(source).as_posix()
            one.parent.mkdir(parents=True, exist_ok=True)
            one.write_bytes(path.read_bytes())
    return target


def contents(root: Path) -> dict[str, bytes]:
    """A folder's tables and what lies beside them, by name."""
    found = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in sorted(found.items()) if not name.startswith(".")}


@contextmanager
def failing(url: str, fault: Fault) -> Iterator[str]:
    """The address of what passes requests on to a server, one at a time, or answers as the fault says."""
    inner, alone = urlsplit(url), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status = fault(self.command, self.path)
            if status:
                code = {403: "AccessDenied", 503: "SlowDown"}.get(status, "InternalError")
                why = f"<Error><Code>{code}</Code><Message>as planned</Message></Error>"
                self._answer(status, {"ETag": '"tag"'}, why.encode())
                return
            with alone, closing(http.client.HTTPConnection(str(inner.hostname), inner.port)) as server:
                server.request(self.command, self.path, body, dict(self.headers.items()))
                found = server.getresponse()
                told = found.read()
            self._answer(found.status, dict(found.getheaders()), told)

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response_only(status)
            length = headers.get("Content-Length") if self.command == "HEAD" else None
            for name, value in headers.items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", length or str(len(body)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass  # noqa: N815 - as the library asks

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads, request_queue_size = True, 256

    with Server(("127.0.0.1", 0), Handler) as proxy:
        threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{proxy.server_port}"
        proxy.shutdown()
