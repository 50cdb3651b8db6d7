"""τ²-bench for tests: small files of its form, mutated runs, and what the package's own evaluators say of them."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from grid.core.types import Json, ToolCall
from grid.datasets.tau2.dataset import Tau2
from grid.datasets.tau2.package import DomainName
from grid.datasets.tau2.world import Tau2World

RELEASED = "AGENT_GRID_TAU2"
"""Names the folder of the released data."""
_WORDS = ("never", "5244", "$1,628.00", "done", "327 and 1,000", "")


class Run(NamedTuple):
    """What an agent did: its calls, and what it said at the end (empty: nothing)."""

    calls: tuple[ToolCall, ...]
    answer: str


def mock_files(root: Path, tasks: Sequence[Mapping[str, Any]]) -> Path:
    """A folder with the domain `mock`: two users, two tasks of theirs, and the tasks to be solved."""
    where = root / "domains" / "mock"
    where.mkdir(parents=True, exist_ok=True)
    board = {
        f"task_{n}": {"task_id": f"task_{n}", "title": title, "description": "", "status": "pending"}
        for n, title in enumerate(("Water the ferns", "Oil the hinge"), 1)
    }
    people = {
        f"user_{n}": {"user_id": f"user_{n}", "name": name, "tasks": [f"task_{n}"]}
        for n, name in enumerate(("Ada", "Bela"), 1)
    }
    (where / "db.json").write_text(json.dumps({"tasks": board, "users": people}))
    (where / "policy_solo.md").write_text("Only users that there are may have tasks. No task is ever deleted.")
    (where / "tasks.json").write_text(json.dumps(list(tasks)))
    return root


def mock_task(name: str = "one", **changes: Any) -> dict[str, Any]:
    """A task of `mock` that its gold action solves; `changes` are of its evaluation criteria."""
    action = {
        "action_id": "a",
        "name": "update_task_status",
        "arguments": {"task_id": "task_1", "status": "completed"},
    }
    criteria = {"actions": [action], "reward_basis": ["DB"], **changes}
    scenario = {"persona": None, "instructions": "You have watered the ferns."}
    return {
        "id": name,
        "user_scenario": scenario,
        "ticket": "The ferns are watered: task_1 is done.",
        "evaluation_criteria": criteria,
    }


def rows(dataset: Tau2) -> dict[str, dict[str, Any]]:
    """The tasks of a dataset's file by their ids."""
    return {row["id"]: row for row in json.loads((dataset._folders.domain / "tasks.json").read_text())}


def gold_run(dataset: Tau2, case_id: str) -> Run:
    """The gold actions, all that has to be told told at the end."""
    reference = dataset.problem(case_id).reference
    return Run(tuple(call for call in reference.calls.values() if call), reference.answer or "")


def mutated(run: Run, dataset: Tau2, rng: random.Random) -> Run:
    """A run with up to three changes: calls left out, made twice, exchanged, with other values, or of other tools."""
    calls, answer = list(run.calls), run.answer
    for _ in range(rng.randint(0, 3)):
        place = rng.randrange(len(calls)) if calls else 0
        match rng.choice(("drop", "twice", "swap", "value", "other", "answer", "extra")):
            case "drop" if calls:
                del calls[place]
            case "twice" if calls:
                calls.insert(rng.randint(0, len(calls)), calls[place])
            case "swap" if len(calls) > 1:
                other = rng.randrange(len(calls))
                calls[place], calls[other] = calls[other], calls[place]
            case "value" if calls and calls[place].arguments:
                calls[place] = _other_value(calls[place], rng)
            case "answer":
                answer = rng.choice((*_WORDS, answer.upper(), f"It is {answer}."))
            case "extra" | "other":
                calls.insert(rng.randint(0, len(calls)), _any_call(dataset, calls, rng))
    return Run(tuple(calls), answer)


def _other_value(call: ToolCall, rng: random.Random) -> ToolCall:
    name = rng.choice(list(call.arguments))
    value = call.arguments[name]
    others: list[Json] = [None, "", "no_such_thing", 0, [], [value], {"x": value}, f"{value} ", True]
    changed = {**call.arguments, name: rng.choice(others)}
    if rng.random() < 0.2:
        del changed[name]
    return ToolCall(call.tool, changed)


def _any_call(dataset: Tau2, calls: Sequence[ToolCall], rng: random.Random) -> ToolCall:
    """A call of some tool, with values of other calls where the names are the same."""
    spec = rng.choice([*dataset.tools.values()])
    known = {name: value for call in calls for name, value in call.arguments.items()}
    given = {one.name: known.get(one.name, rng.choice(one.values) if one.values else "x") for one in spec.parameters}
    return ToolCall(rng.choice((spec.name, spec.name, spec.name, "no_such_tool")), given)


def package_parts(dataset: Tau2, row: Mapping[str, Any], run: Run) -> dict[str, float]:
    """The parts of the reward by the package's own environment and evaluators."""
    from tau2.data_model.message import AssistantMessage, ToolMessage
    from tau2.data_model.message import ToolCall as PackageCall
    from tau2.data_model.tasks import Task
    from tau2.evaluator.evaluator_action import ActionEvaluator
    from tau2.evaluator.evaluator_communicate import CommunicateEvaluator
    from tau2.evaluator.evaluator_env import EnvironmentEvaluator

    task = Task.model_validate(row)
    solo = dataset.domain in ("telecom", "mock")
    environment = package_environment(dataset, solo)
    initial = task.initial_state
    environment.set_state(initial and initial.initialization_data, initial and initial.initialization_actions, [])
    messages: list[Any] = []
    for place, call in enumerate(run.calls):
        asked = PackageCall(id=str(place), name=call.tool, arguments=dict(call.arguments))
        told: ToolMessage = environment.get_response(asked)
        messages += [AssistantMessage(role="assistant", tool_calls=[asked]), told]
    if run.answer:
        messages.append(AssistantMessage(role="assistant", content=run.answer))
    evaluated = EnvironmentEvaluator.calculate_reward(
        lambda solo_mode=False: package_environment(dataset, solo_mode), task, messages, solo
    )
    found: dict[Any, float] = dict(evaluated.reward_breakdown or {})
    found |= ActionEvaluator.calculate_reward(task, messages).reward_breakdown or {"ACTION": 1.0}
    found |= CommunicateEvaluator.calculate_reward(task, messages).reward_breakdown or {"COMMUNICATE": 1.0}
    return {getattr(basis, "value", basis): value for basis, value in found.items()}


def package_environment(dataset: Tau2, solo: bool) -> Any:
    """The package's environment of a domain, on databases of its own read from the dataset's files."""
    from tau2.environment.environment import Environment

    domain, where = dataset._domain, dataset._folders.domain
    tools = domain.tools(domain.db.load(str(where / f"db.{'toml' if domain.user_db else 'json'}")))
    user_tools = domain.user_tools(domain.user_db.load(str(where / "user_db.toml"))) if domain.user_db else None
    made = (domain.environment or Environment)(domain.name, "", tools, user_tools)
    made.set_solo_mode(solo)
    return made


def dataset_at(path: Path | str, domain: DomainName) -> Tau2:
    """A domain without a model as its user."""
    return Tau2(path=str(path), domain=domain, user="instructions")


def airline_files(root: Path) -> Path:
    """A folder with the domain `airline`: one customer with one reservation, who wants it cancelled."""
    where, users = root / "domains" / "airline", root / "user_simulator"
    where.mkdir(parents=True)
    users.mkdir()
    customer = {
        "user_id": "ada_fen_1", "name": {"first_name": "Ada", "last_name": "Fen"}, "email": "ada@mail",
        "dob": "1990-01-01", "address": {"address1": "1 Way", "city": "Hull", "country": "UK", "state": "", "zip": "1"},
        "payment_methods": {}, "saved_passengers": [], "membership": "regular", "reservations": ["AAA111"],
    }  # fmt: skip
    reservation = {
        "reservation_id": "AAA111", "user_id": "ada_fen_1", "origin": "JFK", "destination": "LAX",
        "flight_type": "one_way", "cabin": "economy", "flights": [], "passengers": [], "payment_history": [],
        "created_at": "2024-05-02T03:10:19",
        "total_baggages": 0, "nonfree_baggages": 0, "insurance": "no",
    }  # fmt: skip
    database = {"flights": {}, "users": {"ada_fen_1": customer}, "reservations": {"AAA111": reservation}}
    (where / "db.json").write_text(json.dumps(database))
    (where / "policy.md").write_text("Cancel what the customer wants to have cancelled, once they have said yes.")
    (users / "simulation_guidelines.md").write_text("You play a customer. Say ###STOP### when you have what you want.")
    action = {"action_id": "0", "name": "cancel_reservation", "arguments": {"reservation_id": "AAA111"}}
    told = {"reason_for_call": "Your reservation AAA111 is to be cancelled.", "known_info": "You are Ada Fen."}
    task = {
        "id": "cancel",
        "user_scenario": {"persona": None, "instructions": {"task_instructions": "You are brief.", **told}},
        "evaluation_criteria": {"actions": [action], "reward_basis": ["DB", "COMMUNICATE"], "communicate_info": []},
    }
    (where / "tasks.json").write_text(json.dumps([task]))
    return root


def agree(dataset: Tau2, row: Mapping[str, Any], case_id: str, changed: Run) -> None:
    """Assert that a run is worth what the package says, part by part."""
    world = dataset.problem(case_id).world
    assert isinstance(world, Tau2World)
    talk = world.start()
    for call in changed.calls:
        talk, _ = replace(world, max_errors=1000).call(talk, call)
    mine = {**world.parts(world.ended(talk, changed.answer))}
    mine.pop("NL_ASSERTION", None)
    try:
        theirs = package_parts(dataset, row, changed)
    except ValueError:  # an assertion breaks, and with it their evaluation
        assert mine["ENV_ASSERTION"] == 0.0
        return
    assert mine == {name: theirs.get(name) for name in mine}, (case_id, changed)
