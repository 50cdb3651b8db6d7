"""τ²-bench's files: the tasks of a domain, with what is wrong in one, its databases and policies."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast, get_args

from grid.core.errors import ConfigError, DataError
from grid.core.types import Json
from grid.datasets.dataset import UnusableError
from grid.datasets.files import folder, read_json
from grid.text.objects import MAX_DEPTH, depth
from grid.worlds.tau2.package import BASES, Action, Assertion, Basis, Domain, DomainName, FunctionCall, Requestor, Task

DOMAINS: tuple[DomainName, ...] = get_args(DomainName)
BASE: tuple[DomainName, ...] = ("airline", "retail", "telecom")
"""The domains of the published comparison; `mock` is for trying out."""
_TELECOM = ("main_policy_solo.md", "tech_support_manual.md")
FILES: Mapping[DomainName, tuple[str, ...]] = {
    "airline": ("tasks.json", "db.json", "policy.md"),
    "retail": ("tasks.json", "db.json", "policy.md"),
    "telecom": ("tasks.json", "db.toml", "user_db.toml", *_TELECOM),
    "mock": ("tasks.json", "db.json", "policy_solo.md"),
}
"""What is read of a domain's folder."""
GUIDELINES = "simulation_guidelines.md"
_SPLIT = "split_tasks.json"
_MOST_BYTES = 50_000_000
_MOST_TEXT = 100_000
_MOST_ITEMS = 200
_BEHIND = "data/tau2"
_DEFAULT_BASIS = ("DB", "COMMUNICATE")


class Folders(NamedTuple):
    """A domain's folder and, where there is one, that of the user's guidelines."""

    domain: Path
    user: Path


def folders(path: str | None, name: DomainName, talks: bool) -> Folders:
    """Where a domain's files are, below `path`; the folder that holds `data/tau2` will do too.

    Raises:
        ConfigError: for `dataset.path`, where a file is missing; of the guidelines only where the user `talks`.
    """
    inner = Path(path).expanduser() / _BEHIND if path else None
    root = str(inner) if inner and inner.is_dir() else path
    needed = [f"domains/{name}/{file}" for file in FILES[name]] + [f"user_simulator/{GUIDELINES}"] * talks
    found = folder("dataset.path", root, *needed)
    return Folders(found / "domains" / name, found / "user_simulator")


def base_ids(where: Path) -> list[str] | None:
    """The ids of a domain's base split, the one that is published on; None where no file says. Raises DataError."""
    file = where / _SPLIT
    if not file.is_file():
        return None
    found = read_json(file, _MOST_BYTES)
    ids = found.get("base") if isinstance(found, dict) else None
    if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
        raise DataError(file, None, "an object with the list `base` of task ids is expected")
    return ids


def database(file: Path, model: Any) -> Any:
    """A database of the package's, from JSON or TOML. Raises DataError where it is none."""
    try:
        if file.suffix == ".toml":
            if file.stat().st_size > _MOST_BYTES:
                raise DataError(file, None, f"a file of more than {_MOST_BYTES:,} bytes")
            given: Any = tomllib.loads(file.read_text(encoding="utf-8"))
        else:
            given = read_json(file, _MOST_BYTES)
        return model.model_validate(given)
    except (ValueError, RecursionError) as error:
        raise DataError(file, None, f"no database of the installed package: {str(error)[:300]}") from None


def text_of(file: Path) -> str:
    """A policy's or a guideline's text. Raises DataError."""
    try:
        if file.stat().st_size > _MOST_TEXT:
            raise DataError(file, None, f"a text of more than {_MOST_TEXT:,} bytes")
        return file.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise DataError(file, None, f"no text in UTF-8: {error}") from None


def policy_of(where: Path, name: DomainName) -> str:
    """What the agent goes by; telecom's is of two parts, as the package puts them together."""
    texts = [text_of(where / file) for file in FILES[name] if file.endswith(".md")]
    if name != "telecom":
        return texts[0]
    main, support = texts
    return f"<main_policy>\n{main}\n</main_policy>\n<tech_support_policy>\n{support}\n</tech_support_policy>"


def rows(file: Path) -> list[Mapping[str, Any]]:
    """The tasks of a file as they stand. Raises ConfigError or DataError."""
    found = read_json(file, _MOST_BYTES)
    found = found.get("tasks") if isinstance(found, dict) else found
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise DataError(file, None, "a list of tasks is expected")
    if not found:
        raise ConfigError("dataset.path", str(file), "a file with at least one task")
    return found


def task_of(row: Mapping[str, Any], domain: Domain, solo: bool) -> Task:
    """A task, held against the tools that the installed package has.

    Raises:
        UnusableError: it is not of the form that is known, or names functions or tools that there are not.
    """
    if depth(cast(Json, row)) > MAX_DEPTH:
        raise UnusableError(f"nested more than {MAX_DEPTH} levels deep")
    scenario, criteria = _part(row, "user_scenario"), _part(row, "evaluation_criteria")
    initial = _part(row, "initial_state")
    data = _part(initial, "initialization_data")
    if initial.get("message_history"):
        raise UnusableError("a conversation comes before it, which is not supported")
    task = Task(
        id=_text(row, "id"),
        ticket=_text(row, "ticket", must=False),
        persona=_text(scenario, "persona", must=False),
        instructions=_instructions(scenario),
        actions=tuple(_action(one, domain, solo) for one in _list(criteria, "actions")),
        assertions=tuple(_assertion(one, domain) for one in _list(criteria, "env_assertions")),
        communicate=_texts(criteria, "communicate_info"),
        nl_assertions=_texts(criteria, "nl_assertions"),
        basis=_basis(criteria),
        data=_part(data, "agent_data"),
        user_data=_part(data, "user_data"),
        begins=tuple(_function(one, domain) for one in _list(initial, "initialization_actions")),
    )
    if solo and not task.ticket:
        raise UnusableError("it has no ticket, which a task without a user needs")
    if solo and not task.actions:
        raise UnusableError("it has no gold actions, which the package asks of a task without a user")
    return task


def _basis(criteria: Mapping[str, Any]) -> frozenset[Basis]:
    named = _texts(criteria, "reward_basis") or _DEFAULT_BASIS
    if unknown := [one for one in named if one not in BASES]:
        raise UnusableError(f"its reward rests on {unknown[0]!r:.40}, which is none of {', '.join(BASES)}")
    return frozenset(basis for basis in BASES if basis in named)


def _action(given: Any, domain: Domain, solo: bool) -> Action:
    name, arguments = _call(given, "name")
    requestor = _requestor(given.get("requestor", "assistant"))
    if name not in domain.names(requestor):
        raise UnusableError(f"a gold action calls {name!r:.60}, which the installed package does not have")
    if requestor == "user" and not solo:
        raise UnusableError("a gold action is the user's, whose tools only a solo agent has here")
    compared = given.get("compare_args")
    if compared is not None and not (isinstance(compared, list) and all(isinstance(one, str) for one in compared)):
        raise UnusableError("compare_args are no list of names")
    return Action(requestor, name, arguments, None if compared is None else tuple(compared))


def _function(given: Any, domain: Domain) -> FunctionCall:
    name, arguments = _call(given, "func_name")
    requestor = _requestor(given.get("env_type"))
    if name not in domain.functions(requestor):
        raise UnusableError(f"it runs {name!r:.60}, which the installed package does not have")
    return FunctionCall(requestor, name, arguments)


def _assertion(given: Any, domain: Domain) -> Assertion:
    called, value = _function(given, domain), given.get("assert_value", True)
    if not isinstance(value, bool):
        raise UnusableError("an assertion's assert_value is neither true nor false")
    return Assertion(called.requestor, called.name, called.arguments, value)


def _call(given: Any, key: str) -> tuple[str, dict[str, Json]]:
    name, arguments = (given.get(key), given.get("arguments")) if isinstance(given, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise UnusableError(f"an action or assertion has no {key}, or no arguments")
    return name, arguments


def _requestor(given: Any) -> Requestor:
    if given not in ("assistant", "user"):
        raise UnusableError(f"somebody acts who is neither assistant nor user: {given!r:.40}")
    found: Requestor = given
    return found


def _instructions(scenario: Mapping[str, Any]) -> dict[str, str]:
    """What the user is told, by what it is about."""
    given = scenario.get("instructions")
    if isinstance(given, str) and given.strip():
        return {"task_instructions": given.strip()[:_MOST_TEXT]}
    if not isinstance(given, dict) or not all(value is None or isinstance(value, str) for value in given.values()):
        raise UnusableError("its user has no instructions")
    return {name: value.strip()[:_MOST_TEXT] for name, value in given.items() if value and name != "domain"}


def _part(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = given.get(key)
    if found is not None and not isinstance(found, dict):
        raise UnusableError(f"{key} is no object")
    return found or {}


def _list(given: Mapping[str, Any], key: str) -> Sequence[Any]:
    found = given.get(key)
    if found is not None and (not isinstance(found, list) or len(found) > _MOST_ITEMS):
        raise UnusableError(f"{key} is no list, or has more than {_MOST_ITEMS}")
    return found or ()


def _texts(given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = _list(given, key)
    if not all(isinstance(one, str) for one in found):
        raise UnusableError(f"{key} is no list of texts")
    return tuple(found)


def _text(given: Mapping[str, Any], key: str, must: bool = True) -> str:
    found = given.get(key)
    if found is not None and not isinstance(found, str):
        raise UnusableError(f"{key} is no text")
    if must and not (found or "").strip():
        raise UnusableError(f"it has no {key}")
    return (found or "").strip()[:_MOST_TEXT]


# What is told of the user: to whoever plays them, or, where nobody does, to the agent as a ticket.


PARTS = {
    "reason_for_call": "Why they get in touch",
    "known_info": "What they know",
    "unknown_info": "What they do not know",
    "task_instructions": "What else holds for them",
}
"""What a user's instructions are about, by their names in the data."""
TICKET = (
    "A customer has written in, and nobody can be asked back. What follows was written for somebody who plays the "
    "customer; take it as all that they know, want and would say, and that they agree to whatever does what they want.",
    "When you finish, your answer is what they are told.",
)


def scenario(guidelines: str, task: Task) -> tuple[str, ...]:
    """What somebody is told who plays the user: the data's guidelines, a persona where there is one, instructions."""
    persona = ("Persona:", task.persona) if task.persona else ()
    return (guidelines, *persona, "Instructions:", *_users_instructions(task))


def ticket(task: Task) -> str:
    """The user's instructions as a ticket: who solves it knows more from the start than one who has to ask."""
    return "\n".join((*TICKET, *_users_instructions(task)))


def _users_instructions(task: Task) -> tuple[str, ...]:
    named = {**PARTS, **{name: name for name in task.instructions if name not in PARTS}}
    return tuple(f"{named[part]}: {task.instructions[part]}" for part in named if part in task.instructions)
