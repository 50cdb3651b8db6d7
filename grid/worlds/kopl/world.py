"""KoPL's functions as the tools of one case (planning_horizon §4.1, appendix B.1.1)."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from grid.types import RESULT, Observation, ToolCall, ToolSpec
from grid.worlds.kopl.base import KnowledgeBase
from grid.worlds.kopl.errors import KoplError
from grid.worlds.kopl.functions import FUNCTIONS, TOOLS, Function, sort_of
from grid.worlds.kopl.results import Result, is_empty, same_answer, texts, told
from grid.worlds.kopl.values import shown
from grid.worlds.schema import ERROR, Vocabulary

_HANDLE = re.compile(r"\$(0|[1-9][0-9]{0,5})")
_BETWEEN = "; "  # values of an answer


@dataclass
class KoplEnvironment:
    """A case's tools over a knowledge base, whose state is the results so far.

    A successful call gives {"result": "$n", "value": ...}: n counts results from 0, and `$n` stands for that result in
    later calls; `value` is its text, or how many there are and the first ten. A call that returns nothing valid (an
    unknown identifier, an empty set, arguments that do not fit) has failed: {"error": why}, and leaves no result.

    Attributes:
        kb: the knowledge base, which is never changed.
        reference: the values of the case's answer, as the dataset states them.
        results: what successful calls returned, in their order.
    """

    kb: KnowledgeBase
    reference: tuple[str, ...]
    results: tuple[Result, ...] = ()

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The 27 functions."""
        return tuple(TOOLS.values())

    def execute(self, call: ToolCall) -> Observation:
        """Run one call; whatever is wrong with it is the observation's `error`."""
        try:
            result = self._result(call)
        except KoplError as error:
            return Observation({ERROR: f"{error}."})
        self.results = (*self.results, result)
        return Observation({RESULT: f"${len(self.results) - 1}", "value": told(self.kb, result)})

    def identifiers(self, tool: str) -> Mapping[str, Vocabulary]:
        """Of a function's parameters those that take a name of the schema, and for `Find` an entity's name."""
        function = FUNCTIONS.get(tool)
        if function is None:
            return {}
        return {name: self.kb.vocabularies[kind] for name, kind in function.vocabularies().items()}

    def snapshot(self) -> Hashable:
        """The results so far."""
        return self.results

    def restore(self, mark: Hashable) -> None:
        """Return to a snapshot."""
        if not isinstance(mark, tuple):
            raise TypeError(f"a snapshot of this environment is a tuple, not {type(mark).__name__}")
        self.results = mark

    def answer(self) -> str | None:
        """The latest result as a text, its values parted by `; `; None without one or where it is an entity set."""
        found = texts(self.results[-1]) if self.results else None
        return None if found is None else _BETWEEN.join(dict.fromkeys(found))

    def resolved(self) -> bool:
        """Whether the latest result has the values of the reference answer, compared as a set (see `same_answer`)."""
        found = texts(self.results[-1]) if self.results else None
        return found is not None and same_answer(found, self.reference)

    def _result(self, call: ToolCall) -> Result:
        function = FUNCTIONS.get(call.tool)
        if function is None:
            raise KoplError(f"there is no tool {shown(call.tool)}")
        arguments = _arguments(function, call)
        given = [self._given(function, name, arguments[name]) for name in function.results]
        words = {name: arguments[name] for name in function.texts}
        for name, vocabulary in self.identifiers(call.tool).items():
            if words[name] not in vocabulary:
                raise KoplError(f"there is no {vocabulary.noun} {shown(words[name])}")
        result = function.run(self.kb, *given, *words.values())
        if is_empty(result):
            raise KoplError(function.nothing.format_map({name: shown(text) for name, text in words.items()}))
        return result

    def _given(self, function: Function, name: str, handle: str) -> Result:
        found = _HANDLE.fullmatch(handle)
        if found is None or int(found[1]) >= len(self.results):
            known = f"$0 to ${len(self.results) - 1}" if self.results else "none so far"
            raise KoplError(f"{name}: {shown(handle)} is no earlier result (there are {known})")
        result = self.results[int(found[1])]
        if sort_of(result) != function.sort(name):
            raise KoplError(f"{name}: {handle} holds {sort_of(result)}, not {function.sort(name)}")
        return result


def _arguments(function: Function, call: ToolCall) -> dict[str, str]:
    """The arguments as texts; raises KoplError where one is missing, too many, or no text."""
    wanted = (*function.results, *function.texts)
    missing = [name for name in wanted if name not in call.arguments]
    extra = [name for name in call.arguments if name not in wanted]
    if missing or extra:
        wrong = f"lacks {', '.join(missing)}" if missing else f"has no parameter {shown(extra[0])}"
        raise KoplError(f"the call of {function.name} {wrong}; its parameters are {', '.join(wanted) or 'none'}")
    found = {}
    for name in wanted:
        value = call.arguments[name]
        if not isinstance(value, str):
            raise KoplError(f"{name}: a text is expected, not {type(value).__name__}")
        found[name] = value
    return found
