"""Plans of m&m's that went wrong in every way that its scorer may notice, made from right ones by a seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from grid.core.types import ToolCall
from grid.datasets.mnms_records import TOOLS, Calls, read_plan
from tests.support.mnms_files import REQUESTS

VALUES: tuple[Any, ...] = (
    "Dog", "dog", "DOG ", 'the "Dog"', "the dog's", "'dog'", 'a "dog\'s"', "", " ", "ΑΣ", "ÄÖ", "äö", "🐕",
    "a\\tb", "a\tb", "a\\\\b", "ends in \\", 'ends in \\"', "two\nlines", "two\\nlines", "\\x41", "\\N{DOG}", "\\u12",
    "a\x00b", "{x}", "{}", "{{x}}", "{", "x = y", '"); output9 = count(objects="', "#", "%s",
    1066, "1066", 1066.0, "1066.0", -3, True, "True", "true", None, "None", [], ["dog"], "['dog']", ["a \"b\""],
    {"label": "dog"}, {"a": [1, {"b": None}]}, 10**40,
    "<node-0>.text", "<node-0>.image", "<node-1>.text", "<node-0>", "<node-x>.text", "<node->.text", "<node-0.text",
    "of <node-0>.text", "OF <node-0>.text", "of <node-0>.TEXT", "of <node-1>.text.", "<node-0>.text <node-1>.text",
    "<node-0>.text,<node-1>.text", "<node-0>.text's", "of <node-0>.text's end", 'of "<node-0>.text"', "of <node-0>",
    "of <node-x>.text", "of <node-0>.text {}", "of <node-0>.text {0}", "of <node-0>.text {{x}}", "of <node-0>.text {x}",
    "of <node-0>.text {1}", "of <node-0>.text {{", "of <node-0>.text }", "{0} of <node-0>.text", "of <node-0>.text \\",
    "of <node-0>.text\nand more", "of <node-0>.text \\{{x}}", "of <node-00>.text", "<node-00>.text", "<node-+1>.text",
    "of <node-0>.text {{'x'}}", 'of <node-0>.text {{"x"}}', "of <node-0>.text {{x!r}}", "of <node-0>.text {{x:>4}}",
)  # fmt: skip
"""Values that somebody might write for an argument. The scorer says which are equal, and which it can read."""
NAMES = (
    *TOOLS,
    "text_generation",
    "Text Generation",
    "describe image",
    "image.captioning",
    "image-captioning",
    "class",
    "",
)


class Pair(NamedTuple):
    """The plans of a request, the reference first, and the plan that was made."""

    golds: list[Calls]
    made: Calls


def golds() -> list[list[Calls]]:
    """The plans of the small files."""
    return [[read_plan(nodes), *map(read_plan, others)] for _, nodes, others in REQUESTS]


def pairs(count: int, seed: int) -> list[Pair]:
    """So many plans with one to three things changed; references hold all kinds of values too."""
    rng, found = random.Random(seed), list[Pair]()
    while len(found) < count:
        plans = rng.choice(golds())
        if rng.random() < 0.4:
            plans = [_revalued(plans[0], rng, rng.choice(VALUES)), *plans[1:]]
        made = list(rng.choice(plans))
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            made = rng.choice(_WAYS)(made, rng)
        found.append(Pair(plans, tuple(made)))
    return found


def _revalued(plan: Sequence[ToolCall], rng: random.Random, value: Any) -> Calls:
    """Another value for one argument."""
    if not plan:
        return ()
    place = rng.randrange(len(plan))
    call = plan[place]
    if not call.arguments:
        return tuple(plan)
    name = rng.choice(sorted(call.arguments))
    return (*plan[:place], ToolCall(call.tool, {**call.arguments, name: value}), *plan[place + 1 :])


def _value(made: list[ToolCall], rng: random.Random) -> list[ToolCall]:
    return list(_revalued(made, rng, rng.choice(VALUES)))


def _other_case(made: list[ToolCall], rng: random.Random) -> list[ToolCall]:
    return [
        ToolCall(call.tool, {name: value.swapcase() if isinstance(value, str) and "<" not in value else value
                             for name, value in call.arguments.items()})
        for call in made
    ]  # fmt: skip


def _other_tool(made: list[ToolCall], rng: random.Random) -> list[ToolCall]:
    place = rng.randrange(len(made) + 1)
    return [ToolCall(rng.choice(NAMES), call.arguments) if own == place else call for own, call in enumerate(made)]


def _dropped(made: list[ToolCall], rng: random.Random) -> list[ToolCall]:
    place = rng.randrange(len(made) + 1)
    return [call for own, call in enumerate(made) if own != place]


def _again(made: list[ToolCall], rng: random.Random) -> list[ToolCall]:
    return [*made, rng.choice(made)] if made else made


def _added(made: list[ToolCall], rng: random.Random) -> list[ToolCall]:
    name = rng.choice(NAMES)
    place = rng.randrange(len(made) + 1)
    return [*made[:place], ToolCall(name, {"text": rng.choice(VALUES)}), *made[place:]]


def _shuffled(made: list[ToolCall], rng: random.Random) -> list[ToolCall]:
    return rng.sample(made, len(made))


def _reordered(made: list[ToolCall], rng: random.Random) -> list[ToolCall]:
    return [ToolCall(call.tool, dict(list(call.arguments.items())[::-1])) for call in made]


def _renamed(made: list[ToolCall], rng: random.Random) -> list[ToolCall]:
    wrong = rng.choice(("Text", "img", "the text", "class", "1", "text2", "**k", ""))
    return [ToolCall(call.tool, dict.fromkeys([wrong], next(iter(call.arguments.values()), 1))) for call in made]


def _less(made: list[ToolCall], rng: random.Random) -> list[ToolCall]:
    return [ToolCall(call.tool, dict(list(call.arguments.items())[1:])) for call in made]


def _nothing(made: list[ToolCall], rng: random.Random) -> list[ToolCall]:
    return []


_WAYS = (
    _value, _value, _value, _other_case, _other_tool, _other_tool, _dropped, _again, _added, _shuffled, _reordered,
    _renamed, _less, _nothing,
)  # fmt: skip
