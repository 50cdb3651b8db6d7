"""What a stage wants of one answer: its prompt, its schema, and the rules that read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from grid.core.engine import Prompt, SchemaAnswer, Section
from grid.core.errors import one_line
from grid.core.types import Json, to_json
from grid.core.untrusted import shown
from grid.synthesis.slate.journal import Broken
from grid.text.answers import only_one
from grid.text.objects import UnreadableError

T = TypeVar("T")
NO_JSON, CHARACTERS, FORM = "JSON", "characters", "form"
_SHOWN = 20  # rules that a repair names at most


@dataclass(frozen=True)
class Checked(Generic[T]):
    """What an answer holds that breaks no rule, and the rules that the rest of it breaks."""

    kept: tuple[T, ...]
    broken: tuple[Broken, ...]


@dataclass(frozen=True)
class Item(Generic[T]):
    """One answer that a stage wants.

    Args:
        key: its name within the stage.
        sections: the prompt, up to what is wanted of this item.
        form: the lines that say of which form the answer is.
        schema: the JSON schema of the same.
        check: what an answer of that form holds; raises ValidationError for one of another form.
        wanted: how many products one answer holds.
    """

    key: str
    sections: tuple[Section, ...]
    form: tuple[str, ...]
    schema: Mapping[str, Any]
    check: Callable[[Mapping[str, Json]], Checked[T]]
    wanted: int = 1


def prompt_of(item: Item[Any], broken: Sequence[Broken] = (), draft: str | None = None) -> Prompt:
    """An item's prompt; behind an answer that was refused, with the rules that it broke, and with it as a draft."""
    sections = [*item.sections]
    if draft is not None:
        sections.append(Section("draft", ("Your last answer was:", draft or "(nothing)")))
    if broken:
        rules = [f"- {one.text}" for one in broken[:_SHOWN]]
        sections.append(Section("errors", ("Your last answer was refused, because of these rules:", *rules)))
        sections.append(Section("retry", ("Write the whole answer again, so that it keeps all rules.",)))
    sections.append(Section("instruction", item.form))
    return Prompt(tuple(sections), SchemaAnswer(to_json(item.schema)))


def read(item: Item[T], text: str) -> Checked[T]:
    """What an answer holds."""
    try:
        answer = only_one(text, lambda value: value if isinstance(value, dict) else None, "it holds no JSON object")
    except UnreadableError as error:
        return Checked((), (Broken(gate=NO_JSON, text=f"The answer is one JSON object: {one_line(error, 200)}."),))
    flat = {name: _flat(value) for name, value in answer.items()}
    if any(shown(text) != text for text in _texts(flat)):
        return Checked((), (Broken(gate=CHARACTERS, text="Texts have no characters that cannot be seen."),))
    try:
        return item.check(flat)
    except ValidationError as error:
        return Checked((), tuple(Broken(gate=FORM, text=_told(one)) for one in error.errors()[:_SHOWN]))


def _flat(value: Json) -> Json:
    """A value with every text on one line."""
    if isinstance(value, list):
        return [_flat(item) for item in value]
    if isinstance(value, dict):
        return {name: _flat(item) for name, item in value.items()}
    return " ".join(value.split()) if isinstance(value, str) else value


def _texts(value: Json) -> Iterator[str]:
    """Every text in a value, names too."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


def _told(error: Any) -> str:
    place = ".".join(str(part) for part in error["loc"])
    return one_line(f"The answer has the form that is asked for: {place or 'the object'}: {error['msg']}.", 200)
