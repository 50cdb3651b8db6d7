"""An agent's process, in its own folder and process group; its output is limited, and all its children end with it.

It stands apart from `agent` because only this module deals with the operating system; `agent` decides which information
the agent receives.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from grid.core.errors import ConfigError, EngineError, one_line

KEPT = 20_000
"""Maximum number of bytes kept of a process's output: half from the beginning, half from the end."""
_PREFIX = "agent-grid-agent-"
_JUST_MADE = 60.0  # seconds during which a new folder may still be unlocked
_SECRET = 4  # minimum length, in characters, of a variable's value that is hidden in output
_READ = 2**16
_LONGER = 200  # bytes kept of an unfinished line: longer than a token
_HEARD_SECONDS = 1.0  # for reading the output: its child processes may still hold the pipe
_REAP_SECONDS = 5.0
_SWEEPS = 20  # searches for processes that left the group: each process may have started more
_LOOPBACK = "127.0.0.1,localhost,::1"


class _Output:
    """A process's output: its first and last bytes, and the total number of bytes."""

    def __init__(self) -> None:
        self._first, self._last, self._bytes = b"", b"", 0

    def add(self, part: bytes) -> None:
        """Add the next part."""
        self._bytes += len(part)
        half = KEPT // 2
        room = half - len(self._first)
        self._first, part = self._first + part[:room], part[room:]
        self._last = (self._last + part)[-half:]

    def text(self) -> str:
        """The kept output; the middle of a long output is left out."""
        left_out = self._bytes - len(self._first) - len(self._last)
        middle = f"\n... ({left_out:,} bytes left out) ...\n".encode() if left_out else b""
        return (self._first + middle + self._last).decode(errors="replace").replace("\0", "")


class _Ending:
    """Detects the end of a turn: the turn is `over` once a line of the output contains the token and nothing else."""

    def __init__(self, token: str) -> None:
        self.over = asyncio.Event()
        self.token, self._rest = token, b""

    def hear(self, part: bytes) -> None:
        """Look for the token in the next part of the output."""
        *lines, rest = (self._rest + part).split(b"\n")
        self._rest = rest[-_LONGER:]
        if any(line.strip() == self.token.encode() for line in lines):
            self.over.set()


class Process:
    """A started process. `kill` ends its process group at once; `gone` also ends processes that left the group."""

    def __init__(
        self, process: asyncio.subprocess.Process, folder: Path, lock: int | None, mark: str, secrets: Sequence[str]
    ) -> None:
        self._process, self._folder, self._lock, self._mark, self._secrets = process, folder, lock, mark, secrets
        self._output = _Output()
        self._turn: _Ending | None = None
        streams = (process.stdout, process.stderr)
        reading = (asyncio.create_task(self._read(one, one is process.stdout)) for one in streams if one)
        self._reading = asyncio.gather(*reading)

    @classmethod
    async def start(
        cls, command: str, passed: Sequence[str], told: Mapping[str, str], mark: str, asked: bool = False
    ) -> Process:
        """Start a command with the variables of our environment that `passed` names, and with the variables in `told`.

        One of the variables has `mark` as its value, so that the command's child processes can be found. `asked`:
        whether `turn` writes to the standard input; if false, the command has no input.

        Raises:
            ConfigError: the command's program cannot be found.
            EngineError: the command cannot be started.
        """
        words = words_of(command)
        variables = {name: os.environ[name] for name in passed if name in os.environ}
        secrets = tuple(value for value in variables.values() if len(value) >= _SECRET)
        _clear()
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = _locked(folder)
        paths = dict.fromkeys(("HOME", "TMPDIR"), str(folder))
        loopback = dict.fromkeys(("NO_PROXY", "no_proxy"), _LOOPBACK)
        try:
            process = await asyncio.create_subprocess_exec(
                *_dying_with_parent(),
                *words,
                stdin=asyncio.subprocess.PIPE if asked else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE if asked else asyncio.subprocess.STDOUT,
                env={"PATH": os.environ.get("PATH", os.defpath), **paths, **variables, **loopback, **told},
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            _remove(folder, lock)
            raise EngineError(f"the agent cannot be started: {one_line(error, 300)}") from None
        except BaseException:
            _remove(folder, lock)
            raise
        return cls(process, folder, lock, mark, secrets)

    async def ended(self) -> int:
        """Wait for the exit status (negative if a signal ended the process); after a failure, also read the output."""
        status = await self._process.wait()
        if status:
            await asyncio.wait({self._reading}, timeout=_HEARD_SECONDS)
        return status

    async def turn(self, line: str, token: str) -> int | None:
        """Send the process a line, and wait until it prints the token as a line.

        Returns None, or the exit status if the process ends without having printed the token.
        """
        self._output, self._turn = _Output(), (turn := _Ending(token))
        over, ended = asyncio.create_task(turn.over.wait()), asyncio.create_task(self._process.wait())
        writing = asyncio.create_task(self._write(line))
        try:
            await asyncio.wait({over, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (over, ended, writing):
                task.cancel()
        return None if turn.over.is_set() else ended.result()

    @property
    def status(self) -> int | None:
        """The process's exit status; None until the process is known to have ended."""
        return self._process.returncode

    def kill(self) -> None:
        """End the process group at once; `gone` ends processes that left the group."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def gone(self) -> None:
        """End the process and all its children, and remove its folder."""
        self.kill()
        try:
            for _ in range(_SWEEPS):
                if not _killed(self._mark):
                    break
                await asyncio.sleep(0.01)
            with suppress(TimeoutError):
                async with asyncio.timeout(_REAP_SECONDS):
                    await self._process.wait()
                    await self._reading
        finally:
            self._reading.cancel()
            self._process._transport.close()  # type: ignore[attr-defined]
            _remove(self._folder, self._lock)

    def printed(self) -> str:
        """The process's output (in its last turn, if it has turns), without tokens and values of passed variables."""
        text, secrets = self._output.text(), (self._mark, *self._secrets)
        if self._turn:
            text, secrets = text.replace(f"{self._turn.token}\n", ""), (self._turn.token, *secrets)
        for secret in secrets:
            text = text.replace(secret, "***")
        return text

    async def _read(self, stream: asyncio.StreamReader, ends_turns: bool) -> None:
        while part := await stream.read(_READ):
            self._output.add(part)
            if ends_turns and self._turn:
                self._turn.hear(part)

    async def _write(self, line: str) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it is asked by turns
        with suppress(ConnectionError):  # it has ended; the code that waits for it reports this
            self._process.stdin.write(line.encode() + b"\n")
            await self._process.stdin.drain()


def words_of(command: str) -> list[str]:
    """A command as a program and its arguments; relative names of existing files become absolute paths.

    Raises:
        ConfigError: the text is not a command, or the command's program cannot be found.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError("planner.command", command, f"a command that a shell can read ({error})") from None
    program = shutil.which(os.path.expanduser(words[0])) if words else None
    if program is None:
        raise ConfigError("planner.command", command, "a command whose program exists, at the given path or on PATH")
    return [os.path.abspath(program), *(os.path.abspath(word) if os.path.isfile(word) else word for word in words[1:])]


def _dying_with_parent() -> tuple[str, ...]:
    """A prefix that lets the kernel kill a command once the thread that started it ends; empty without setpriv."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()


def _killed(mark: str) -> bool:
    """Kill the processes whose environment contains a mark; returns whether there were such processes.

    These are an agent's processes, including processes that left the agent's process group.
    """
    found, own = False, os.getpid()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if mark.encode() in entry.read_bytes() and (pid := int(entry.parent.name)) != own:
                found = True
                os.kill(pid, signal.SIGKILL)
    return found


# The process that starts an agent locks the agent's folder. If that process is killed, the folder remains, without a
# lock.


def _locked(folder: Path) -> int | None:
    """A lock on a folder, released when this process ends; None if another process holds it or there is no folder."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock


def _remove(folder: Path, lock: int | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        os.close(lock)


@cache
def _clear() -> None:
    """Remove killed processes' folders, and end processes that still work in them; done only once per process."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            stat = folder.stat()
            if stat.st_uid != os.getuid() or time.time() - stat.st_mtime < _JUST_MADE:
                continue
            lock = _locked(folder)
            if lock is not None:
                _killed(str(folder))
                _remove(folder, lock)
