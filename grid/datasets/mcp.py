"""Tasks for the tools of MCP servers (Model Context Protocol): each episode has its own sessions with the servers."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from grid.core.errors import ConfigError, GridError
from grid.core.problem import HIDDEN, REFERENCES, Problem, Reference
from grid.core.types import Case, Plan, Skipped, ToolSpec, Trajectory
from grid.core.util import STRICT
from grid.datasets.dataset import RecordDataset
from grid.datasets.files import fingerprint
from grid.datasets.mcp_links import RefusedError, Server, ServerError
from grid.datasets.mcp_session import Listing, listed, specs
from grid.datasets.mcp_tasks import Task, file_of, read_tasks, unusable
from grid.datasets.mcp_world import BETWEEN, McpWorld
from grid.engines.functions import LONGEST
from grid.text.answers import exact_match, f1

# The data set of tasks for the tools of MCP servers.


ADAPTER = 1
"""Increase this number when changed code yields different cases or outcomes for the same file and listing."""
SHORT = "An answer is short: a name, a date, a number, or a few words."
_PREFIX = re.compile(r"[A-Za-z0-9]+([_-][A-Za-z0-9]+)*")
_LONGEST_PREFIX = 32


class One(BaseModel):
    """One of several servers, with the same keys as the dataset has for a single server."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
    command: str | None = None
    args: list[str] = Field(default_factory=list, max_length=200)
    env: list[str] = Field(default_factory=list, max_length=200)
    folder: str | None = None
    url: str | None = None
    headers: Annotated[dict[str, str], Field(max_length=50)] | None = None

    def server(self, key: str, **limits: Any) -> Server:
        """The server that the config describes under `key`; raises ConfigError if the keys do not fit together."""
        if (self.command is None) == (self.url is None):
            neither = f"the program of an MCP server; for a server over HTTP, give {key}.url instead"
            allowed = neither if self.command is None else f"null, because {key}.url is given"
            raise ConfigError(f"{key}.command", self.command, allowed)
        strange = ("args", "env", "folder") if self.command is None else ("headers",)
        for name in strange:
            if getattr(self, name):
                other = "command" if self.command is None else "url"
                raise ConfigError(f"{key}.{name}", "(not shown)", f"null, because this key needs {key}.{other}")
        headers = tuple((self.headers or {}).items())
        return Server(
            self.command, (*self.args,), (*self.env,), self.folder, url=self.url, headers=headers, key=key, **limits
        )


@dataclass(config=STRICT)
class Mcp(RecordDataset[Task]):
    """The tasks in `path` (JSON Lines) for the tools that one or more servers list.

    A task with an answer is resolved by the answer, any other task by its calls; in both cases the task's expectations
    must hold as well (`McpWorld`). Each episode starts the server anew in a copy of `folder`, so that no episode sees
    the effects of another episode. The copy cannot undo effects outside the folder, or anything that a server over HTTP
    keeps after a session.

    Args:
        path: the file of tasks.
        command: the server's program, by its path or its name on PATH.
        args: the arguments of the program.
        env: the names of the environment variables that the server gets in addition to PATH; it gets no others.
        folder: each process has a copy of this folder as its working directory; None: an empty folder.
        url: the URL of a server over HTTP (streamable), instead of a command.
        headers: maps each header's name to the name of the environment variable that contains its value.
        servers: several servers by name, each with the six keys above; a tool's name then starts with its server's name
            (`shop__buy`).
        start_seconds: the time limit for the server's start, and for listing its tools.
        seconds: the time limit for one call.
        result_characters: the maximum length of one result in characters; a call with a longer result fails.
        max_tools: the maximum number of tools that the server may list.
    """

    path: str | None = None
    command: str | None = None
    args: list[str] = Field(default_factory=list, max_length=200)
    env: list[str] = Field(default_factory=list, max_length=200)
    folder: str | None = None
    url: str | None = None
    headers: Any = None  # checked by `One`, which never shows values
    servers: Annotated[dict[str, Any], Field(min_length=1, max_length=20)] | None = None
    start_seconds: Annotated[float, Field(gt=0, le=600)] = 30.0
    seconds: Annotated[float, Field(gt=0, le=3600)] = 30.0
    result_characters: Annotated[int, Field(ge=100, le=1_000_000)] = 20_000
    max_tools: Annotated[int, Field(ge=1, le=2_000)] = 200

    @cached_property
    def provides(self) -> frozenset[str]:
        """REFERENCES if all tasks have calls. Never BRANCHING, because a server cannot go back to an earlier state."""
        try:
            told = all(task.calls for task in self._tasks.values())
        except GridError:  # raised again when the cases are read
            told = True
        return frozenset({REFERENCES} if told else ())

    @cached_property
    def version(self) -> str:
        """The adapter's version, and fingerprints of the tasks and of each server's version, tools and folder."""
        told_by = [self._told(name, server) for name, server in self._servers.items()]
        text = json.dumps(told_by[0] if "" in self._servers else told_by, sort_keys=True)
        told = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        return f"mcp-a{ADAPTER}-{fingerprint(self._file)}-{told}"

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The servers' tools; each server is asked only once to list its tools.

        Raises ConfigError if a server does not list its tools, or if it lists two tools with the same name. Errors in
        the file of tasks and in the servers' folders are raised first.
        """
        return self._specs[0]

    @cached_property
    def skipped(self) -> Sequence[Skipped]:
        """Tools that are left out, and tasks that cannot be cases."""
        tasks = ((line, task.id, self._unusable(task)) for line, task in self._tasks.items())
        left_out = [Skipped(name, why, f"{self._file.name}:{line}") for line, name, why in tasks if why is not None]
        return [*self._specs[1], *left_out]

    @cached_property
    def records(self) -> Mapping[str, Task]:
        """The usable tasks by id; raises ConfigError if there is none."""
        found = {task.id: task for task in self._tasks.values() if self._unusable(task) is None}
        if not found:
            why = next(map(self._unusable, self._tasks.values()), "the file is empty")
            raise ConfigError("dataset.path", self.path, f"a file with at least one usable task ({why})")
        return found

    def cluster(self, case_id: str) -> str:
        """The cluster that the task names or, if it names none, the task's id."""
        return self.records[case_id].cluster or case_id

    def problem(self, case_id: str) -> Problem:
        """One task, with its own world, which starts a server at the first call of its tools."""
        task, tools = self.records[case_id], tuple(self.tools.values())
        calls, asked = task.reference(), task.answer is not None
        answered = asked and self.outline == HIDDEN  # an outline itself defines the end of the work
        last = tuple(calls)[-1:] if asked else tuple(calls)
        notes = (SHORT,) if asked else ()
        world = McpWorld(self._servers, self.tools, calls, task.answer, answered, tuple(task.expect))
        wanted, forbidden = task.named([*self.tools])
        reference = Reference({**calls}, last, False, answer=task.answer, milestones=wanted, forbidden=forbidden)
        return Problem(
            case=Case(case_id, task.query, Plan(()), answered=answered, notes=notes, policy=task.policy),
            reference=reference,
            world=world,
            candidates=lambda case, substep: tools,
            library=self.tools,
            same_function={},
            own=tuple(self.tools),
            measure=partial(_measured, task.answer, world),
        )

    @cached_property
    def _file(self) -> Path:
        return file_of(self.path)

    @cached_property
    def _tasks(self) -> Mapping[int, Task]:
        return read_tasks(self._file)

    @cached_property
    def _servers(self) -> Mapping[str, Server]:
        """The servers by name; a single server's name is empty.

        With several servers, a tool's name starts with its server's name.
        """
        own = {name: getattr(self, name) for name in One.model_fields}
        limits = {name: getattr(self, name) for name in ("start_seconds", "seconds", "result_characters", "max_tools")}
        if not self.servers:
            return {"": _one("dataset", own).server("dataset", **limits)}
        for name, value in own.items():
            if value:
                raise ConfigError(
                    f"dataset.{name}", "(not shown)", "null, because dataset.servers has this key for each server"
                )
        found = {}
        for name, keys in self.servers.items():
            if not _PREFIX.fullmatch(name) or len(name) > _LONGEST_PREFIX:
                allowed = (
                    f"names of letters and digits, single _ or - between them, at most {_LONGEST_PREFIX} characters"
                )
                raise ConfigError("dataset.servers", name, allowed)
            found[name] = _one(f"dataset.servers.{name}", keys).server(f"dataset.servers.{name}", **limits)
        return found

    @cached_property
    def _listings(self) -> Mapping[str, Listing]:
        _ = self._tasks, [*map(contents, self._servers.values())]  # errors in files are reported first
        return {name: _listed(server) for name, server in self._servers.items()}

    def _told(self, name: str, server: Server) -> list[Any]:
        """A server's name and version, its tools and the contents of its folder, but not its location."""
        listing = self._listings[name]
        tools = sorted(listing.tools, key=lambda tool: str(tool["name"]))
        return [*([name] if name else []), listing.server, tools, contents(server)]

    @cached_property
    def _specs(self) -> tuple[dict[str, ToolSpec], list[Skipped]]:
        found, skipped = dict[str, ToolSpec](), list[Skipped]()
        for name, server in self._servers.items():
            try:
                own, left_out = specs(self._listings[name].tools)
            except ValueError as error:
                raise ConfigError(*server.where, f"the tools of the MCP server cannot be used: {error}") from None
            skipped += [replace(one, record=f"tool {_prefixed(name, _tool(one))}") for one in left_out]
            for tool in own.values():
                whole = _prefixed(name, tool.name)
                if name and len(whole) > LONGEST:
                    why = (
                        f"a tool is left out: its name, including the server's name, has more than {LONGEST} characters"
                    )
                    skipped.append(Skipped(f"tool {whole}", why))
                else:
                    found[whole] = replace(tool, name=whole)
        return found, skipped

    def _unusable(self, task: Task) -> str | None:
        return unusable(task, self.tools, {_tool(one): one.reason for one in self._specs[1]})


def _one(key: str, keys: object) -> One:
    """A server's keys, checked.

    Raises ConfigError, which shows no value, because a value may be a header's secret.
    """
    try:
        return One.model_validate(keys)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join([key, *map(str, first["loc"])])
        raise ConfigError(
            place, "(not shown)", f"{first['msg']}; allowed keys are {', '.join(One.model_fields)}"
        ) from None


def _listed(server: Server) -> Listing:
    try:
        return listed(server)
    except (RefusedError, ServerError) as error:
        raise ConfigError(*server.where, f"the MCP server does not list its tools: {error}") from None


def _prefixed(server: str, tool: str) -> str:
    return f"{server}{BETWEEN}{tool}" if server else tool


def _tool(left_out: Skipped) -> str:
    return left_out.record.removeprefix("tool ")


def _measured(wanted: str | None, world: McpWorld, trajectory: Trajectory) -> Mapping[str, Any]:
    """The metrics of a task: HotpotQA's metrics for the answer, if an answer is wanted.

    If the task's expectations were checked, the metrics include the share of expectations that held, and the first that
    did not (None: all held).
    """
    given = trajectory.answer or ""
    found: dict[str, Any] = {}
    if wanted is not None:
        found |= {"answer_em": float(exact_match(given, wanted)), "answer_f1": f1(given, wanted)}
    if world.seen is not None:
        unmet = world.seen.unmet
        found |= {
            "expectations_held": 1 - len(unmet) / len(world.expect),
            "unmet_expectation": unmet[0] if unmet else None,
        }
    return found


# The folder that is copied for a server's process.


_FILES, _BYTES = 5_000, 64 * 2**20


def contents(server: Server) -> list[list[str]]:
    """(path, digest) of each file in a server's folder, in order; empty if there is no folder.

    Raises:
        ConfigError: it is not a folder, cannot be read, is too large, or contains a link or a file that is not plain.
    """
    folder, key = server.folder, f"{server.key}.folder"
    if folder is None:
        return []
    found, total, root = list[list[str]](), 0, Path(folder).expanduser()
    try:
        if not root.is_dir():
            raise ConfigError(key, folder, "a folder")
        for path in sorted(root.rglob("*")):
            if path.is_symlink():
                raise ConfigError(key, folder, f"a folder without links, but {path.name} is a link")
            if path.is_dir():
                continue
            if not path.is_file():
                raise ConfigError(key, folder, f"a folder of plain files, but {path.name} is not a plain file")
            total += path.stat().st_size
            if total > _BYTES or len(found) >= _FILES:
                allowed = f"a folder of at most {_FILES:,} files and {_BYTES // 2**20} MiB"
                raise ConfigError(key, folder, allowed)
            found.append([str(path.relative_to(root)), hashlib.sha256(path.read_bytes()).hexdigest()])
    except OSError as error:
        raise ConfigError(key, folder, f"a folder that can be read ({error.strerror})") from None
    return found
