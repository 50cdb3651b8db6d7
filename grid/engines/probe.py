"""What engines are asked before a sweep: a call, and a plain choice, of which a share may go to no option at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from grid.core.engine import CHOOSE, ChoiceAnswer, Engine, Prompt, ScoreAnswer, Section, TextAnswer, ToolCallAnswer
from grid.core.errors import ContextError, ModelError
from grid.core.roles import ACTOR, EVALUATOR, JUDGE, Role
from grid.core.types import Parameter, ToolSpec

MUCH = 0.5
"""From here on the model does not begin its answers with a number, and what it would choose is not known."""
_FRUIT = (
    "a horse",
    "a hammer",
    "an apple",
    "a river",
    "a window",
    "a shoe",
    "a cloud",
    "a train",
    "a letter",
    "a drum",
    "a stone",
    "a lamp",
)
CLOCK = ToolSpec("get_time", "The time in a city.", (Parameter("city", "string", "The city's name."),))
CALL_PROBE = Prompt((Section("request", ("What time is it in Paris?",)),), ToolCallAnswer((CLOCK,), may_decline=True))
CHOICE_PROBE = Prompt(
    (
        Section("role", ("You answer questions.",)),
        Section("tools", ("Options:",), _FRUIT),
        Section("request", ("Which of the options is a fruit?",)),
        Section("instruction", ("Answer with the number of one option, and nothing else.",)),
    ),
    ChoiceAnswer(_FRUIT),
)
_SCORE = Section("instruction", ('Answer with one JSON object: {"score": 0 to 10, "explanation": why}.',))
_SCORE_PROBE = Prompt((Section("request", ("Judge how well a hammer drives a nail.",)), _SCORE), ScoreAnswer())
_TEXT_PROBE = Prompt((Section("request", ("What is the colour of the sky? Answer with one word.",)),), TextAnswer())


class Probe(NamedTuple):
    """A request as a role will make them: its kind of answer, at its temperature."""

    role: Role
    temperature: float

    @property
    def prompt(self) -> Prompt:
        """What is asked: for a call, for a score, or for words."""
        return {ACTOR: CALL_PROBE, JUDGE: _SCORE_PROBE, EVALUATOR: _SCORE_PROBE}.get(self.role, _TEXT_PROBE)

    @property
    def told(self) -> str:
        """How an error tells of it."""
        own = "its planner's temperature" if self.role == ACTOR else f"{self.role}.temperature"
        whose = "" if self.role == ACTOR else f"; where model@{self.role} is set the key is {self.role}.omit"
        return f"the {self.role} is asked at temperature {self.temperature:g} ({own}{whose})"


@runtime_checkable
class Probed(Protocol):
    """An engine whose server may refuse what it is asked, so that it is asked before."""

    async def probe(self, probes: Sequence[Probe]) -> None:
        """Ask as will be asked; raises ConfigError for what is refused."""
        ...


async def unassigned(engine: Engine) -> float | None:
    """The probability that a loaded engine gives to no option of a plain question; None where that tells nothing.

    It does not of algorithm 3 as printed: however a model begins its answers, one-digit numbers have none there.
    """
    if CHOOSE not in engine.provides or getattr(engine, "printed_form", False):
        return None
    try:
        return (await engine.choose(CHOICE_PROBE, seed=0)).unassigned
    except ModelError:
        return 1.0  # not one option has any
    except ContextError:
        return None


def warning(label: str, share: float | None) -> str | None:
    """What to tell the user of a model of that label; None where all is well."""
    if share is None or share <= MUCH:
        return None
    name = label.partition("[")[0]
    return (
        f"warning: {label} puts {share:.2f} of its probability on none of twelve numbered options of a plain question: "
        f"it does not begin answers with a number, and choices (`unassigned` in the tables) rest on the little that is "
        f"left. See conf/model/{name}.yaml: chat_template_kwargs turns thinking off ({{enable_thinking: false}}; over "
        "HTTP extra.chat_template_kwargs), answer_prefix goes in front of an answer (a channel, an empty thought)"
    )
