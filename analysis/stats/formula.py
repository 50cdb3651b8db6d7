"""A regression's formula, parsed and never evaluated: `success ~ depth * SH + C(last_step)`.

The grammar is what the studies need and nothing else: `outcome ~ sum`, a sum of products, a product of columns with
`:` (their interaction) or `*` (themselves and their interactions), a column `name` (a number) or `C(name)` (a factor,
by treatment contrasts). The intercept is always there.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pandas as pd

from analysis.errors import AnalysisError
from grid.core.errors import shown_value
from grid.core.untrusted import loads

_TOKEN = re.compile(r"\s*(?:(?P<factor>C\(\s*(?P<inner>[A-Za-z_]\w*)\s*\))|(?P<name>[A-Za-z_]\w*)|(?P<sign>[~+*:]))")
_GRAMMAR = "write `outcome ~ a + C(b) + a:c + a * d`"
_LONGEST, _MOST_IN_PRODUCT = 2000, 4


@dataclass(frozen=True)
class Part:
    """A column of a term: as a number, or as a factor, with a coefficient for each level but one."""

    column: str
    factor: bool

    def __str__(self) -> str:
        return f"C({self.column})" if self.factor else self.column


Term: TypeAlias = tuple[Part, ...]
"""Columns whose product is in the model; one is a main effect."""


@dataclass(frozen=True)
class Formula:
    """The outcome and the terms, main effects first, each once."""

    outcome: str
    terms: tuple[Term, ...]

    def columns(self) -> list[str]:
        """Every column named, the outcome first."""
        return list(dict.fromkeys([self.outcome, *(part.column for term in self.terms for part in term)]))

    def factors(self) -> list[str]:
        """The columns that are factors."""
        return list(dict.fromkeys(part.column for term in self.terms for part in term if part.factor))


def parse(text: str, allowed: Sequence[str]) -> Formula:
    """The formula in a text.

    Raises:
        AnalysisError: it names a column that is not allowed, or says anything outside the grammar.
    """
    tokens = _tokens(text)
    for token in tokens:
        if isinstance(token, Part) and token.column not in allowed:
            raise AnalysisError(f"{text!r}: no column {token.column!r}; allowed: {', '.join(sorted(allowed))}")
    outcome, tilde, right = tokens[0], tokens[1:2], tokens[2:]
    if not isinstance(outcome, Part) or outcome.factor or tilde != ["~"] or not right:
        raise AnalysisError(f"{text!r} is no formula: {_GRAMMAR}")
    terms = [term for product in _split(right, "+", text) for term in _terms(product, text)]
    unique = sorted({frozenset(term): term for term in reversed(terms)}.values(), key=lambda term: _place(term, terms))
    _check_hierarchy(unique, text)
    kinds = {part for term in unique for part in term}
    twice = [part.column for part in kinds if part.factor and Part(part.column, False) in kinds]
    if twice or outcome in kinds or Part(outcome.column, True) in kinds:
        found = ", ".join(twice) or outcome.column
        raise AnalysisError(f"{text!r}: {found} stands both as a number and as a factor, or on both sides of ~")
    return Formula(outcome.column, tuple(unique))


def _place(term: Term, terms: Sequence[Term]) -> tuple[int, int]:
    """Main effects before products, each where it is written first."""
    return len(term), terms.index(term)


def _check_hierarchy(terms: Sequence[Term], text: str) -> None:
    """Contrasts against a reference level mean nothing in an interaction without the effects that it is made of."""
    for term in terms:
        lower = itertools.combinations(term, len(term) - 1) if any(part.factor for part in term) else ()
        for part in lower:
            if part and set(part) not in map(set, terms):
                names = " : ".join(map(str, part))
                raise AnalysisError(f"{text!r}: an interaction with a factor needs {names} too; write * for :")


def _tokens(text: str) -> list[Part | str]:
    if len(text) > _LONGEST:
        raise AnalysisError(f"a formula of {len(text):,} characters; at most {_LONGEST:,}")
    tokens: list[Part | str] = []
    place, end = 0, len(text.rstrip())
    while place < end:
        found = _TOKEN.match(text, place)
        if not found:
            raise AnalysisError(f"{text!r}: cannot read {text[place:].strip()[:20]!r}; {_GRAMMAR}")
        inner, name, sign = found["inner"], found["name"], found["sign"]
        tokens.append(Part(inner, True) if inner else Part(name, False) if name else sign)
        place = found.end()
    if not tokens:
        raise AnalysisError(f"an empty formula: {_GRAMMAR}")
    return tokens


def _split(tokens: Sequence[Part | str], sign: str, text: str) -> list[list[Part | str]]:
    groups: list[list[Part | str]] = [[]]
    for token in tokens:
        if token == sign:
            groups.append([])
        else:
            groups[-1].append(token)
    if not all(groups):
        raise AnalysisError(f"{text!r}: nothing on one side of {sign!r}; {_GRAMMAR}")
    return groups


def _terms(product: list[Part | str], text: str) -> list[Term]:
    """The terms of `a * b:c`: each factor of `*`, and the products of every choice of them."""
    factors = [_interaction(group, text) for group in _split(product, "*", text)]
    if len(factors) > _MOST_IN_PRODUCT:
        raise AnalysisError(f"{text!r}: a product of {len(factors)}; at most {_MOST_IN_PRODUCT}")
    chosen = [c for size in range(1, len(factors) + 1) for c in itertools.combinations(factors, size)]
    return [tuple(dict.fromkeys(part for term in choice for part in term)) for choice in chosen]


def _interaction(tokens: list[Part | str], text: str) -> Term:
    groups = _split(tokens, ":", text)
    parts = [group[0] for group in groups if len(group) == 1 and isinstance(group[0], Part)]
    if len(parts) != len(groups):
        raise AnalysisError(f"{text!r}: two columns with nothing between them, or a second '~'; {_GRAMMAR}")
    return tuple(dict.fromkeys(part for part in parts if isinstance(part, Part)))


CONTROLS, LAST = "controls", "last_step"
# What a regression controls for besides the plan's shape: `controls` in a formula (planning_horizon B.3).
#
# The word stands for the cases' own controls where their dataset gives any (the column `controls`), each a factor, else
# for the function in which a plan ends, `C(last_step)`. So one formula fits every family of data sets as published.


CONTROL_COLUMNS = (CONTROLS, LAST)
"""The columns of `episodes` that the word reads."""
_WORD: Term = (Part(CONTROLS, factor=False),)


def spelt_out(rows: pd.DataFrame, formula: Formula) -> tuple[pd.DataFrame, Formula]:
    """The formula with these rows' controls in the place of the word, and the rows with a column of each.

    A row without a control that others have is null there.

    Raises:
        AnalysisError: the column holds no controls, or one whose name is none or another column's.
    """
    if _WORD not in formula.terms:
        return rows, formula
    texts = rows[CONTROLS].astype(object)
    by_text = {text: _read(text) for text in texts.dropna().unique()}
    names = sorted({name for found in by_text.values() for name in found}) or [LAST]
    for name in names:
        if name == LAST:
            continue
        if not name.isidentifier() or name in rows.columns or name in formula.columns():
            raise AnalysisError(f"controls: {shown_value(name)} is no name of its own for a column")
        rows = rows.assign(**{name: texts.map({text: found.get(name) for text, found in by_text.items()})})
    there = [term for term in formula.terms if term != _WORD]
    new: list[Term] = [term for name in names if (term := (Part(name, factor=True),)) not in there]
    return rows, replace(formula, terms=tuple(sorted([*there, *new], key=len)))


def _read(text: str) -> dict[str, str]:
    """The controls in a column's text, levels as text."""
    try:
        found = loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str | bool) for value in found.values()):
        raise AnalysisError(f"controls: {shown_value(text)} is no mapping of names to levels")
    return {name: str(value) for name, value in found.items()}
