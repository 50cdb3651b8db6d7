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

UNGUARDED = {"RAY_AUTH_MODE": "disabled"}
"""For the environment of those that join."""
_STARTED = b"Ray runtime started"
_START = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--include-log-monitor=false"]
"""Nobody reads what workers print: to watch for it takes half a second of CPU."""


@contextmanager
def head(*options: str, environment: Mapping[str, str] = UNGUARDED) -> Iterator[str]:
    """Start a head with two CPUs and no dashboard; gives its address, and ends it."""
    port = free_port()
    short = tempfile.mkdtemp(prefix="ray-")  # sockets lie in it, whose paths are bounded
    command = [*_START, "--head", f"--port={port}", *options]
    command += ["--node-ip-address=127.0.0.1", "--num-cpus=2", "--include-dashboard=false", f"--temp-dir={short}"]
    ray = subprocess.Popen(command, env=os.environ | environment, stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for(lambda: socket.socket().connect_ex(("127.0.0.1", port)) == 0)
        yield f"127.0.0.1:{port}"
    finally:
        os.killpg(ray.pid, signal.SIGKILL)
        ray.wait(timeout=300)
        shutil.rmtree(short, ignore_errors=True)


@contextmanager
def member(address: str, environment: Mapping[str, str] = UNGUARDED) -> Iterator[None]:
    """Another machine of two CPUs joins a cluster of one: a raylet of its own, here; ends it."""
    command = [*_START, f"--address={address}"]
    command += ["--node-ip-address=127.0.0.1", "--num-cpus=2"]

    ray: subprocess.Popen[bytes]

    def start() -> subprocess.Popen[bytes]:
        told.seek(0)
        told.truncate()
        own = os.environ | environment
        return subprocess.Popen(command, env=own, stdout=told, start_new_session=True)

    status = [sys.executable, "-m", "ray.scripts.scripts", "status", f"--address={address}"]

    def joined() -> bool:
        nonlocal ray
        if ray.poll() is not None:  # on a busy machine Ray gives up
            ray = start()
        if _STARTED not in os.pread(told.fileno(), 10_000, 0):  # to ask for the status takes a second of a core
            return False
        said = subprocess.run(status, env=os.environ | environment, capture_output=True, text=True).stdout
        return said.count(" node_") == 2

    with tempfile.TemporaryFile() as told:
        ray = start()
        try:
            wait_for(joined)
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
