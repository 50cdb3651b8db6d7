"""An agent's process: started in a folder and a process group of its own, read with a bound, and ended with all of it.

It stands apart from `agent`, which says what the agent is told: here is what the operating system does.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from grid.core.errors import ConfigError, EngineError, one_line

KEPT = 20_000
"""Bytes of what it prints: the first half and the last."""
_SECRET = 4  # characters from which on a variable's value is hidden in what is shown
_READ = 2**16
_REAP_SECONDS = 5.0
_SWEEPS = 20  # looks for what left the group: each may have made another
_LOOPBACK = "127.0.0.1,localhost,::1"


class Process:
    """A process that was started. `kill` ends its group at once, `gone` sees to it that nothing of it is left."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path, token: str, secrets: Sequence[str]) -> None:
        self._process, self._folder, self._token = process, folder, token
        self._secrets = (token, *secrets)
        self._first, self._last, self._bytes = b"", b"", 0
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, command: str, passed: Sequence[str], told: Mapping[str, str], token: str) -> Process:
        """Start a command with the variables of these names and those that it is told; raises ConfigError."""
        words = words_of(command)
        variables = {name: os.environ[name] for name in passed if name in os.environ}
        secrets = tuple(value for value in variables.values() if len(value) >= _SECRET)
        folder = Path(tempfile.mkdtemp(prefix="agent-grid-agent-"))
        paths = dict.fromkeys(("HOME", "TMPDIR"), str(folder))
        loopback = dict.fromkeys(("NO_PROXY", "no_proxy"), _LOOPBACK)
        try:
            process = await asyncio.create_subprocess_exec(
                *_dying_with_parent(),
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={"PATH": os.environ.get("PATH", os.defpath), **paths, **variables, **loopback, **told},
                cwd=folder,
                start_new_session=True,
            )
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise EngineError(f"the agent cannot be started: {one_line(error, 300)}") from None
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls(process, folder, token, secrets)

    async def ended(self) -> int:
        """Its exit status, negative where a signal ended it."""
        return await self._process.wait()

    async def heard(self, seconds: float) -> None:
        """Wait until all that it printed is read, so long at most: what it started may still hold the pipe."""
        await asyncio.wait({self._reading}, timeout=seconds)

    def kill(self) -> None:
        """End its process group, at once; what left the group is ended by `gone`."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    async def gone(self) -> None:
        """End it, and see to it that neither process nor folder is left."""
        self.kill()
        try:
            for _ in range(_SWEEPS):
                strays = _with_token(self._token)
                for pid in strays:
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, signal.SIGKILL)
                if not strays:
                    break
                await asyncio.sleep(0.01)
            with suppress(TimeoutError):
                async with asyncio.timeout(_REAP_SECONDS):
                    await self._process.wait()
                    await self._reading
        finally:
            self._reading.cancel()
            self._process._transport.close()  # type: ignore[attr-defined]
            shutil.rmtree(self._folder, ignore_errors=True)

    def printed(self) -> str:
        """What it printed, without the values of variables that it was passed; the middle is left out of much."""
        left_out = self._bytes - len(self._first) - len(self._last)
        middle = f"\n... ({left_out:,} bytes left out) ...\n".encode() if left_out else b""
        text = (self._first + middle + self._last).decode(errors="replace").replace("\0", "")
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    async def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it was started with a pipe
        half = KEPT // 2
        while part := await self._process.stdout.read(_READ):
            self._bytes += len(part)
            room = half - len(self._first)
            self._first, part = self._first + part[:room], part[room:]
            self._last = (self._last + part)[-half:]


def words_of(command: str) -> list[str]:
    """A command as a program and its arguments; those that name files from where the grid stands have whole paths.

    Raises:
        ConfigError: it is none, or its program cannot be found.
    """
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError("planner.command", command, f"a command as a shell reads it ({error})") from None
    program = shutil.which(os.path.expanduser(words[0])) if words else None
    if program is None:
        raise ConfigError("planner.command", command, "a program that can be run, by its path or on PATH")
    return [os.path.abspath(program), *(os.path.abspath(word) if os.path.isfile(word) else word for word in words[1:])]


def _dying_with_parent() -> tuple[str, ...]:
    """What a command begins with so that the kernel kills it with the thread that starts it, where Linux has it."""
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()


def _with_token(token: str) -> list[int]:
    """The processes of whose environment an episode's token is a part: an agent's, also those that left its group."""
    found, own = list[int](), os.getpid()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if token.encode() in entry.read_bytes() and (pid := int(entry.parent.name)) != own:
                found.append(pid)
    return found
