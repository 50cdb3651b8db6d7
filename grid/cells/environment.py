"""The models that a cell's world uses. They answer on behalf of the environment, and no planner sees them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from grid.core.errors import ModelError
from grid.core.problem import Problem
from grid.core.world import ComparesTexts
from grid.episode.requests import Message, Requests
from grid.robustness.schema_matching import MatchingWorld
from grid.roles.customer import Customer
from grid.roles.evaluation import Evaluation
from grid.roles.grounding import GroundingByModel
from grid.roles.simulation import Simulation
from grid.settings.build import Built
from grid.settings.setting import Cell
from grid.worlds.layers import bare, within
from grid.worlds.simulated import Played, Talking


@dataclass(frozen=True)
class Environment:
    """The models of a cell's world: evaluator, simulator of tools, judge of intended names, and user.

    A model that the setting does not have is None.
    """

    evaluation: Evaluation | None = None
    simulation: Simulation | None = None
    grounding: GroundingByModel | None = None
    customer: Customer | None = None

    @property
    def requests(self) -> Sequence[Requests]:
        """The requests of all these models, and their costs."""
        parts = (self.evaluation, self.simulation, self.grounding, self.customer)
        return [part.requests for part in parts if part]

    @property
    def messages(self) -> list[Message]:
        """All requests and answers of these models, one model after another."""
        return [message for requests in self.requests for message in requests.messages]

    def failures(self) -> dict[str, int | None]:
        """For each column that counts failures of a model to answer, their number; None without such a model."""
        unread: Mapping[str, Any] = {
            "simulator_failures": self.simulation,
            "judge_failures": self.grounding,
            "user_failures": self.customer,
            "evaluator_failures": self.evaluation,
        }
        return {name: part.failures if part else None for name, part in unread.items()}

    async def around(self, built: Built, problem: Problem) -> Problem:
        """The given problem, with a world that uses these models.

        If a model plays the user, its first message becomes the query.

        Raises:
            ModelError: there is no first message.
        """
        world = problem.world
        if (evaluation := self.evaluation) and built.compares_texts:
            world = within(world, lambda inner: cast(ComparesTexts, inner).asking(evaluation.same))
        if simulation := self.simulation:
            world = within(world, lambda inner: cast(Played, inner).played_by(simulation))
        if grounding := self.grounding:
            world = within(world, lambda own: own.judged_by(grounding) if isinstance(own, MatchingWorld) else own)
        if (customer := self.customer) is None:
            return problem if world is problem.world else replace(problem, world=world)
        talking = cast(Talking, bare(world))
        first = await customer.reply(talking.scenario, talking.opening())
        if first is None:
            raise ModelError(
                "the first message of the simulated user could not be read, even after all retries (user.max_retries), "
                "or its prompt does not fit the model's context"
            )
        world = within(world, lambda own: cast(Talking, own).talked_to(customer, first))
        return replace(problem, world=world, case=replace(problem.case, query=first))


NOBODY = Environment()


def environment(built: Built, cell: Cell, sweep_seed: int) -> Environment:
    """The environment that a setting defines for a cell; its requests get the budget's limit on answers."""
    if not built.roles:
        return NOBODY
    found = Environment(
        built.evaluation(cell.case_id, sweep_seed),
        built.simulation(sweep_seed),
        built.grounding(cell.case_id, sweep_seed),
        built.customer(cell.disturbance_seed),
    )
    for requests in found.requests:
        requests.answer_characters = built.budget.answer_characters
    return found
