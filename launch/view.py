"""Look at a sweep in a browser: `agent-grid view results/<name>`, alone, next to another sweep, or exported as files.

The viewer shows the settings, a table of cases against planners, every decision next to the reference's, search trees,
and prompts. It runs on this machine and loads nothing from elsewhere. `--export FOLDER` writes the same pages as files
that open without the viewer.
"""

from __future__ import annotations

import argparse
import errno
import gc
import ipaddress
import secrets
import socket
import sys
import threading
import time
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.viewer.addresses import HOST, PORT
from grid.core.errors import ConfigError, GridError, one_line
from grid.core.places import folder_at, steady

if TYPE_CHECKING:
    from analysis.viewer.runs import Progress, Run
    from grid.sweeps.progress import Told

_TRIED = 100  # number of ports to try, beginning with the usual one
_SILENT_SECONDS = 30.0  # after this long without a new state, the sweep's driver or its machine has died
_TAKEN = (errno.EADDRINUSE, errno.EACCES)
_EPISODES = 300


def main() -> int:
    """Exit status 0, or 2 if a folder cannot be read or an address cannot be used."""
    arguments = _parser().parse_args()
    folders = [arguments.results, *([arguments.other] if arguments.other else [])]
    try:
        _check(arguments, folders)
        with steady():
            return _export(arguments, folders) if arguments.export else _serve(arguments, folders)
    except GridError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=folder_at, help="the folder of a sweep, results/<name>")
    parser.add_argument(
        "other", type=folder_at, nargs="?", help="a second sweep; cells that flipped between the two sweeps are marked"
    )
    parser.add_argument("--port", type=int, help=f"the port of the viewer; default: {PORT}, or the next free port")
    parser.add_argument(
        "--host",
        default=HOST,
        help=f"the address of the viewer; if it is not {HOST}, other people who have the token can open it",
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address, but do not open a browser")
    parser.add_argument("--export", type=Path, metavar="FOLDER", help="write the pages into a new or empty folder")
    parser.add_argument(
        "--episodes", type=int, default=_EPISODES, metavar="N",
        help="with --export: at most N episodes, but at least one case of each setting, starting with cases that most "
        f"planners failed (default: {_EPISODES:,})",
    )  # fmt: skip
    parser.add_argument(
        "--cell",
        action="append",
        default=[],
        metavar="ID",
        help="with --export: only this episode and the other episodes of its case",
    )
    return parser


def _check(arguments: argparse.Namespace, folders: Sequence[Path]) -> None:
    """Check all that can be checked before other modules are imported.

    Raises:
        GridError: a folder has no results, or an option makes no sense.
    """
    from grid.store import check_there

    if arguments.port is not None and not 0 < arguments.port < 65536:
        raise ConfigError("--port", arguments.port, "a number from 1 to 65535")
    if arguments.episodes < 1:
        raise ConfigError("--episodes", arguments.episodes, "a number of 1 or more")
    if arguments.cell and not arguments.export:
        raise ConfigError("--cell", arguments.cell[0], "is allowed only together with --export")
    for folder in folders:
        check_there(folder)
    if len(folders) > 1 and folders[0].resolve() == folders[1].resolve():
        raise ConfigError("other", str(folders[1]), "must be a folder other than the first")


def _runs(folders: Sequence[Path]) -> list[Run]:
    from analysis.viewer.matrix import classes
    from analysis.viewer.runs import Run

    return [Run(folder, key, Watch(folder), classes) for folder, key in zip(folders, ("", "2"), strict=False)]


def _serve(arguments: argparse.Namespace, folders: Sequence[Path]) -> int:
    listener, port = _listener(arguments.host, arguments.port)
    with listener:
        local = _is_loopback(arguments.host)
        token = None if local else secrets.token_urlsafe(24)
        host = HOST if local else arguments.host if arguments.host not in ("0.0.0.0", "::") else socket.gethostname()  # noqa: S104
        address = f"http://{host}:{port}/" + (f"?token={token}" if token else "")
        runs = _runs(folders)
        found = threading.Event()
        threading.Thread(target=_read_ahead, args=(runs, found), daemon=True).start()
        found.wait()  # the next imports would compete with the reading of the first rows
        gc.disable()  # imported objects stay, and searching them for garbage takes a tenth of the time
        import uvicorn

        from analysis.viewer.app import app

        gc.enable()
        server = uvicorn.Server(
            uvicorn.Config(
                app(runs, port, token), log_level="warning", access_log=False, server_header=False, lifespan="off"
            )
        )
        if arguments.port is None and port != PORT:
            print(f"port {PORT} is taken (maybe by another viewer), so this viewer listens on {port}")
        print(f"viewer: {address}  (Ctrl-C ends it)", flush=True)
        if not arguments.no_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
        server.run(sockets=[listener])
        for run in runs:
            run.close()
    return 0


def _read_ahead(runs: Sequence[Run], found: threading.Event) -> None:
    """Prepare the indexes that the first page needs, and check the files' hashes before a case is requested.

    `found` is set just before the first folder's rows are read.
    """
    from analysis.viewer.reading import files

    for run in runs:
        try:
            files(run.root, "episodes")
            found.set()
            _ = run.index().summaries
            for table in ("cases", "steps", "nodes", "improvements", "messages", "sections"):
                files(run.root, table)
            run.classify()
        except GridError as error:  # the page shows the error too
            print(f"error: {one_line(error)}", file=sys.stderr)
        finally:
            found.set()


def _listener(host: str, port: int | None) -> tuple[socket.socket, int]:
    """A listening socket, on the given port or the first free one, and its port.

    Raises:
        ConfigError: the port is taken, or the host is not an address of this machine.
    """
    wanted = [port] if port is not None else range(PORT, PORT + _TRIED)
    for one in wanted:
        try:
            family, _, _, _, address = socket.getaddrinfo(host, one, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
                0
            ]
            found = socket.socket(family, socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise ConfigError("--host", host, "an address of this machine") from None
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            found.bind(address)
            found.listen(128)
            return found, one
        except OSError as error:
            found.close()
            if error.errno not in _TAKEN:
                raise ConfigError("--host", host, f"an address of this machine ({error.strerror})") from None
    allowed = (
        "a free port; another program uses this one" if port is not None else f"at least one free port from {PORT} on"
    )
    raise ConfigError("--port", port if port is not None else PORT, allowed)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Watch:
    """Reports the progress of a folder's sweep, from the file that the sweep itself writes into the folder.

    The time without a new state is measured by this process, because the clock of the sweep's machine may differ.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: Told | None = None
        self._changed = time.monotonic()

    def __call__(self) -> Progress | None:
        """The progress; None if no sweep has written its progress."""
        from analysis.viewer.runs import Progress
        from grid.sweeps.progress import ENDED, line, read_told

        try:
            told = read_told(self._folder)
        except (OSError, ValueError):  # there is no file, or it is being replaced
            if self._last is None:
                return None
            told = self._last
        if told != self._last:
            self._last, self._changed = told, time.monotonic()
        silent = time.monotonic() - self._changed
        if told["state"] == ENDED:
            return Progress(f"ended: {line(told)}", running=False)
        if silent > _SILENT_SECONDS:
            return Progress(f"{line(told)}  no sign of life for {silent:,.0f} s", running=True)
        return Progress(f"{told['state']}: {line(told)}", running=True)


def _export(arguments: argparse.Namespace, folders: Sequence[Path]) -> int:
    from analysis.viewer.exporting import export

    told = export(_runs(folders), arguments.export, arguments.episodes, arguments.cell)
    print(f"{told}\npages: {one_line((arguments.export / 'index.html').absolute())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
