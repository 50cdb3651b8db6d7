"""Reads the results of τ²-bench's own runner, a JSON file in the form of the class `Results`, without the package."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from grid.core.engine import ACTOR, USER, Role
from grid.core.errors import ConfigError, DataError, ErrorKind, Status, one_line
from grid.core.types import to_json
from grid.core.untrusted import loads
from grid.imports.episodes import (
    Called,
    Found,
    Names,
    Read,
    Said,
    Sample,
    Source,
    Spent,
    observed,
    planner_label,
    resolved,
    score_name,
)

TOOL = "tau2"
REWARD = "reward"
_TERMINATION = "termination"
LARGEST = 512 << 20
"""The maximum size of a results file, in bytes."""
_LIMITS = {"max_steps": "steps", "too_many_errors": "errors", "timeout": "seconds"}
_BROKEN = {"agent_error": ErrorKind.MODEL, "infrastructure_error": ErrorKind.INFRASTRUCTURE, "user_error": None}
"""For each termination reason that is an error, the kind of error; None if we have no such kind."""


class _Part(BaseModel):
    """The part of an object that we read; other keys, which other versions may have, are ignored."""

    model_config = ConfigDict(extra="ignore")


class _Who(_Part):
    implementation: str
    llm: str | None = None
    llm_args: dict[str, Any] | None = None


class _World(_Part):
    domain_name: str


class _Info(_Part):
    agent_info: _Who
    user_info: _Who
    environment_info: _World
    num_trials: int = 1
    git_commit: str | None = None
    max_steps: int | None = None
    max_errors: int | None = None
    seed: int | None = None


class _Call(_Part):
    id: str = ""
    name: str
    arguments: dict[str, Any] = {}
    requestor: str = "assistant"


class _Usage(_Part):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Message(_Part):
    role: str
    id: str = ""
    content: str | None = None
    tool_calls: list[_Call] | None = None
    tool_messages: list[_Message] = []
    requestor: str = "assistant"
    error: bool = False
    cost: float | None = None
    usage: _Usage | None = None


class _Reward(_Part):
    reward: float
    reward_breakdown: dict[str, float] | None = None


class _Run(_Part):
    id: str
    task_id: str
    trial: int | None = None
    seed: int | None = None
    end_time: str | None = None
    duration: float | None = None
    termination_reason: str
    reward_info: _Reward | None = None
    messages: list[_Message] = []
    skipped: bool = False


class _Criteria(_Part):
    actions: list[_Call] | None = None


class _Task(_Part):
    id: str
    user_scenario: Any = None
    ticket: str | None = None
    evaluation_criteria: _Criteria | None = None


class _Results(_Part):
    timestamp: str | None = None
    info: _Info
    tasks: list[_Task] = []
    simulations: list[_Run]


def opened(path: Path, sha256: str, success: str | None) -> tuple[Source, Read]:
    """The source of a results file, and a function that reads the file's simulations.

    Args:
        path: the file.
        sha256: the digest of the file's bytes.
        success: `reward`, or a part of it (`DB`, `COMMUNICATE`); None: `reward`.

    Raises:
        ConfigError: no simulation's reward has this part.
        DataError: the file cannot be read.
    """
    results = _read(path)
    info, rule = results.info, success or REWARD
    parts = {name for run in results.simulations if run.reward_info for name in run.reward_info.reward_breakdown or {}}
    if rule not in {REWARD, *parts}:
        raise ConfigError("--success", success, f"reward or a part of it: {', '.join(sorted(parts)) or 'it has none'}")
    told = {
        "domain": info.environment_info.domain_name,
        "git_commit": info.git_commit,
        "max_steps": info.max_steps,
        "max_errors": info.max_errors,
        "seed": info.seed,
        "user": info.user_info.implementation,
    }
    source = Source(
        tool=TOOL,
        package=TOOL,
        version=None,  # results files do not contain the version
        file=path.name,
        sha256=sha256,
        identity=to_json([results.timestamp, info.model_dump(mode="json")]),
        model=one_line(info.agent_info.llm or "none", 200),
        planner=planner_label(TOOL, info.agent_info.implementation),
        dataset=f"{TOOL}/{one_line(info.environment_info.domain_name, 100)}",
        dataset_version=_version(results),
        roles={USER: one_line(info.user_info.llm, 200)} if info.user_info.llm else {},
        given={name: value for name, value in told.items() if value is not None},
        success=rule,
        planned=len(results.tasks) * info.num_trials or None,
    )
    return source, partial(_samples, results, rule)


def _read(path: Path) -> _Results:
    name = Path(path.name)
    try:
        if (size := path.stat().st_size) > LARGEST:
            raise DataError(name, None, f"the file has {size:,} bytes, more than {LARGEST:,}")
        return _Results.model_validate(loads(path.read_bytes()))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise DataError(name, None, f"not a results file of τ²-bench's runner ({where}: {first['msg']})") from None
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        raise DataError(
            name, None, f"not a complete JSON file ({one_line(error, 200) or 'nested too deeply'})"
        ) from None


def _version(results: _Results) -> str:
    """A digest of the part of the tasks that we read, because results files contain no version of their data."""
    tasks = to_json([task.model_dump(mode="json") for task in results.tasks])
    return f"{TOOL}-{hashlib.sha256(tasks.encode('utf-8', 'replace')).hexdigest()[:12]}"


def _samples(results: _Results, rule: str, wanted: Any, found: Found) -> Iterator[Sample]:
    tasks, places, names = {task.id: task for task in results.tasks}, dict[str, int](), Names()
    names.of(score_name(TOOL, REWARD), "number", REWARD)
    names.of(score_name(TOOL, _TERMINATION), "text", _TERMINATION)
    for run in results.simulations:  # also those that are not wanted, so that names do not depend on what is
        _scores(run, names)
    for run in results.simulations:
        place = places[run.task_id] = places.get(run.task_id, -1) + 1
        trial = run.trial if run.trial is not None else place
        if wanted(run.task_id, trial):
            domain = results.info.environment_info.domain_name
            sample = _sample(run, trial, tasks.get(run.task_id), rule, _scores(run, names, found), found)
            # The id that the case has in our data set, so that imported runs are paired with a sweep's.
            yield replace(sample, case_id=f"{TOOL}-{domain}-{run.task_id}", filed=run.task_id)


def _sample(
    run: _Run, trial: int, task: _Task | None, rule: str, scores: Mapping[str, float | str], found: Found
) -> Sample:
    broken, kind = run.termination_reason in _BROKEN, _BROKEN.get(run.termination_reason)
    if run.skipped:
        broken, kind = True, ErrorKind.INFRASTRUCTURE
        found.note(
            "were skipped by the runner after an error; their success is not known (the runner counts them as 0)"
        )
    success = None if run.skipped else resolved(_values(run).get(rule))
    messages = [one for message in run.messages for one in (message.tool_messages or [message])]
    said = _messages(messages)
    told = [one.text for one in said if one.role == "assistant" and one.text]
    actions = task.evaluation_criteria.actions if task and task.evaluation_criteria else None
    return Sample(
        case_id=run.task_id,
        trial=trial,
        query=_query(task, said),
        target=None,
        messages=said,
        scores=scores,
        success=success,
        ended=_time(run.end_time),
        calls=[(call.name, call.arguments) for call in actions or ()],
        status=Status.FAILED if broken else Status.OK,
        error_kind=kind,
        error_message=run.termination_reason if broken else None,
        answer=told[-1] if told else None,
        budget_reached=_LIMITS.get(run.termination_reason),
        seed=run.seed,
        spent=_spent(messages),
        wall_seconds=None if run.skipped else run.duration,
    )


def _values(run: _Run) -> dict[str, float]:
    """The reward and its parts; a part that is itself called `reward` does not count."""
    if run.reward_info is None:
        return {}
    return {**(run.reward_info.reward_breakdown or {}), REWARD: run.reward_info.reward}


def _scores(run: _Run, names: Names, found: Found | None = None) -> dict[str, float | str]:
    """The reward, its parts and the termination reason, keyed by metric name; empty if the run was skipped."""
    if run.skipped:
        return {}
    values = _values(run).items()
    scores = {names.of(score_name(TOOL, name), "number", name, found=found): value for name, value in values}
    return {**scores, score_name(TOOL, _TERMINATION): run.termination_reason}


def _query(task: _Task | None, said: Sequence[Said]) -> str:
    """The text of the ticket; without a ticket, the user's first message; without a message, the user's scenario."""
    first = next((one.text for one in said if one.role == "user" and one.text), "")
    scenario = to_json(task.user_scenario) if task and task.user_scenario is not None else ""
    return (task.ticket if task and task.ticket else "") or first or scenario


def _messages(messages: Sequence[_Message]) -> list[Said]:
    """The messages. The agent's calls stay calls; the user's own calls are added to the user's text."""
    results = {
        message.id: (message.content or "", message.error)
        for message in messages
        if message.role == "tool" and message.requestor == "assistant"
    }
    found = []
    for message in messages:
        calls = [Called(call.id, call.name, call.arguments) for call in message.tool_calls or ()]
        text, mine = message.content or "", message.role == "assistant"
        if calls and not mine:
            text = "\n".join(filter(None, [text, *(f"{call.tool}({to_json(dict(call.arguments))})" for call in calls)]))
        spent = _usage([message]) if message.usage else Spent()
        found.append(Said(message.role, text, calls if mine else (), mine and message.usage is not None, spent))
    return observed(found, results)


def _spent(messages: Sequence[_Message]) -> dict[Role, Spent]:
    """The usage of the agent and the user, from messages that a model wrote; the runner's messages have no usage."""
    roles: Mapping[Role, str] = {ACTOR: "assistant", USER: "user"}
    return {
        role: _usage(own)
        for role, name in roles.items()
        if (own := [message for message in messages if message.role == name and message.usage]) or role == ACTOR
    }


def _usage(messages: Sequence[_Message]) -> Spent:
    if not messages:
        return Spent()
    read = [message.usage.prompt_tokens if message.usage else None for message in messages]
    written = [message.usage.completion_tokens if message.usage else None for message in messages]
    paid = [message.cost or None for message in messages]  # the runner writes 0 if it has no price
    return Spent(len(messages), _whole(read), None, _whole(written), None, _sum(paid))


def _whole(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _time(text: str | None) -> dt.datetime | None:
    """The time in a text. The runner writes times without a time zone; they are read as UTC."""
    try:
        found = dt.datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found.replace(tzinfo=dt.UTC) if found and found.tzinfo is None else found
