"""A Ray cluster of one machine that outlives the drivers which join it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

UNGUARDED = {"RAY_AUTH_MODE": "disabled", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1"}
"""For the environment of those that join: a process that held a Ray of its own has that of one machine."""
_STARTED = b"Ray runtime started"
"""What Ray says once the cluster knows the machine."""
_START = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--include-log-monitor=false"]
_START += ["--node-ip-address=127.0.0.1", "--num-cpus=2"]
"""Nobody reads what workers print: to watch for it takes half a second of CPU."""
_ALONE = ["--head", "--include-dashboard=false", "--no-monitor"]
"""Nor is the cluster to grow: what would watch for that imports Ray, too."""


@contextmanager
def head(*options: str, environment: Mapping[str, str] = UNGUARDED) -> Iterator[str]:
    """Start a head with two CPUs and no dashboard; gives its address, and ends it."""
    port = free_port()
    short = tempfile.mkdtemp(prefix="ray-")  # sockets lie in it, whose paths are bounded
    try:
        with _running(environment, *_ALONE, f"--port={port}", f"--temp-dir={short}", *options):
            yield f"127.0.0.1:{port}"
    finally:
        shutil.rmtree(short, ignore_errors=True)


@contextmanager
def member(address: str, *options: str, environment: Mapping[str, str] = UNGUARDED) -> Iterator[None]:
    """Another machine of two CPUs joins a cluster of one: a raylet of its own, here; ends it."""
    with _running(environment, f"--address={address}", *options):
        yield


@contextmanager
def _running(environment: Mapping[str, str], *options: str) -> Iterator[None]:
    """Ray's processes of a machine that the cluster knows."""
    with tempfile.TemporaryFile() as told:

        def start() -> subprocess.Popen[bytes]:
            told.seek(0)
            told.truncate()
            own = os.environ | environment
            return subprocess.Popen([*_START, *options], env=own, stdout=told, start_new_session=True)

        ray = start()

        def started() -> bool:
            nonlocal ray
            if ray.poll() is not None:  # on a busy machine Ray gives up
                ray = start()
            return _STARTED in os.pread(told.fileno(), 10_000, 0)

        try:
            wait_for(started)
            yield
        finally:
            with suppress(ProcessLookupError):
                os.killpg(ray.pid, signal.SIGKILL)
            ray.wait(timeout=300)


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def wait_for(condition: Callable[[], bool], seconds: float = 300) -> None:
    """Return once the condition holds; the limit only ends what hangs."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.2)
