"""Figures on SLATE's quality: whether hints give answers away, and whether the texts determine the answers.

The figures are meant for reviewers of a benchmark, and are computed only from `tools.jsonl` and `cases.jsonl`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

import numpy as np

from grid.core.types import Case, ToolCall
from grid.datasets.slate.dataset import Slate
from grid.datasets.slate.drafts import CaseRecord, SubstepRecord, ToolRecord
from grid.retrievers.scored import BM25
from grid.text.references import found_in
from grid.text.words import stems

FOLDS = 5
_LIKE_ID = re.compile(r"(?=.*\d)[A-Za-z0-9][A-Za-z0-9_.-]+")
_OFFERED = 50
"""Number of tools offered at a substep, as in the default setting."""


@dataclass(frozen=True)
class Figure:
    """One figure: its meaning, its value, and its target, if any (at least `least`, at most `most`)."""

    name: str
    value: float
    unit: str = ""
    least: float | None = None
    most: float | None = None

    @property
    def holds(self) -> bool | None:
        """Whether the target is met; None if there is no target."""
        if self.least is None and self.most is None:
            return None
        return (self.least is None or self.value >= self.least) and (self.most is None or self.value <= self.most)

    @property
    def target(self) -> str:
        """The target as a text for a table."""
        if self.least is not None and self.most is not None:
            return f"{self.least:g} to {self.most:g}"
        if self.least is not None:
            return f"at least {self.least:g}"
        return f"at most {self.most:g}" if self.most is not None else ""


def figures(dataset: Slate) -> list[Figure]:
    """All figures for a SLATE that was generated or read from a folder."""
    return [figure for group in groups(dataset) for figure in group]


def groups(dataset: Slate) -> list[Iterator[Figure]]:
    """The figures, grouped by subject.

    If the dataset is too small, a group raises ValueError, IndexError or ZeroDivisionError.
    """
    tools, cases = dataset.tool_records, list(dataset.records.values())
    return [_styles(tools, cases), _sources(tools, cases), _queries(cases), _sizes(cases), _retrieved(dataset)]


def _styles(tools: Mapping[str, ToolRecord], cases: Sequence[CaseRecord]) -> Iterator[Figure]:
    """Whether texts alone distinguish plan tools from distractors, and substeps with a call from the other substeps."""
    used = {sub.call.tool for case in cases for sub in case.substeps() if sub.call}
    # A tool with the same function as a plan's tool is a correct choice and therefore not a distractor.
    told = [tool for tool in tools.values() if not tool.same_function]
    labels = np.array([tool.name in used for tool in told])
    texts = [" ".join([tool.description, *(argument.description for argument in tool.arguments)]) for tool in told]
    shapes = np.array([_shape(tool) for tool in told])
    auc = separated(texts, shapes, labels)
    yield Figure("plan tools told from distractors by words and shape", auc, "AUC", most=0.6)
    for name, kind in (("plan tools", True), ("distractors", False)):
        arguments = [one for tool in told if (tool.name in used) is kind for one in tool.arguments]
        derived = [_is_derived(one.name, one.description) for one in arguments]
        yield Figure(f"argument descriptions of {name} that repeat the name", 100 * mean(derived), "%")
    substeps = [(" ".join(stems(sub.text)[:1]), sub.call is not None) for case in cases for sub in case.substeps()]
    groups = [case.workflow for case in cases for _ in case.substeps()]
    yield Figure("substeps with a call told by their first word", 100 * told_by_word(substeps, groups), "%", most=65)
    share = mean(calls for _, calls in substeps)
    yield Figure("the more frequent kind of substep", 100 * max(share, 1 - share), "%")
    looks = np.array([_look(sub.text) for case in cases for sub in case.substeps()])
    calls = np.array([calls for _, calls in substeps])
    yield Figure(
        "substeps with a call told by values and length", separated([], looks, calls, groups), "AUC", most=0.65
    )
    said = [sub.text for case in cases for sub in case.substeps()]
    yield Figure("substeps with a call told by all their words", separated(said, looks, calls, groups), "AUC")


def separated(
    texts: Sequence[str], shapes: np.ndarray, labels: np.ndarray, groups: Sequence[str] | None = None
) -> float:
    """Area under the ROC curve of a logistic model on words and shape, over five folds; 0.5 means no separation.

    Args:
        texts: one text per item; the stems of the text's words are features (TF-IDF). If there are no texts, only
            shapes are used.
        shapes: further features, with the shape (items, features); this function standardises them.
        labels: booleans (items).
        groups: the group of each item; all items of a group are in the same fold.
    """
    from scipy.sparse import csr_array, hstack
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, cross_val_predict
    from sklearn.preprocessing import StandardScaler

    features = csr_array(StandardScaler().fit_transform(shapes))
    if texts:
        words = TfidfVectorizer(analyzer=lambda text: list(stems(text)), min_df=2).fit_transform(texts)
        features = csr_array(hstack([words, features]))
    model = LogisticRegression(class_weight="balanced", max_iter=1000)
    kind = StratifiedGroupKFold if groups else StratifiedKFold
    folds = kind(FOLDS, shuffle=True, random_state=0)
    scores = cross_val_predict(model, features, labels, groups=groups, cv=folds, method="decision_function")
    return float(roc_auc_score(labels, scores))


def _look(text: str) -> list[float]:
    """Features of a substep's text that require no understanding: capitalised words, words with values, length."""
    words = text.split()
    named = sum(word[:1].isupper() for word in words[1:])
    valued = sum(any(letter.isdigit() or letter in "@$" for letter in word) for word in words)
    return [float(named > 0), float(valued > 0), named, valued, len(words), len(text)]


def _shape(tool: ToolRecord) -> list[float]:
    """Features of a tool that say nothing about its function: lengths, counts and capital letters."""
    words = [len(argument.description.split()) for argument in tool.arguments] or [0]
    return [
        len(tool.description),
        len(tool.description.split()),
        len(tool.name.split("_")),
        len(tool.arguments),
        mean(words),
        max(words),
        mean(argument.description[:1].isupper() for argument in tool.arguments) if tool.arguments else 0.0,
        len(tool.results),
        mean(len(result) for result in tool.results) if tool.results else 0.0,
    ]


def _is_derived(name: str, description: str) -> bool:
    """Whether a description only repeats the argument's name and words such as `number`."""
    extra = set(stems(description)) - set(stems(name)) - set(stems("identifier number code"))
    return not extra


def told_by_word(substeps: Sequence[tuple[str, bool]], groups: Sequence[str]) -> float:
    """How often a substep's first word predicts whether the substep has a call.

    The predictions are learned from other workflows (five folds).
    """
    names = sorted(set(groups))
    right = []
    for fold in range(FOLDS):
        held = set(names[fold::FOLDS])
        seen: dict[str, Counter[bool]] = {}
        total: Counter[bool] = Counter()
        for (word, calls), group in zip(substeps, groups, strict=True):
            if group not in held:
                seen.setdefault(word, Counter())[calls] += 1
                total[calls] += 1
        usual = total.most_common(1)[0][0]
        right += [
            (seen[word].most_common(1)[0][0] if word in seen else usual) == calls
            for (word, calls), group in zip(substeps, groups, strict=True)
            if group in held
        ]
    return mean(right)


@dataclass(frozen=True)
class _Output:
    """A field that an earlier call of the case returned."""

    step: str
    field: str
    value: object
    tool: ToolRecord


def _sources(tools: Mapping[str, ToolRecord], cases: Sequence[CaseRecord]) -> Iterator[Figure]:
    """Whether the descriptions determine from which earlier result an argument takes its value."""
    other, choices, found, needing = 0, list[int](), list[bool](), set[str]()
    for case in cases:
        earlier: list[_Output] = []
        for sub in case.substeps():
            if sub.call is None:
                continue
            for argument, wanted in _taken(sub):
                possible = [one for one in earlier if _fits(one.value, tools[sub.call.tool], argument)]
                if wanted[1] != argument:
                    other += 1
                    needing.add(case.case_id)
                    choices.append(len(possible))
                value = next(one.value for one in earlier if (one.step, one.field) == wanted)
                found.append(bool(possible) and read_source(tools[sub.call.tool], argument, possible).value == value)
            earlier += [_Output(sub.id, name, value, tools[sub.call.tool]) for name, value in sub.call.outcome.items()]
    yield Figure("cases with an argument from a result of another name", 100 * len(needing) / len(cases), "%")
    yield Figure("results that such an argument could take", mean(choices), "id-like")
    yield Figure("sources that a reader of types and descriptions finds", 100 * mean(found), "%", least=98)


def _taken(sub: SubstepRecord) -> Iterator[tuple[str, tuple[str, str]]]:
    """A call's arguments that refer to exactly one earlier result, as (name, (step, field) of the result)."""
    assert sub.call is not None  # noqa: S101
    for name, value in sub.call.arguments.items():
        refers = list(found_in(ToolCall(sub.call.tool, {name: value})))
        if len(refers) == 1:
            yield name, refers[0]


def _fits(value: object, tool: ToolRecord, argument: str) -> bool:
    """Whether a value has an argument's type; a text that is not a date must look like an identifier."""
    kind = next(one.type for one in tool.arguments if one.name == argument)
    match kind:
        case "integer":
            return type(value) is int
        case "number":
            return type(value) in (int, float)
        case "boolean":
            return type(value) is bool
        case "date":
            return isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value) is not None
        case _:
            return isinstance(value, str) and _LIKE_ID.fullmatch(value) is not None


def read_source(tool: ToolRecord, argument: str, possible: Sequence[_Output]) -> _Output:
    """The result that shares the most words with an argument; words of the result's field count double.

    The words of the result's tool count too, but each counts less the more words the tool's name and description have.
    If several results are equally similar, the latest of them is chosen.
    """
    described = next(one.description for one in tool.arguments if one.name == argument)
    wanted = Counter([*stems(argument), *stems(described)])

    def likeness(one: _Output) -> float:
        field = set(stems(one.field)) - set(stems("id number code"))
        maker = {*stems(one.tool.name), *stems(one.tool.description)}
        return 2.0 * sum(wanted[word] for word in field) + sum(wanted[word] for word in maker) / math.sqrt(
            1 + len(maker)
        )

    scores = [likeness(one) for one in possible]
    return possible[max(range(len(possible)), key=lambda index: (scores[index], index))]


def _queries(cases: Sequence[CaseRecord]) -> Iterator[Figure]:
    """How often the query contains the name of an argument whose value comes from the query."""
    named = []
    for case in cases:
        words = set(stems(case.query))
        for sub in case.substeps():
            for name, value in sub.call.arguments.items() if sub.call else ():
                if not list(found_in(ToolCall("", {name: value}))):
                    named.append(set(stems(name)) <= words)
    yield Figure("arguments from the query whose name stands in it", 100 * mean(named), "%", most=25)


def _sizes(cases: Sequence[CaseRecord]) -> Iterator[Figure]:
    """The sizes of cases, and the numbers of workflows and of cases per workflow."""
    workflows = Counter(case.workflow for case in cases)
    substeps = [len(case.substeps()) for case in cases]
    yield Figure("workflows", len(workflows), least=200)
    yield Figure("cases of one workflow, at most", max(workflows.values()), most=3)
    yield Figure("substeps per case (egb_slate, table 5: 13.6)", mean(substeps), least=12.9, most=14.3)
    yield Figure("cases with 10 substeps or more", 100 * mean(count >= 10 for count in substeps), "%")
    yield Figure("calls per case", mean(sum(sub.call is not None for sub in case.substeps()) for case in cases))


def _retrieved(dataset: Slate) -> Iterator[Figure]:
    """The share of the references' tools that BM25 offers; no planner can call a tool that is not offered."""
    index = BM25(top_k=_OFFERED).index(dataset.tools)
    per_case = []
    for case in dataset.records.values():
        plan = case.visible_plan()
        asked = Case(case.case_id, case.query, plan)
        pairs = zip(case.substeps(), plan.substeps, strict=True)
        found = [(sub.call, index.retrieve(asked, shown)) for sub, shown in pairs if sub.call]
        per_case.append([call.tool in {tool.name for tool in offered} for call, offered in found])
    hits = [hit for one in per_case for hit in one]
    yield Figure(f"reference tools among the {_OFFERED} offered", 100 * mean(hits), "%")
    yield Figure("cases with all of their tools offered", 100 * mean(all(one) for one in per_case), "%")
