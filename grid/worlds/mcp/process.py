"""One process of an MCP server: in a session and a folder of its own, read with bounds, ended with all its children."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from grid.core.errors import one_line
from grid.worlds.mcp.server import MESSAGE_BYTES, Server, ServerError

_KEPT = 4_000  # bytes of what it writes to its standard error
_SHOWN = 300  # characters of these
_SECRET = 4  # characters from which on a variable's value is hidden in what is shown
_REAP_SECONDS = 5.0
_LOOK_SECONDS = 0.1


class ServerProcess:
    """A process that was started; `end` kills it, `gone` waits until nothing of it is left."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path, secrets: tuple[str, ...]) -> None:
        self._process, self._folder, self._secrets = process, folder, secrets
        self._errors = b""
        self._ended = False
        self._listening = asyncio.create_task(self._listen())
        self._watching = asyncio.create_task(self._watch())

    @classmethod
    async def start(cls, server: Server) -> ServerProcess:
        """Start a server in a copy of its folder; raises ServerError, or ConfigError for what can never start."""
        program, variables = server.program(), server.environment()
        folder = Path(tempfile.mkdtemp(prefix="agent-grid-mcp-"))
        try:
            if server.folder is not None:
                shutil.copytree(Path(server.folder).expanduser(), folder, symlinks=True, dirs_exist_ok=True)
            process = await asyncio.create_subprocess_exec(
                *_dying_with_parent(),
                program,
                *server.args,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                env=variables,
                cwd=folder,
                limit=MESSAGE_BYTES,
                start_new_session=True,
            )
        except (OSError, ValueError, shutil.Error) as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise ServerError(f"it cannot be started: {one_line(error, _SHOWN)}") from None
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        hidden = tuple(variables[name] for name in server.env if len(variables[name]) >= _SECRET)
        return cls(process, folder, hidden)

    async def lines(self) -> AsyncIterator[bytes]:
        """What it writes, line by line, until it has ended; raises ServerError for a line without an end."""
        assert self._process.stdout is not None  # noqa: S101 - it was started with pipes
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                raise ServerError(f"it sent a message of more than {MESSAGE_BYTES:,} bytes") from None
            except OSError:
                return
            if not line:
                return
            yield line

    async def write(self, line: bytes) -> None:
        """Hand it a line; raises OSError where it reads no more."""
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.write(line)
        await self._process.stdin.drain()

    def told(self) -> str:
        """The end of what it wrote to its standard error, on one line, without the values of passed variables."""
        text = self._errors.decode(errors="replace")
        for secret in self._secrets:
            text = text.replace(secret, "***")
        flat = one_line(text, _KEPT)
        return flat if len(flat) <= _SHOWN else f"...{flat[-_SHOWN:]}"

    async def status(self) -> str:
        """How it ended of itself, as an unfinished sentence."""
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):  # its output is closed, so that it is about to end
                await asyncio.shield(self._listening)
                code = await self._process.wait()
                return f"it was ended by signal {-code}" if code < 0 else f"it ended with status {code}"
        return "it closed its output"

    def end(self) -> None:
        """Kill it and all of its process group; at once, so that no cancellation comes between."""
        if not self._ended:
            self._ended = True
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def gone(self) -> None:
        """End it, and see to it that neither process nor folder is left."""
        self.end()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_REAP_SECONDS):
                    await self._process.wait()
        finally:
            self._listening.cancel()
            self._watching.cancel()
            self._process._transport.close()  # type: ignore[attr-defined]  # a child that left the group may hold pipes
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _listen(self) -> None:
        assert self._process.stderr is not None  # noqa: S101
        while part := await self._process.stderr.read(_KEPT):
            self._errors = (self._errors + part)[-_KEPT:]

    async def _watch(self) -> None:
        """End what it leaves behind, which may hold its pipes: nobody would hear that it ended."""
        while self._process.returncode is None:
            await asyncio.sleep(_LOOK_SECONDS)
        self.end()


def _dying_with_parent() -> tuple[str, ...]:
    """What a command begins with so that the kernel kills it with the thread that starts it, where Linux has it.

    A worker that is killed could end nothing itself, and a server that hangs would not see its input close.
    """
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()
