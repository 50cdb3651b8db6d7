"""Tasks for the tools of an MCP server (Model Context Protocol), which each episode has for itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticCustomError

from grid.core.errors import ConfigError, DataError, GridError, ToolError, one_line
from grid.core.problem import HIDDEN, REFERENCES, Problem, Reference
from grid.core.types import (
    FINISH,
    RESULT,
    Case,
    Json,
    Observation,
    Plan,
    Skipped,
    ToolCall,
    ToolSpec,
    Trajectory,
    to_json,
)
from grid.core.util import STRICT
from grid.core.world import State, own_state
from grid.datasets.dataset import RecordDataset
from grid.datasets.files import fingerprint, read_jsonl
from grid.datasets.mcp_session import Listing, RefusedError, Server, ServerError, Session, listed, specs
from grid.text import references
from grid.text.answers import exact_match, f1
from grid.text.objects import MAX_CHARACTERS, MAX_DEPTH, depth, objects
from grid.text.references import misfit
from grid.worlds.equivalence import equivalent
from grid.worlds.lookup import Entry, means
from grid.worlds.schema import ERROR

if TYPE_CHECKING:
    from mcp import ClientSession
    from mcp_types import CallToolResult


# Tasks for the tools of an MCP server: JSON Lines, read strictly.


_MOST = 100_000
"""Tasks of a file."""
_FORM = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


def _said(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("blank", "it is blank")
    return text


Name = Annotated[str, Field(min_length=1, max_length=200)]


class Call(BaseModel):
    """A call of the reference; arguments may hold `OUTPUT_FROM_STEP_i.field`, calls counted from 0."""

    model_config = _FORM
    tool: Name
    arguments: dict[str, JsonValue] = Field(default_factory=dict, max_length=100)


class Task(BaseModel):
    """One line. `cluster` is the template that it shares with others; without one it is of its own."""

    model_config = _FORM
    id: Name
    query: Annotated[str, Field(max_length=20_000), AfterValidator(_said)]
    calls: list[Call] = Field(default_factory=list, max_length=100)
    answer: Annotated[str, Field(max_length=2_000), AfterValidator(_said)] | None = None
    cluster: Name | None = None
    policy: Annotated[str, Field(max_length=100_000)] = ""

    def reference(self) -> dict[str, ToolCall]:
        """The calls by step."""
        return {str(place): ToolCall(call.tool, call.arguments) for place, call in enumerate(self.calls)}


def file_of(path: str | None) -> Path:
    """The file of tasks; raises ConfigError where there is none."""
    if path is None:
        raise ConfigError("dataset.path", None, "a file of tasks in JSON Lines")
    file = Path(path).expanduser()
    try:
        found = file.is_file()
    except OSError as error:
        raise ConfigError("dataset.path", path, f"a file that can be read ({error.strerror})") from None
    if not found:
        raise ConfigError("dataset.path", path, "no such file; it holds tasks in JSON Lines")
    return file


def read_tasks(file: Path) -> list[Task]:
    """All tasks in the file's order; raises DataError for a line that is none, and for an id that comes twice."""
    tasks: dict[str, Task] = {}
    try:
        for line, row in read_jsonl(file, own=True):
            task = _task(file, line, row)
            if task.id in tasks:
                raise DataError(file, line, f"id: {task.id!r:.80} is the id of a task before it")
            tasks[task.id] = task
            if len(tasks) > _MOST:
                raise DataError(file, line, f"more than {_MOST:,} tasks")
    except OSError as error:
        raise DataError(file, None, f"cannot be read: {error.strerror}") from None
    return list(tasks.values())


def _task(file: Path, line: int, row: dict[str, Any]) -> Task:
    try:
        return Task.model_validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise DataError(file, line, one_line(f"{place}: {first['msg']}", 300)) from None


def unusable(task: Task, tools: Mapping[str, ToolSpec], left_out: Sequence[str]) -> str | None:
    """Why a task cannot be a case; None where it can."""
    if not task.calls and task.answer is None:
        return "it has neither calls nor an answer, so that nothing could resolve it"
    calls = task.reference()
    for call in calls.values():
        if call.tool not in tools:
            why = "was left out" if call.tool in left_out else "is not the server's"
            return f"its reference calls {call.tool!r:.80}, which {why}"
        if wrong := misfit(call, tools[call.tool]):
            return f"its reference does not fit its tool: {wrong:.200}"
    for step, call in calls.items():
        later = [producer for producer, _ in references.found_in(call) if producer not in [*calls][: int(step)]]
        if later:
            return f"call {step} of its reference refers to the output of step {later[0]}, which is not before it"
    return None


# The data set of such tasks.


ADAPTER = 1
"""Raise when the same file and listing give other cases or outcomes."""
SHORT = "An answer is short: a name, a date, a number, or a few words."


@dataclass(config=STRICT)
class Mcp(RecordDataset[Task]):
    """The tasks of `path` (JSON Lines) for the tools that a server lists.

    A task with an answer is resolved by it, another by its calls (`McpWorld`). Each episode starts the server anew in a
    copy of `folder`, so that none sees what another did; what lies outside is the server's own business.

    Args:
        path: the file of tasks.
        command: the server's program, by its path or its name on PATH.
        args: what it is started with.
        env: names of environment variables that it is given; besides them it has PATH alone.
        folder: of which each process has a copy as its working directory; None: an empty one.
        start_seconds: until the server has started, and until it has listed its tools.
        seconds: for one call.
        result_characters: of one result; a longer one is a failed call.
        max_tools: that the server may list.
    """

    path: str | None = None
    command: str | None = None
    args: list[str] = Field(default_factory=list, max_length=200)
    env: list[str] = Field(default_factory=list, max_length=200)
    folder: str | None = None
    start_seconds: Annotated[float, Field(gt=0, le=600)] = 30.0
    seconds: Annotated[float, Field(gt=0, le=3600)] = 30.0
    result_characters: Annotated[int, Field(ge=100, le=1_000_000)] = 20_000
    max_tools: Annotated[int, Field(ge=1, le=2_000)] = 200

    @cached_property
    def provides(self) -> frozenset[str]:
        """REFERENCES where all tasks have calls; a server cannot go back, so that no world branches."""
        try:
            told = all(task.calls for task in self._tasks)
        except GridError:  # said by whoever reads the cases
            told = True
        return frozenset({REFERENCES} if told else ())

    @cached_property
    def version(self) -> str:
        """The adapter's version, and fingerprints of the tasks and of the server's version, tools and folder."""
        tools = sorted(self._listing.tools, key=lambda tool: str(tool["name"]))
        text = json.dumps([self._listing.server, tools, contents(self.folder)], sort_keys=True)
        told = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        return f"mcp-a{ADAPTER}-{fingerprint(self._file)}-{told}"

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The server's tools, as it listed them when they were first asked for."""
        return self._specs[0]

    @cached_property
    def skipped(self) -> Sequence[Skipped]:
        """Tools that are left out, and tasks that cannot be cases."""
        tasks = ((task.id, self._unusable(task)) for task in self._tasks)
        return [*self._specs[1], *(Skipped(name, why) for name, why in tasks if why is not None)]

    @cached_property
    def records(self) -> Mapping[str, Task]:
        """The usable tasks by their ids."""
        found = {task.id: task for task in self._tasks if self._unusable(task) is None}
        if not found:
            why = next((one.reason for one in self.skipped), "it is empty")
            raise ConfigError("dataset.path", self.path, f"a file with a task that can be a case ({why})")
        return found

    def cluster(self, case_id: str) -> str:
        """The task's own word; else the task."""
        return self.records[case_id].cluster or case_id

    def problem(self, case_id: str) -> Problem:
        """One task, with a world of its own that starts a server once it is called."""
        task, tools = self.records[case_id], tuple(self.tools.values())
        calls, asked = task.reference(), task.answer is not None
        answered = asked and self.outline == HIDDEN  # an outline says itself where the work ends
        last = tuple(calls)[-1:] if asked else tuple(calls)
        notes = (SHORT,) if asked else ()
        return Problem(
            case=Case(case_id, task.query, Plan(()), answered=answered, notes=notes, policy=task.policy),
            reference=Reference({**calls}, last, followed=False, answer=task.answer),
            world=McpWorld(self._server, self.tools, calls, task.answer, answered),
            candidates=lambda case, substep: tools,
            library=self.tools,
            same_function={},
            own=tuple(self.tools),
            measure=partial(_measured, task.answer),
        )

    @cached_property
    def _file(self) -> Path:
        return file_of(self.path)

    @cached_property
    def _tasks(self) -> Sequence[Task]:
        return read_tasks(self._file)

    @cached_property
    def _server(self) -> Server:
        if self.command is None:
            raise ConfigError("dataset.command", None, "the program of an MCP server")
        return Server(
            self.command,
            tuple(self.args),
            tuple(self.env),
            self.folder,
            self.start_seconds,
            self.seconds,
            self.result_characters,
            self.max_tools,
        )

    @cached_property
    def _listing(self) -> Listing:
        _ = self._tasks, contents(self.folder)  # what is wrong with files is said before a server is started
        try:
            return listed(self._server)
        except (RefusedError, ServerError) as error:
            raise ConfigError("dataset.command", self.command, f"an MCP server that lists its tools: {error}") from None

    @cached_property
    def _specs(self) -> tuple[dict[str, ToolSpec], list[Skipped]]:
        try:
            return specs(self._listing.tools)
        except ValueError as error:
            raise ConfigError("dataset.command", self.command, f"an MCP server of other tools: {error}") from None

    def _unusable(self, task: Task) -> str | None:
        return unusable(task, self.tools, [one.record.removeprefix("tool ") for one in self._specs[1]])


def _measured(wanted: str | None, trajectory: Trajectory) -> Mapping[str, Any]:
    """HotpotQA's measures of an answer, where there is one."""
    if wanted is None:
        return {}
    given = trajectory.answer or ""
    return {"answer_em": float(exact_match(given, wanted)), "answer_f1": f1(given, wanted)}


# The folder that a server's process gets a copy of.


_FILES, _BYTES = 5_000, 64 * 2**20


def contents(folder: str | None) -> list[list[str]]:
    """(path, digest) of each file in a folder, in order; nothing without one.

    Raises:
        ConfigError: no folder that can be read, too large a one, or one with a link that leads out of it.
    """
    if folder is None:
        return []
    found, total, root = list[list[str]](), 0, Path(folder).expanduser()
    try:
        if not root.is_dir():
            raise ConfigError("dataset.folder", folder, "a folder")
        for path in sorted(root.rglob("*")):
            if path.is_symlink():
                raise ConfigError("dataset.folder", folder, f"a folder without links, and {path.name} is one")
            if path.is_dir():
                continue
            if not path.is_file():
                raise ConfigError("dataset.folder", folder, f"a folder of plain files, which {path.name} is not")
            total += path.stat().st_size
            if total > _BYTES or len(found) >= _FILES:
                allowed = f"a folder of at most {_FILES:,} files and {_BYTES // 2**20} MiB"
                raise ConfigError("dataset.folder", folder, allowed)
            found.append([str(path.relative_to(root)), hashlib.sha256(path.read_bytes()).hexdigest()])
    except OSError as error:
        raise ConfigError("dataset.folder", folder, f"a folder that can be read ({error.strerror})") from None
    return found


# An MCP server's tools: each episode has a process of its own, which cannot be gone back in.
#
# What a call leaves behind is in the server. A state holds what was seen of it: how many calls were made, which calls
# of the reference were, with what they returned, and the answer.


ANSWER = "answer"


@plain_dataclass(frozen=True)
class McpState:
    """After `made` calls: by step of the reference what its call returned, as JSON; the last result; the answer."""

    made: int = 0
    obtained: tuple[tuple[str, str], ...] = ()
    last: str | None = None
    answer: str | None = None

    def outcomes(self) -> dict[str, Mapping[str, Json]]:
        """What the reference's calls returned, by step."""
        return {step: json.loads(text) for step, text in self.obtained}


@plain_dataclass(eq=False)
class McpWorld:
    """The world of one episode. Its server is started by the first call, and ended by `close`.

    A call makes a step of the reference when it gives the same arguments in an equal form, and succeeds; one call makes
    one step. With a `wanted` answer the case is resolved by it alone (`same_answer`), without one when all calls were
    made. `answered`: the answer is what a finish tells; otherwise the last result.

    Attributes:
        server: that is started.
        tools: the server's, by name.
        calls: the reference's by step.
        wanted: the reference's answer.
        answered: which of the two rules holds.
    """

    server: Server
    tools: Mapping[str, ToolSpec]
    calls: Mapping[str, ToolCall]
    wanted: str | None = None
    answered: bool = False
    branches: ClassVar[bool] = False
    _session: Session | None = field(default=None, init=False)
    _made: int = field(default=0, init=False)

    def start(self) -> McpState:
        """No call made."""
        return McpState()

    async def apply(self, state: State, call: ToolCall) -> tuple[McpState, Observation]:
        """What the server returns. A call that is refused has failed.

        Raises:
            ToolError: the server has ended, hangs or floods, or was ended before; or a state is not the newest.
        """
        before = own_state(state, McpState)
        if before.made != self._made:
            raise ToolError(f"a server cannot go back: {self._made} calls were made, the state is behind {before.made}")
        if self.answered and call.tool == FINISH:
            return _finished(before, call)
        if call.tool not in self.tools:
            return before, failed(f"There is no tool {call.tool!r:.80}.")
        self._made += 1
        made = replace(before, made=self._made)
        found = await self._called(call)
        if found.failed:
            return made, found
        text = to_json(dict(found.content))
        step = self._step(made, call)
        more = ((step, text),) if step is not None else ()
        return replace(made, obtained=(*made.obtained, *more), last=_whole(found.content)), found

    def resolved(self, state: State) -> bool:
        """Whether the answer is right; without one, whether all of the reference's calls were made."""
        own = own_state(state, McpState)
        if self.wanted is None:
            return len(own.obtained) == len(self.calls)
        given = self.answer(own)
        if given is None:
            return False
        return same_answer(given, self.wanted)

    def answer(self, state: State) -> str | None:
        """What was told; where an outline ends the work, the last result. None where no question is answered."""
        own = own_state(state, McpState)
        if self.wanted is None:
            return None
        return own.answer if self.answered else own.last and own.last.strip()

    async def close(self) -> None:
        """End the server; the next call begins with another."""
        session, self._session, self._made = self._session, None, 0
        if session is not None:
            await session.close()

    async def _called(self, call: ToolCall) -> Observation:
        try:
            call.text().encode()
        except UnicodeEncodeError:
            return failed("An argument has half a surrogate pair.")
        session = await self._started()
        try:
            result = await session.ask(lambda client: called(client, call), self.server.seconds)
        except RefusedError as error:
            return failed(f"{error}.")
        except ServerError as error:
            raise ToolError(f"the MCP server is of no use any more: {error}") from None
        return observation(result, self.server.result_characters)

    async def _started(self) -> Session:
        if self._session is not None:
            return self._session
        self._session = Session(self.server)
        try:
            await self._session.start()
        except (RefusedError, ServerError) as error:
            self._session.why = f"it did not start: {error}"
            raise ToolError(f"the MCP server did not start: {error}") from None
        return self._session

    def _step(self, state: McpState, call: ToolCall) -> str | None:
        """The first step of the reference that a call makes, of those that were not made; None for another call."""
        outcomes, spec = state.outcomes(), self.tools[call.tool]
        parameters = {parameter.name: parameter for parameter in spec.parameters}
        for step, reference in self.calls.items():
            if step in outcomes or reference.tool != call.tool:
                continue
            concrete = references.resolve(reference, outcomes)
            entry = Entry(frozenset({step}), concrete, Observation({}), parameters=parameters)
            if not any(references.found_in(concrete)) and means(entry, call.arguments):
                return step
        return None


def same_answer(given: str, wanted: str) -> bool:
    """Whether two answers mean the same; where digits count, no sign within them may be dropped.

    Whoever plans ahead can tell no more than a whole result: one that is an object, or a list of objects, with a single
    value stands for that value.
    """
    digits = any(char.isdigit() for char in wanted)
    told = (given, *_only_value(given))
    return any(equivalent(one, wanted) or (not digits and exact_match(one, wanted)) for one in told)


def _only_value(text: str) -> tuple[str, ...]:
    """The value of a structure that has no other."""
    found = objects(text) if len(text) <= MAX_CHARACTERS else []
    if len(found) != 1 or found[0].why or (found[0].start, found[0].end) != (0, len(text)):
        return ()
    pending, leaves = [found[0].value], list[Json]()
    for value in pending:  # which grows
        if isinstance(value, dict | list):
            pending += value.values() if isinstance(value, dict) else value
        else:
            leaves.append(value)
    return tuple(leaf if isinstance(leaf, str) else to_json(leaf) for leaf in leaves) if len(leaves) == 1 else ()


def _finished(before: McpState, call: ToolCall) -> tuple[McpState, Observation]:
    """The state behind the answer; a finish without one, or with a reference that nothing fills, is refused."""
    answer = call.arguments.get(ANSWER)
    text = answer if isinstance(answer, str) else "" if answer is None else to_json(answer)
    if not text.strip():
        return before, failed(f"{FINISH} needs an {ANSWER}: the result of an earlier step, or words.")
    left = references.PATTERN.search(text)
    if left:
        return before, failed(f"{ANSWER}: {left[0]!r:.80} is no result of an earlier step.")
    return replace(before, answer=text.strip()), Observation({ANSWER: text.strip()})


def _whole(content: Mapping[str, Json]) -> str:
    """What a reference to a result stands for, as text: `result`, or all fields."""
    result = content[RESULT] if RESULT in content else dict(content)
    return result if isinstance(result, str) else to_json(result)


# What a call of an MCP server's tool returned, as an observation.


async def called(client: ClientSession, call: ToolCall) -> CallToolResult:
    """What a tool returns.

    The client's own `call_tool` holds it against the schema that the server tells, whose regular expressions may take
    for ever; nothing here rests on that.
    """
    from mcp_types import CallToolRequest, CallToolRequestParams, CallToolResult

    params = CallToolRequestParams(name=call.tool, arguments=dict(call.arguments))
    return await client.send_request(CallToolRequest(params=params), CallToolResult)


def failed(why: str) -> Observation:
    """A call that came to nothing."""
    return Observation({ERROR: why}, failed=True)


def observation(result: CallToolResult, most: int) -> Observation:
    """The structured content, its fields where it has any; else the texts, a line each, as the field `result`.

    Images, sounds and resources are named. An error is a failed call with the text; so is a result of more than `most`
    characters, of which nothing is shown, since a part of it might mislead.
    """
    structured = result.structured_content
    told = "\n".join(_text(block) for block in result.content)
    if result.is_error:
        return failed(told[:most] or "The call failed.")
    content: dict[str, Json] = structured if isinstance(structured, dict) and structured else {RESULT: told}
    if structured is not None and not isinstance(structured, dict):
        content = {RESULT: structured}
    if depth(dict(content)) > MAX_DEPTH:
        return failed(f"The result is nested more than {MAX_DEPTH} levels deep.")
    size = len(to_json(content))
    if size > most:
        return failed(f"The result has {size:,} characters, {most:,} at most are shown (dataset.result_characters).")
    return Observation(content)


def _text(block: Any) -> str:
    """A block of a result: its text, or what it is."""
    if block.type == "text":
        return str(block.text)
    resource = getattr(block, "resource", None)
    text = getattr(resource, "text", None)
    if isinstance(text, str):
        return text
    about = [getattr(block, "mime_type", None) or getattr(resource, "mime_type", None), getattr(block, "name", None)]
    about += [str(uri) if (uri := getattr(block, "uri", None) or getattr(resource, "uri", None)) else None]
    return f"[{' '.join([block.type, *filter(None, about)])}]"
