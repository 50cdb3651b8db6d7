"""Questions with gold plans over one set of tools, and the solved questions nearest to each (planning_horizon B.1)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cached_property, lru_cache, partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

from grid.core.errors import ConfigError
from grid.core.problem import BRANCHING, DEMONSTRATIONS, EXAMINED, HIDDEN, REFERENCES, Outline, Problem, Reference
from grid.core.types import Case, Demonstration, Plan, ToolCall, ToolSpec
from grid.core.world import World
from grid.datasets.files import folder
from grid.datasets.grading import FOUND, WITHOUT_AN_ANSWER
from grid.engines.wheels import Hub
from grid.retrievers.scored import Scorer, best, bm25_texts, dense_texts, embedder_of
from grid.retrievers.sources import Wheel, model_folder
from grid.retrievers.sources import fingerprint as model_fingerprint
from grid.worlds.kopl.queries import same_answer

# Demonstrations: the solved questions most similar to a question, by words or by meaning (planning_horizon B.1).


_NAME = re.compile(r"\b[A-Z]\w*")
_WORD = re.compile(r"[a-z]+")
T = TypeVar("T")
HoldOut = Literal["template", "question"]
"""The solved questions that are not shown with a case.

These are either all questions with the case's template, or only the case's own question (planning_horizon B.1).
"""


class Nearest(Generic[T]):
    """An index of solved questions, which finds the questions nearest to a text.

    The questions are in the form in which planners see them.
    """

    def __init__(
        self,
        texts: Sequence[str],
        solved: Callable[[int], T],
        scorer: Scorer,
        templates: Sequence[Set[str]],
        parts: Sequence[Set[str]] | None = None,
    ) -> None:
        """`solved` gives the form in which the question at an index is shown.

        `scorer` scores the similarity of each question to a text. `templates` has each question's templates; a question
        that asks several things has several templates. `parts` has each question's parts, if questions share parts.
        """
        self._texts, self._solved, self._score, self._parts = texts, solved, scorer, parts
        self._of_text, self._of_template = _places([text] for text in texts), _places(templates)
        self._found = lru_cache(maxsize=8192)(self._nearest)

    def __call__(self, text: str, count: int, templates: Set[str]) -> tuple[T, ...]:
        """At most `count` solved questions, starting with the nearest to `text`; ties keep the order of the questions.

        The question itself is left out. Questions that have one of the `templates` are left out too, because they would
        be the same question with different names; the caller gives the question's own templates, or none. The next
        nearest questions replace the questions left out; if too few questions remain, there are fewer demonstrations.
        If questions have parts, questions that share no part with one another come first, because otherwise ten
        questions with a common part would show this part ten times.
        """
        return self._found(text, count, frozenset(templates))

    def _nearest(self, text: str, count: int, templates: frozenset[str]) -> tuple[T, ...]:
        if not self._texts:
            return ()
        own = set(self._of_text.get(text, ())).union(*(self._of_template.get(name, ()) for name in templates))
        wanted = len(self._texts) if self._parts else count + len(own)
        others = (place for place in map(int, best(self._score(text), wanted)) if place not in own)
        found = list(islice(others, count)) if self._parts is None else _apart(others, self._parts, count)
        return tuple(map(self._solved, found))


def _places(keys: Iterable[Iterable[str]]) -> Mapping[str, Sequence[int]]:
    """For each key, the indices of the items that have the key."""
    found: dict[str, list[int]] = {}
    for place, own in enumerate(keys):
        for key in own:
            found.setdefault(key, []).append(place)
    return found


def _apart(ranked: Iterable[int], parts: Sequence[Set[str]], count: int) -> list[int]:
    """At most `count` of the ranked indices.

    Questions that share no part with one another come first, followed by others; both groups keep the ranked order.
    """
    used: set[str] = set()
    apart: list[int] = []
    others: list[int] = []
    for place in ranked:
        if len(apart) == count:
            break
        if used.isdisjoint(parts[place]):
            apart.append(place)
            used |= parts[place]
        elif len(others) < count:
            others.append(place)
    return [*apart, *others[: count - len(apart)]]


def question_words(text: str) -> list[str]:
    """A question's words without its names. Stop words such as 'which' and 'when' are kept.

    Stop words indicate the kind of question; names do not. On `kqa_synthetic`, the nearest question's program ends with
    the same function in 56% of cases, compared to 47% if names are kept and stop words are left out.
    """
    return _WORD.findall(_NAME.sub("", text[:1].lower() + text[1:]))


def sentence_model_folder(
    hub: Hub | None, wheel: Wheel | None, sentence_model: str | None, asked_by: tuple[str, str]
) -> Path:
    """The folder of a dataset's sentence model, according to its keys `hub`, `wheel` and `sentence_model`.

    Raises ConfigError if there is no model, or no package that can load it. `asked_by` has the key that needs a model,
    and this key's value.
    """
    if find_spec("sentence_transformers") is None:
        raise ConfigError(*asked_by, "a package is not installed: pip install 'agent-grid[dense]'")
    if sentence_model is not None:
        return folder("dataset.sentence_model", sentence_model, "config.json")
    if hub is None:
        raise ConfigError("dataset.hub", None, "a model; give dataset.hub or dataset.sentence_model")
    return model_folder(hub, wheel, None, "dataset")


# The base of data sets of questions with gold plans over one set of tools (planning_horizon B.1).


# Baselines that do not read the question but give the most common training answer, overall or by last function.


class Solved(Protocol):
    """A question with its answer as a text, and the last function of its program."""

    @property
    def answer(self) -> str:
        """The answer."""
        ...

    @property
    def last(self) -> str:
        """The function of the last step."""
        ...


class Constants:
    """The most common answers to training questions; among equally common answers, the first in the file.

    There is also a most common answer for each last function. The baseline by last function uses the last function of a
    test question's program, which planners do not know. If no training question has this last function, the baseline
    uses the overall most common answer.
    """

    def __init__(self, trainings: Iterable[Solved]) -> None:
        overall: Counter[str] = Counter()
        by_last: dict[str, Counter[str]] = {}
        for question in trainings:
            overall[question.answer] += 1
            by_last.setdefault(question.last, Counter())[question.answer] += 1
        self._overall = _commonest(overall)
        self._by_last = {last: _commonest(answers) for last, answers in by_last.items()}

    def right(self, question: Solved) -> Mapping[str, bool]:
        """For each baseline's name, whether its constant is the question's answer.

        Empty if there are no training questions.
        """
        if self._overall is None:
            return {}
        told = self._by_last.get(question.last) or self._overall
        answers = {"constant_success": self._overall, "constant_by_function_success": told}
        return {name: same_answer((answer,), (question.answer,)) for name, answer in answers.items()}


def _commonest(answers: Counter[str]) -> str | None:
    return answers.most_common(1)[0][0] if answers else None


class Planned(Solved, Protocol):
    """A question with its gold plan."""

    @property
    def text(self) -> str:
        """The question."""
        ...

    @property
    def calls(self) -> Mapping[str, ToolCall]:
        """The plan by step number, without the finish."""
        ...

    @property
    def told(self) -> str:
        """The answer as a demonstration shows it."""
        ...

    @property
    def right(self) -> str:
        """Every right answer to the question, with its names and any ids, for the grader."""
        ...

    @property
    def template(self) -> str:
        """The question's logical form without entities and values.

        Questions with the same template differ only in entities and values.
        """
        ...


Q = TypeVar("Q", bound=Planned)


class QuestionAnswering(Generic[Q]):
    """A data set of questions, with solved questions as demonstrations. A question's `world` says what resolves it.

    `demonstrations_by` says how the similarity of questions is measured: by their words (bm25), or by the cosine of
    their embeddings from the sentence-transformers model given by `hub`, `wheel` or `sentence_model`.
    `demonstrations_hold_out` says which questions are never shown with a case.
    """

    provides: ClassVar[frozenset[str]] = frozenset({DEMONSTRATIONS, BRANCHING, REFERENCES, EXAMINED})
    notes: ClassVar[tuple[str, ...]] = ()
    demonstrations_by: Literal["bm25", "embeddings"] = "bm25"
    demonstrations_hold_out: HoldOut = "template"
    hub: Hub | None = None
    wheel: Wheel | None = None
    sentence_model: str | None = None
    outline: Outline = "hidden"

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        """All tools, which are the same for every question."""
        raise NotImplementedError

    @property
    def questions(self) -> Mapping[str, Q]:
        """The cases' questions by id."""
        raise NotImplementedError

    @property
    def trainings(self) -> Sequence[Q]:
        """The questions that are shown with their solutions."""
        raise NotImplementedError

    def world(self, question: Q, answered: bool) -> World:
        """The world with the tools for one question. If `answered`, a finish gives the answer."""
        raise NotImplementedError

    def problem(self, case_id: str) -> Problem:
        """One question with its tools. The reference is the gold plan, whose last step resolves the question."""
        question, tools = self.questions[case_id], self.tools
        answered = self.outline == HIDDEN  # otherwise the outline ends the episode, and its last result is the answer
        return Problem(
            case=Case(case_id, question.text, Plan(()), answered=answered, notes=self.notes),
            reference=Reference(question.calls, (list(question.calls)[-1],), followed=False),
            world=self.world(question, answered),
            candidates=lambda case, substep: tuple(tools.values()),
            library=tools,
            same_function={},
            own=tuple(tools),
            demonstrations=partial(self.demonstrations, case_id),
            examine=partial(FOUND.graded, question.text, question.right),
            baselines=partial(self._constants.right, question),
        )

    def unsolved(self, case_id: str) -> Mapping[str, Any]:
        """The grade of an aborted episode, which gave no answer."""
        return {**WITHOUT_AN_ANSWER}

    def demonstrations(self, case_id: str, count: int) -> tuple[Demonstration, ...]:
        """The training questions nearest to a case's question, nearest first, without held-out ones (B.1.1, B.1.2).

        The paper names no condition except that demonstrations are held-out data (`question`). A demonstration may then
        be the same question about different entities, so that a planner only has to copy its plan. With `template`,
        such questions are left out.
        """
        question = self.questions[case_id]
        held_out = {question.template} if self.demonstrations_hold_out == "template" else set[str]()
        return self._nearest(question.text, count, held_out)

    def _model_version(self) -> str:
        """The end of the version: the fingerprint of the folder `sentence_model`.

        A model on the hub needs no fingerprint, since the config names it.
        """
        if self.demonstrations_by != "embeddings" or self.sentence_model is None:
            return ""
        return f"-{model_fingerprint(self._model())}"

    @cached_property
    def _constants(self) -> Constants:
        return Constants(self.trainings)

    @cached_property
    def _nearest(self) -> Nearest[Demonstration]:
        return Nearest(self._texts(), self._solved, self._scorer(), [{one.template} for one in self.trainings])

    def _scorer(self) -> Scorer:
        if self.demonstrations_by == "bm25":
            return bm25_texts(self._texts, question_words)
        return dense_texts(self._texts, lambda: embedder_of(self._model()))

    def _texts(self) -> Sequence[str]:
        return [question.text for question in self.trainings]

    def _solved(self, place: int) -> Demonstration:
        question = self.trainings[place]
        return Demonstration(question.text, question.calls, question.told)

    def _model(self) -> Path:
        """The folder of the sentence model; raises ConfigError if there is no model, or no package that can load it."""
        asked_by = "dataset.demonstrations_by", self.demonstrations_by
        return sentence_model_folder(self.hub, self.wheel, self.sentence_model, asked_by)
