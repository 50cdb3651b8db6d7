"""How an MCP server is started, and what it may take."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from grid.core.errors import ConfigError

MESSAGE_BYTES = 4 * 2**20
"""Of one message of a server's."""
MESSAGES = 10_000
"""That a server may send before it answers one request; of its notifications nothing is kept."""


class ServerError(Exception):
    """Why a server is of no use any more, as an unfinished sentence."""


class RefusedError(Exception):
    """Why a server did not carry out a request, as an unfinished sentence; it goes on."""


@dataclass(frozen=True)
class Server:
    """A program that speaks MCP over its standard input and output.

    Attributes:
        command: the program, by its path or its name on PATH.
        args: what it is started with.
        env: the names of the environment variables that it is given besides PATH.
        folder: a folder of which each process has a copy of its own to work in; None: an empty one.
        start_seconds: until it has been started, and until all its tools are listed.
        seconds: for one call.
        result_characters: of one call's result.
        max_tools: that it may list.
    """

    command: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    folder: str | None = None
    start_seconds: float = 30.0
    seconds: float = 30.0
    result_characters: int = 20_000
    max_tools: int = 200

    def program(self) -> str:
        """The program's path; raises ConfigError where there is none that can be run."""
        found = shutil.which(os.path.expanduser(self.command))
        if found is None:
            raise ConfigError("dataset.command", self.command, "a program that can be run, by its path or on PATH")
        return os.path.abspath(found)

    def environment(self) -> dict[str, str]:
        """PATH and the variables that are passed on; raises ConfigError where one is not set."""
        missing = [name for name in self.env if name not in os.environ]
        if missing:
            raise ConfigError("dataset.env", missing[0], "the names of variables that are set")
        return {name: os.environ[name] for name in ("PATH", *self.env) if name in os.environ}
