"""τ²-bench with a model that answers at once: gold actions, run by the package's own runner or a grid episode.

Each side (`here`, `there` or `branched`) runs in its own process, so that its memory can be measured:
`python -m launch.benchmarks.tau2_runs SIDE DOMAIN PATH N`.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any, ClassVar, cast

import psutil
from hydra.utils import instantiate

from grid.core.engine import SAMPLE, Choice, Home, Prompt, Sampled
from grid.core.types import FINISH, ToolCall, Usage, to_json
from grid.datasets.tau2.dataset import Tau2
from grid.datasets.tau2.package import DomainName
from grid.datasets.tau2.world import Tau2World
from grid.episode.episode import Episode, Planner
from grid.episode.progress import Budget
from grid.metrics.stepwise import scored
from launch.benchmarks import peak_bytes
from launch.benchmarks.choose import group_config


@dataclass
class Told:
    """An engine that gives prepared answers, one after another."""

    answers: Iterator[str]
    provides: ClassVar[frozenset[str]] = frozenset({SAMPLE})
    home: ClassVar[Home] = "task"
    name: ClassVar[str] = "told"
    sampler: ClassVar[None] = None
    version: str = field(default="told", init=False)

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """The next answer, `n` times."""
        return Sampled((next(self.answers),) * n, Usage(llm_calls=n))

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """Fail, because no choice should be requested."""
        raise NotImplementedError


def calls_of(dataset: Tau2, case_id: str) -> tuple[list[ToolCall], str | None]:
    """The gold actions, and the answer to the user (None if the case has none)."""
    reference = dataset.problem(case_id).reference
    return [call for call in reference.calls.values() if call], reference.answer


def here(dataset: Tau2, case_ids: Sequence[str]) -> float:
    """Solve the cases with `planner=direct`, with prompts, budget and metrics; returns the sum of the rewards."""
    planner = cast(Planner, instantiate(group_config("planner", "direct") | {"max_calls": 100}))
    total = 0.0
    for case_id in case_ids:
        problem = dataset.problem(case_id)
        calls, answer = calls_of(dataset, case_id)
        ended = ToolCall(FINISH, {"answer": answer} if answer else {})
        written = (
            to_json({"action": {"tool": call.tool, "arguments": dict(call.arguments)}}) for call in (*calls, ended)
        )
        episode = Episode(problem.case, problem.world, Told(iter(written)), problem.candidates, Budget(), seed=0)
        found = asyncio.run(planner.solve(episode))
        total += scored(problem, found, problem.world.resolved(found.end)).get("reward") or 0.0
    return total


def there(dataset: Tau2, case_ids: Sequence[str]) -> float:
    """Solve the cases with the package's orchestrator, agent, environment and evaluators; returns the rewards' sum."""
    from tau2.agent.llm_agent import LLMAgent, LLMSoloAgent
    from tau2.data_model.message import AssistantMessage, UserMessage
    from tau2.data_model.message import ToolCall as PackageCall
    from tau2.data_model.tasks import Task
    from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation
    from tau2.orchestrator.orchestrator import Orchestrator
    from tau2.registry import registry
    from tau2.user.user_simulator import DummyUser, UserSimulator

    stop = "###STOP###"

    class Instant:
        """An agent with prepared answers."""

        todo: Iterator[Any]

        def generate_next_message(self, message: Any, state: Any) -> tuple[Any, Any]:
            told = next(self.todo)
            if isinstance(told, PackageCall):
                return AssistantMessage(role="assistant", tool_calls=[told]), state
            return AssistantMessage(role="assistant", content=told), state

        def is_stop(self, message: Any) -> bool:
            return bool(message.content) and stop in message.content

    solo_agent: Any = type("SoloAgent", (Instant, LLMSoloAgent), {})
    agent: Any = type("Agent", (Instant, LLMAgent), {})

    class Asking(UserSimulator):  # type: ignore[misc]
        """A user that sends the same message each time."""

        def generate_next_message(self, message: Any, state: Any) -> tuple[Any, Any]:
            return UserMessage(role="user", content="Please do it."), state

    solo = dataset.domain not in ("airline", "retail")
    rows = {row["id"]: row for row in json.loads((dataset._folders.domain / "tasks.json").read_text())}
    total = 0.0
    for case_id in case_ids:
        task = Task.model_validate(rows[case_id.removeprefix(f"tau2-{dataset.domain}-")])
        calls, answer = calls_of(dataset, case_id)
        named = [PackageCall(id=str(n), name=call.tool, arguments=dict(call.arguments)) for n, call in enumerate(calls)]
        environment = registry.get_env_constructor(dataset.domain)(solo_mode=solo)
        tools, policy = environment.get_tools(), environment.get_policy()
        if solo:
            tools = [*tools, *(environment.get_user_tools() if environment.user_tools else [])]
            acting, user = solo_agent(tools=tools, domain_policy=policy, task=task), DummyUser()
        else:
            acting, user = agent(tools=tools, domain_policy=policy), Asking(instructions="", llm=None)
        acting.todo = iter([*named, f"{answer or ''} {stop}"])
        done = Orchestrator(dataset.domain, acting, user, environment, task, 200, solo_mode=solo).run()
        kind = EvaluationType.ENV if "NL_ASSERTION" in str(task.evaluation_criteria) else EvaluationType.ALL
        total += evaluate_simulation(done, task, kind, solo, dataset.domain).reward
    return total


def branched(dataset: Tau2, states: int) -> dict[str, float]:
    """Make `states` different states of an airline case; returns the memory of the states and of the process, in MiB.

    Each state is one change away from an earlier state.
    """
    world = max(_worlds(dataset), key=lambda one: len(one.task.actions))
    rng, kept, database = random.Random(0), [world.start()], cast(Any, world.begun.agent.base)
    booked, known, before = list(database.reservations), set(kept), _now()
    while len(kept) <= states:
        reservation = rng.choice(booked)
        call = ToolCall("cancel_reservation", {"reservation_id": reservation})
        if rng.random() < 0.5:
            gift = {"user_id": database.reservations[reservation].user_id, "amount": rng.randint(10, 500)}
            call = ToolCall("send_certificate", gift)
        state, _ = world.call(kept[rng.randrange(len(kept))], call)
        if state not in known:
            known.add(state)
            kept.append(state)
    return {"states": states, "more_mib": _now() - before, "process_mib": peak_bytes() / 2**20}


def _worlds(dataset: Tau2) -> list[Tau2World]:
    return [cast(Tau2World, dataset.problem(case_id).world) for case_id in dataset.case_ids()]


def _now() -> float:
    return float(psutil.Process().memory_info().rss) / 2**20


def main(side: str, domain: str, path: str, count: str) -> None:
    """Print the measurements of one side, as JSON."""
    dataset = Tau2(path=path, domain=cast(DomainName, domain), user="instructions")
    if side == "branched":
        print(json.dumps(branched(dataset, int(count))))
        return
    case_ids = list(islice(cycle(dataset.case_ids()), int(count)))
    runs = {"here": here, "there": there}[side]
    began, cpu = time.perf_counter(), time.process_time()
    rewards = runs(dataset, case_ids)
    found = {"episodes": len(case_ids), "seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
    print(json.dumps(found | {"rewards": rewards, "process_mib": peak_bytes() / 2**20}))


if __name__ == "__main__":
    main(*sys.argv[1:])
