"""Engines that must be told a case's reference, and what is expected of a single pass.

The run layer tells them, cell by cell; planners never see a reference, nor the engine that knows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from grid.core.chains import Verdict
from grid.core.engine import Engine
from grid.core.reference import Reference
from grid.core.types import ToolSpec


class Stage(NamedTuple):
    """One step of a pass, as far as it decides how the pass ends.

    `needed`: the pass fails where this step is not the reference's. `calls`: it takes a tool, which is `offered`.
    `arguments`: its call can have wrong ones. `forgiven`: a misspelt name in them is read as it was meant. `uses`: the
    places of the stages whose outputs its call takes. `others`: how many wrong options it has, to call none among them;
    0 where it has to call one.
    """

    needed: bool
    calls: bool
    offered: bool = True
    arguments: bool = True
    forgiven: bool = False
    uses: tuple[int, ...] = ()
    others: int = 0


class SinglePass(NamedTuple):
    """A pass that decides every stage once.

    `answers`: so many different ones are asked for before what cannot be read is a failure, which ends the pass where
    it is `fatal`. `blind`: all stages but the first are decided without observations. `replans`: a plan is made of all
    stages, and so many times another of those that are left, when a call failed; None: stages are decided one by one.
    `outlined`: the last stage ends the pass; otherwise one more decision does.
    """

    stages: Sequence[Stage]
    answers: int = 1
    fatal: bool = False
    blind: bool = False
    replans: int | None = None
    outlined: bool = True


@runtime_checkable
class Informed(Protocol):
    """What an engine has besides `Engine` that needs a reference."""

    def told(self, reference: Reference, tools: Mapping[str, ToolSpec], seed: int) -> Engine:
        """The engine for one cell. `tools` is the library; `seed` drives what all trials and planners share."""
        ...

    def expected(self, single: SinglePass) -> float:
        """The probability that a single pass succeeds, over all that is drawn."""
        ...


@runtime_checkable
class Knowing(Protocol):
    """What an engine has besides `Engine` that judges plans with a planted accuracy, and so needs to know the truth."""

    def knowing(self, truth: Verdict, seed: int) -> Engine:
        """The engine for the questions about one plan, of which this is true; the same seed says the same."""
        ...
