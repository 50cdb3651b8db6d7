"""Start the local cluster of a sweep, and print as JSON where its processes listen and what guards them.

`python -m tests.support.listeners`, with HOME and RAY_ADDRESS in the environment as the test wants them.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from grid.cluster import connection as cluster
from grid.settings.config import ClusterConfig

_LISTENS = "0A"


def descendants(pid: int) -> Iterator[int]:
    """A process and all that it started; a thread, or a process, may end while it is looked at."""
    yield pid
    children = list[str]()
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                children += (task / "children").read_text().split()
    for child in children:
        yield from descendants(int(child))


def addresses(pids: Iterator[int]) -> set[str]:
    """The addresses, without ports, on which processes listen for TCP."""
    inodes = set()
    for pid in pids:
        with suppress(OSError):
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    inodes.add(os.readlink(link))
    found = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS and f"socket:[{fields[9]}]" in inodes:
                words = bytes.fromhex(fields[1].split(":")[0])
                packed = b"".join(words[place : place + 4][::-1] for place in range(0, len(words), 4))
                found.add(socket.inet_ntop(family, packed))
    return found


def main() -> None:
    """Connect, wait for Ray's agents, which start last, and tell."""
    import ray  # before: what it reads of the environment must not count

    said = cluster.connect(ClusterConfig(kind="local", cpus=1))
    session = Path(ray._private.worker._global_node.get_session_dir_path())
    while not list(session.glob("logs/dashboard_agent.log")):
        time.sleep(0.2)
    time.sleep(3)
    token = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
    told = {
        "said": said,
        "addresses": sorted(addresses(descendants(os.getpid()))),
        "folder": oct(session.parents[1].stat().st_mode & 0o777),
        "token": oct(token.stat().st_mode & 0o777),
        "characters": len(token.read_text()),
        "outside": [str(path) for path in Path.home().iterdir()],
    }
    cluster.disconnect()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
