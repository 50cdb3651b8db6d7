"""What engines are asked before a sweep: a call, and a plain choice, of which a share may go to no option at all."""

from __future__ import annotations

from grid.engines.base import CHOOSE, ChoiceAnswer, Engine, Prompt, Section, ToolCallAnswer
from grid.errors import ContextError, ModelError
from grid.types import Parameter, ToolSpec

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


async def unassigned(engine: Engine) -> float | None:
    """The probability that a loaded engine gives to no option of a plain question; None where it cannot be asked."""
    if CHOOSE not in engine.provides:
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
        f"warning: {label} puts {share:.2f} of its probability on none of ten numbered options of a plain question: it "
        f"does not begin answers with a number, and choices (`unassigned` in the tables) rest on the little that is "
        f"left. See conf/model/{name}.yaml: chat_template_kwargs turns thinking off ({{enable_thinking: false}}; over "
        "HTTP extra.chat_template_kwargs), answer_prefix goes in front of an answer (a channel, an empty thought)"
    )
