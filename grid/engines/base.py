"""What an engine is asked and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from grid.types import ToolSpec, Usage

SectionKind = Literal["role", "task", "demonstrations", "history", "tools", "request", "instruction"]
SAMPLE, CHOOSE = "sample", "choose"


@dataclass(frozen=True)
class Section:
    """One part of a prompt; `entries` are its lines or blocks, in order."""

    kind: SectionKind
    entries: tuple[str, ...]


@dataclass(frozen=True)
class TextAnswer:
    """Free text is wanted."""


@dataclass(frozen=True)
class ToolCallAnswer:
    """A JSON object `{"tool", "arguments"}` is wanted, with one of `tools`, or with no tool where `may_decline`."""

    tools: tuple[ToolSpec, ...]
    may_decline: bool


@dataclass(frozen=True)
class ChoiceAnswer:
    """The number of one of `options` is wanted; option k is the text numbered k (from 0)."""

    options: tuple[str, ...]


@dataclass(frozen=True)
class Prompt:
    """Sections in the order in which they are rendered (static ones first, so that prefixes are shared)."""

    sections: tuple[Section, ...]
    answer: TextAnswer | ToolCallAnswer | ChoiceAnswer

    def text(self) -> str:
        """The prompt as plain text, sections apart by a blank line."""
        return "\n\n".join("\n".join(section.entries) for section in self.sections)

    def entries(self, kind: SectionKind) -> tuple[str, ...]:
        """All entries of one kind of section."""
        return tuple(entry for section in self.sections if section.kind == kind for entry in section.entries)


@dataclass(frozen=True)
class Sampled:
    """Completions, and what they cost."""

    completions: tuple[str, ...]
    usage: Usage


@dataclass(frozen=True)
class Choice:
    """The probability of each option (sums to 1, in the options' order), and what it cost."""

    probabilities: tuple[float, ...]
    usage: Usage


class Engine(Protocol):
    """Something that answers prompts. Building one checks its values and loads nothing.

    `provides` names the verbs it can do; `version` goes into every row; `in_process` says that it costs next to
    nothing to build and ask, so that a dry run may pilot it.
    """

    provides: ClassVar[frozenset[str]]
    in_process: ClassVar[bool]

    @property
    def version(self) -> str:
        """What must be named to get the same answers again."""
        ...

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        """`n` independent completions; prompt tokens are counted once for each."""
        ...

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        """The exact distribution over the numbered options of a ChoiceAnswer; no sampling temperature."""
        ...


def numbered(options: Sequence[str]) -> tuple[str, ...]:
    """The options as the lines of a tools section, `0. text` on."""
    return tuple(f"{index}. {text}" for index, text in enumerate(options))
