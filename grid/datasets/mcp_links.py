"""Links to an MCP server, with limits: to a server process over pipes, or to a server over HTTP.

A session (`mcp_session`) is the same for both kinds of link.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from grid.core.errors import ConfigError, one_line
from grid.core.untrusted import loads
from grid.text.http import is_loopback, plain_url

if TYPE_CHECKING:
    import httpx2
    from mcp.shared.message import SessionMessage


# The description of an MCP server, and its limits.


MESSAGE_BYTES = 4 * 2**20
"""Maximum size of a server's message, in bytes."""
MESSAGES = 10_000
"""Maximum number of messages that a server may send for one `Session.ask`; dropped notifications count too."""
_SECRET = 4  # characters; a variable's value of at least this length is hidden in shown texts
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OWN_HEADERS = re.compile(
    r"accept.*|connection|content-.*|host|last-event-id|mcp-.*|te|transfer-encoding|upgrade", re.I
)


class ServerError(Exception):
    """A phrase, for use in a sentence, that says why a server can no longer be used."""


class AwayError(ServerError):
    """The error for a server that cannot be reached, or that refuses access. The server may work again later."""


class RefusedError(Exception):
    """A phrase, for use in a sentence, that says why a server did not carry out a request.

    The server can still be used.
    """


@dataclass(frozen=True)
class Server:
    """A program that speaks MCP over its standard input and output, or a server that does so over HTTP.

    Attributes:
        command: the program, by its path or its name on PATH; None if there is a `url`.
        args: the arguments of the program.
        env: the names of the environment variables that the program gets in addition to PATH.
        folder: a folder; each process works in its own copy of it; None: an empty folder.
        start_seconds: the time limit for the server's start, and for listing all its tools.
        seconds: the time limit for one call.
        result_characters: the maximum length of one call's result, in characters.
        max_tools: the maximum number of tools that the server may list.
        url: the URL of a server over HTTP.
        headers: pairs of a header, which is sent with every request, and the name of the environment variable with the
            header's value.
        key: the key in the config under which the server is described.
    """

    command: str | None = None
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    folder: str | None = None
    start_seconds: float = 30.0
    seconds: float = 30.0
    result_characters: int = 20_000
    max_tools: int = 200
    url: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    key: str = "dataset"

    @property
    def where(self) -> tuple[str, str | None]:
        """The config key of the server's command or URL, and the value of this key."""
        return (f"{self.key}.command", self.command) if self.url is None else (f"{self.key}.url", self.url)

    def program(self) -> str:
        """The program's path; raises ConfigError if no such program can be run."""
        found = shutil.which(os.path.expanduser(self.command or ""))
        if found is None:
            raise ConfigError(
                f"{self.key}.command",
                self.command,
                "a program that can be run: a path, or a name that is found on PATH",
            )
        return os.path.abspath(found)

    def environment(self) -> dict[str, str]:
        """PATH and the variables for the program; raises ConfigError if a variable is not set."""
        missing = [name for name in self.env if name not in os.environ]
        if missing:
            raise ConfigError(f"{self.key}.env", missing[0], "names of environment variables that are set")
        return {name: os.environ[name] for name in ("PATH", *self.env) if name in os.environ}

    def address(self) -> str:
        """The URL; raises ConfigError if it is not valid, contains a password, or would send headers unencrypted."""
        key = f"{self.key}.url"
        url = plain_url(key, self.url or "", "http://127.0.0.1:8000/mcp")
        if self.headers and url.startswith("http:") and not is_loopback(url):
            raise ConfigError(key, url, f"an https URL, because http would send {self.key}.headers without encryption")
        return url

    def values(self) -> dict[str, str]:
        """The headers with their values.

        Raises ConfigError, which shows no value, if a header may not be given, if an environment variable's name is not
        valid, or if the variable has no value that can be sent.
        """
        found, key = dict[str, str](), f"{self.key}.headers"
        for header, name in self.headers:
            if not _HEADER.fullmatch(header) or _OWN_HEADERS.fullmatch(header):
                raise ConfigError(key, header, "headers that the protocol does not set itself, such as Authorization")
            if not _VARIABLE.fullmatch(name):  # `name` may be the value itself, so it is not shown
                allowed = (
                    f"for {header}, the name of an environment variable in capital letters, never the value itself"
                )
                raise ConfigError(key, "(not shown)", allowed)
            value = os.environ.get(name, "").strip()
            if not re.fullmatch(r"[ -~]+", value):
                what = "contains characters that no header allows" if value else "is not set"
                raise ConfigError(key, header, f"an environment variable with the header's value, but {name} {what}")
            found[header] = value
        return found

    async def link(self) -> Link:
        """A link to the server; raises ServerError if the server does not start, ConfigError if it can never start."""
        return await ServerProcess.start(self) if self.url is None else Connection(self)


class Link(Protocol):
    """Carries messages to a server and back until `end`; `gone` waits until the server is completely removed."""

    def lines(self) -> AsyncIterator[bytes]:
        """The server's messages, one by one, until the server has ended.

        Raises ServerError for a message that is too long, and for any failure over HTTP.
        """
        ...

    async def say(self, message: SessionMessage) -> None:
        """Send the server a message."""
        ...

    async def ending(self) -> str:
        """A phrase, for use in a sentence, that says how the server ended by itself."""
        ...

    def hidden(self, value: Any) -> Any:
        """A value from the server, read from JSON, with any secrets in it hidden."""
        ...

    def end(self) -> None:
        """End the server at once. The method never waits, so no cancellation can interrupt it."""
        ...

    async def gone(self) -> None:
        """End the server, and make sure that it is completely removed."""
        ...


# One process of an MCP server: it has its own session and folder, is read with limits and is killed with its children.


_KEPT = 4_000  # bytes of its standard error that are kept
_PROCESS_SHOWN = 300  # characters of these that are shown
_REAP_SECONDS = 5.0
_LOOK_SECONDS = 0.1


class ServerProcess:
    """A running server process; `end` kills the process, `gone` waits until the process is completely removed."""

    def __init__(self, process: asyncio.subprocess.Process, folder: Path, secrets: tuple[str, ...]) -> None:
        self._process, self._folder, self._secrets = process, folder, secrets
        self._errors = b""
        self._ended = False
        self._listening = asyncio.create_task(self._listen())
        self._watching = asyncio.create_task(self._watch())

    @classmethod
    async def start(cls, server: Server) -> ServerProcess:
        """Start a server in a copy of its folder.

        Raises ServerError if the server does not start, or ConfigError if it can never start, because its program or a
        variable is missing.
        """
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
            raise ServerError(f"it cannot be started: {one_line(error, _PROCESS_SHOWN)}") from None
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        hidden = tuple(variables[name] for name in server.env if len(variables[name]) >= _SECRET)
        return cls(process, folder, hidden)

    async def lines(self) -> AsyncIterator[bytes]:
        """The process's output, line by line, until the process has ended.

        Raises ServerError for a line that is too long.
        """
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

    async def say(self, message: SessionMessage) -> None:
        """Send the process a message, as one line."""
        assert self._process.stdin is not None  # noqa: S101
        line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        with suppress(OSError):  # if it has ended, the reader of its output reports that
            self._process.stdin.write(line.encode() + b"\n")
            await self._process.stdin.drain()

    def hidden(self, value: Any) -> Any:
        """The value unchanged, because a message may repeat the values that were sent to the server.

        Secrets are hidden only in the standard error.
        """
        return value

    async def ending(self) -> str:
        """How the process ended if `end` did not kill it, and the last part of its standard error."""
        return f"{await self.status()}; it wrote: {self.told() or 'nothing'}"

    def told(self) -> str:
        """The last part of the standard error, on one line, with the values of passed environment variables hidden."""
        text = self._errors.decode(errors="replace")
        for secret in self._secrets:
            text = text.replace(secret, "***")
        flat = one_line(text, _KEPT)
        return flat if len(flat) <= _PROCESS_SHOWN else f"...{flat[-_PROCESS_SHOWN:]}"

    async def status(self) -> str:
        """A phrase, for use in a sentence, that says how the process ended if `end` did not kill it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(1.0):  # its output is closed, so it is about to end
                await asyncio.shield(self._listening)
                code = await self._process.wait()
                return f"it was ended by signal {-code}" if code < 0 else f"it ended with status {code}"
        return "it closed its output"

    def end(self) -> None:
        """Kill the process and its process group at once.

        The method never waits, so no cancellation can interrupt it.
        """
        if not self._ended:
            self._ended = True
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def gone(self) -> None:
        """Kill the process, and make sure that the process and its folder are gone."""
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
        """Kill an ended server's children, which may keep the server's pipes open.

        Open pipes would hide that the server has ended.
        """
        while self._process.returncode is None:
            await asyncio.sleep(_LOOK_SECONDS)
        self.end()


def _dying_with_parent() -> tuple[str, ...]:
    """A command's prefix that makes the kernel kill the command when the thread that started it ends.

    The prefix is empty if `setpriv` is not installed. The prefix is needed because a killed worker cannot end its
    servers itself, and a hanging server would not notice that its input is closed.
    """
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", "KILL", "--") if setpriv else ()


# A server over HTTP: each message is its own POST, which is answered with JSON or with a stream of events.


_REDIRECTS = 3
_PART = 16  # characters; a single word of a header's value is also hidden from this length on
_BODY = 2_000  # bytes of an error's body that are read
_PARTING_SECONDS = 2.0
_QUEUE = 16
_ID = "mcp-session-id"


class Connection:
    """A session with a server over HTTP. No message is sent twice, because its call may already have been made.

    A redirect is followed only to the same scheme, host and port, because the headers are meant for that server only.
    """

    def __init__(self, server: Server) -> None:
        """Raise ConfigError if the URL or a header cannot be used (`Server.address`, `Server.values`)."""
        import httpx2

        self._url, self._server, values = server.address(), server, server.values()
        words = {word for value in values.values() for word in value.split() if len(word) >= _PART}
        secrets = {value for value in values.values() if len(value) >= _SECRET} | words
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._http = httpx2.AsyncClient(
            headers={"Accept-Encoding": "identity", **values},  # else a decompressed answer could exceed the limit
            timeout=None,  # the session limits a whole request
            follow_redirects=False,
            trust_env=not is_loopback(self._url),
        )
        self._session: str | None = None
        self._heard: asyncio.Queue[bytes | ServerError] = asyncio.Queue(_QUEUE)
        self._posts = set[asyncio.Task[None]]()

    async def lines(self) -> AsyncIterator[bytes]:
        """The server's messages, one by one; raises ServerError when the messages end, whatever the reason."""
        while True:
            found = await self._heard.get()
            if isinstance(found, ServerError):
                raise found
            yield found

    async def say(self, message: SessionMessage) -> None:
        """Send a message. If an answer is expected, a separate task sends the message.

        If no answer is expected, wait until the server has accepted the message.
        """
        from mcp_types import JSONRPCRequest

        asked = message.message
        work = self._post(message, asked.id if isinstance(asked, JSONRPCRequest) else None)
        if not isinstance(asked, JSONRPCRequest):
            await work
            return
        task = asyncio.create_task(work)
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)

    async def ending(self) -> str:
        """A text that is never used, because `lines` raises an error if a server over HTTP ends."""
        return "it ended"

    def hidden(self, value: Any) -> Any:
        """The value, in which the values of headers are hidden."""
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, "***")
            return value
        if isinstance(value, list):
            return [self.hidden(one) for one in value]
        return {self.hidden(key): self.hidden(one) for key, one in value.items()} if isinstance(value, dict) else value

    def end(self) -> None:
        """Cancel all messages that are being sent."""
        for post in self._posts:
            post.cancel()

    async def gone(self) -> None:
        """Tell the server that the session is over; the message may be lost."""
        import httpx2

        self.end()
        try:
            async with asyncio.timeout(_PARTING_SECONDS):
                if self._session is not None:
                    await self._http.delete(self._url, headers={_ID: self._session})
        except (TimeoutError, httpx2.HTTPError):
            pass
        finally:
            await self._http.aclose()

    async def _post(self, message: SessionMessage, asked: str | int | None) -> None:
        """Send a message, and pass on the server's answers, or the reason why there is no answer."""
        import httpx2

        try:
            await self._exchange(message, asked)
            return
        except httpx2.SSEError as error:
            failure = ServerError(f"its stream of events is invalid or too large: {self._told(error)}")
        except httpx2.HTTPError as error:
            failure = AwayError(f"no connection: {type(error).__name__}: {self._told(error)}".rstrip(": "))
        except ServerError as error:
            failure = error
        await self._heard.put(failure)

    async def _exchange(self, message: SessionMessage, asked: str | int | None) -> None:
        from mcp.shared.message import ClientMessageMetadata

        told = message.metadata.headers if isinstance(message.metadata, ClientMessageMetadata) else None
        headers = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            **({_ID: self._session} if self._session else {}),
            **(told or {}),  # contains the protocol's version
        }
        body = message.message.model_dump_json(by_alias=True, exclude_unset=True)
        response = await self._sent(self._http.build_request("POST", self._url, content=body, headers=headers))
        try:
            await self._expect_answer(response)
            self._session = response.headers.get(_ID) or self._session
            if asked is not None:
                await self._answered(response, asked)
        finally:
            await response.aclose()

    async def _sent(self, request: httpx2.Request) -> httpx2.Response:
        """The response after redirects on the same host.

        Raises AwayError for any other redirect, with its address, and for too many redirects.
        """
        for _ in range(_REDIRECTS):
            response = await self._http.send(request, stream=True)
            following = response.next_request
            if following is None:
                return response
            await response.aclose()
            before, after = request.url, following.url
            same = (before.scheme, before.host, before.port) == (after.scheme, after.host, after.port)
            if not same or following.method != request.method or after.userinfo:
                place = str(after.copy_with(userinfo=b"", query=None, fragment=None))
                what = (
                    f"it redirects to {place}, which is not followed; {self._server.key}.url may be set to this address"
                )
                raise AwayError(one_line(self.hidden(what), _PROCESS_SHOWN))
            request = following
        raise AwayError(f"it redirects more than {_REDIRECTS - 1} times")

    async def _expect_answer(self, response: httpx2.Response) -> None:
        status, key, names = response.status_code, f"{self._server.key}.headers", self._server.headers
        if status in (401, 403):
            given = ", ".join(f"{header} (of {name})" for header, name in names)
            why = f"it does not accept {given}" if given else "it asks for a login"
            hint = f"{key}={{Authorization: NAME}} names the environment variable with the whole value of the header"
            raise AwayError(f"{why}: HTTP status {status}; {hint}, for example Bearer and the token")
        if status == 404 and self._session:
            raise AwayError("it no longer knows the session: HTTP status 404")
        if status >= 400:
            body = await self._body(response, _BODY, cut=True)
            raise AwayError(f"HTTP status {status}: {self._told(body.decode(errors='replace'))}".rstrip(": "))
        if response.headers.get("content-encoding", "identity") != "identity":
            raise ServerError("it sent a compressed answer, which was not asked for")

    async def _answered(self, response: httpx2.Response, asked: str | int) -> None:
        """Pass on all messages of a response, up to the message that answers the request."""
        import httpx2

        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/json":
            body = await self._body(response, MESSAGE_BYTES)
            await self._heard.put(body)
            if _answers(body, asked):
                return
        elif kind == "text/event-stream":
            async for event in httpx2.EventSource(response, max_event_size=MESSAGE_BYTES):
                if event.event == "message" and event.data:
                    await self._heard.put(event.data.encode())
                    if _answers(event.data, asked):
                        return
        else:
            raise ServerError(one_line(f"its answer is not a message (content type: {kind or 'none'})", _PROCESS_SHOWN))
        raise AwayError("its stream of events ended before the answer")

    @staticmethod
    async def _body(response: httpx2.Response, most: int, cut: bool = False) -> bytes:
        found = bytearray()
        async for part in response.aiter_raw():
            found += part
            if len(found) > most:
                if cut:
                    break
                raise ServerError(f"it sent a message of more than {most:,} bytes")
        return bytes(found)

    def _told(self, text: object) -> str:
        return one_line(self.hidden(str(text)), _PROCESS_SHOWN)


def _answers(text: str | bytes, asked: str | int) -> bool:
    """Whether a message answers a request.

    A broken message that begins with a brace counts as an answer, because the code that reads it reports the error.
    """
    try:
        found = loads(text)
    except (ValueError, RecursionError):
        return text.lstrip()[:1] in ("{", b"{")
    return isinstance(found, dict) and "method" not in found and found.get("id") in (asked, None)
