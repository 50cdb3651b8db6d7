"""Solved cases of a dataset's other half: what a search that goes by earlier plans has to go by (ToolChain*).

For datasets without demonstrations of their own. A case meets cases of the other half of the dataset alone, so that it
is never answered with itself, and of those none of its own cluster, which has its plan with other names in it. The
halves are those of the whole dataset, whatever a sweep's limit or order: these change no result.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

from grid.core.problem import DEMONSTRATIONS, REFERENCES, Dataset
from grid.core.types import Case, Demonstration
from grid.datasets.nearest import Nearest, question_words
from grid.datasets.sampling import part_of
from grid.planners.memory import OTHER_HALF
from grid.retrievers.texts import bm25_texts
from grid.settings.pooled import KEPT, dataset_of, key_of
from grid.settings.setting import WHICH_CASES

_MOST = 1_000
"""Cases of a dataset, the first in its order, that are solved ones: all have to be built in every process."""


class Solved:
    """The solved cases of a whole dataset."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def nearest(self, case: Case, cluster: str, count: int) -> tuple[Demonstration, ...]:
        """The `count` solved cases of the other half that are asked for most like a case, the nearest first.

        Their calls are the references'. There are fewer where the half has fewer, and none where cases say nothing of
        what resolves them, or the dataset has demonstrations of its own.
        """
        if not count or not self._plans:
            return ()
        return self._nearest(case.query, count, {self._half(case.id), _cluster(cluster)})

    @cached_property
    def _plans(self) -> dict[str, Demonstration]:
        """By case id, of each query the first case; of the dataset's first 1,000 cases."""
        if REFERENCES not in self._dataset.provides or DEMONSTRATIONS in self._dataset.provides:
            return {}
        found: dict[str, Demonstration] = {}
        asked = set[str]()
        for case_id in self._dataset.case_ids()[:_MOST]:
            problem = self._dataset.problem(case_id)
            calls = {place: call for place, call in problem.reference.calls.items() if call}
            if calls and problem.case.query not in asked:
                asked.add(problem.case.query)
                found[case_id] = Demonstration(problem.case.query, calls, problem.reference.answer or "")
        return found

    @cached_property
    def _nearest(self) -> Nearest[Demonstration]:
        plans = list(self._plans.values())
        texts = [plan.question for plan in plans]
        kept_apart = [{self._half(one), _cluster(self._dataset.cluster(one))} for one in self._plans]
        return Nearest(texts, plans.__getitem__, bm25_texts(lambda: texts, question_words), kept_apart)

    def _half(self, case_id: str) -> str:
        return "half test" if case_id in self._of_test else "half validation"

    @cached_property
    def _of_test(self) -> frozenset[str]:
        return frozenset(part_of(self._dataset.case_ids(), "test"))


def solved_of(dataset: Mapping[str, Any]) -> Solved:
    """Of a dataset's config, all of whose cases count, in the dataset's own order. Raises as `dataset_of`."""
    return _solved(key_of({key: value for key, value in dataset.items() if key not in WHICH_CASES}))


def goes_by_solved(config: Mapping[str, Any]) -> bool:
    """Whether a setting's planner asks for solved cases of the dataset's other half."""
    return bool(config["planner"].get("solved") == OTHER_HALF)


@lru_cache(maxsize=KEPT)
def _solved(key: str) -> Solved:
    return Solved(dataset_of(key))


def _cluster(name: str) -> str:
    return f"cluster {name}"
