"""Programs as trees while questions are made: a tree compares by what it computes, and flattens to a program."""

from __future__ import annotations

from dataclasses import dataclass

from grid.datasets.kqa.program import Program, ProgramStep, merged


@dataclass(frozen=True)
class Tree:
    """A step over the trees whose outputs it takes."""

    function: str
    inputs: tuple[str, ...]
    sources: tuple[Tree, ...]

    def then(self, function: str, *inputs: str) -> Tree:
        """A step that takes this tree's output."""
        return Tree(function, inputs, (self,))

    def program(self) -> Program:
        """The steps in KQA Pro's order: every step after what it takes, the tree's own step last."""
        steps: list[ProgramStep] = []
        self._append(steps)
        return tuple(steps)

    def dag(self) -> Program:
        """The steps with identical ones merged."""
        return merged(self.program())

    def _append(self, steps: list[ProgramStep]) -> int:
        places = tuple(source._append(steps) for source in self.sources)
        steps.append(ProgramStep(self.function, self.inputs, places))
        return len(steps) - 1


def find(name: str) -> Tree:
    """The entity of a name."""
    return Tree("Find", (name,), ())


def find_all() -> Tree:
    """All entities."""
    return Tree("FindAll", (), ())


def joined(function: str, trees: list[Tree], *inputs: str) -> Tree:
    """One tree of several by a function of two, halves first: the flattest there is."""
    if len(trees) == 1:
        return trees[0]
    half = (len(trees) + 1) // 2
    return Tree(function, inputs, (joined(function, trees[:half], *inputs), joined(function, trees[half:], *inputs)))
