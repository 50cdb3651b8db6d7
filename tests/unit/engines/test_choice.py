"""Exact choice against brute force, on random conditional distributions over several tokenizations of the labels."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid.core.engine import option_numbers
from grid.engines.choice import ChoiceSearch, Distribution, NameSearch, NumberSearch, Prefix
from grid.engines.language_model import Labels, ending

VOCABULARY = 120
DIGITS = list(range(10))
PAIRS = list(range(10, 110))  # tokens of two digits, 00 to 99


@lru_cache(maxsize=4096)
def logs_of(seed: int, prefix: Prefix, sharpness: float) -> np.ndarray:
    """A random full-vocabulary distribution that depends on the prefix."""
    key = hashlib.sha256(f"{seed}{prefix}".encode()).digest()
    logits = np.random.default_rng(int.from_bytes(key[:8], "big")).normal(size=VOCABULARY) * sharpness
    logs: np.ndarray = logits - np.logaddexp.reduce(logits)
    return logs


def one_digit_a_token(number: int | str) -> Prefix:
    return tuple(int(digit) for digit in str(number))


def two_digits_a_token(number: int | str) -> Prefix:
    text = str(number)
    head = () if len(text) % 2 == 0 else (int(text[0]),)
    pairs = text[len(text) % 2 :]
    return (*head, *(10 + int(pairs[i : i + 2]) for i in range(0, len(pairs), 2)))


def brute_force(labels: list[Prefix], digits: list[int], seed: int, sharpness: float, form: str) -> np.ndarray:
    """Every label by itself, token after token; with its end where the form has one."""
    scores = []
    for number, label in enumerate(labels):
        score = 1.0
        for depth, token in enumerate(label):
            score *= np.exp(logs_of(seed, label[:depth], sharpness)[token])
        if must_end(number, len(labels), form):
            score *= 1.0 - np.exp(logs_of(seed, label, sharpness)[digits]).sum()
        scores.append(score)
    return np.array(scores)


def must_end(number: int, options: int, form: str) -> bool:
    """Algorithm 3, line 14, of one-digit numbers; of more than 100 options, of all two-digit ones besides."""
    return form == "terminated" or (form == "natural" and number < (10 if options <= 100 else 100))


class Model:
    """Answers prefixes and counts."""

    def __init__(self, seed: int, sharpness: float) -> None:
        self.seed, self.sharpness, self.rounds = seed, sharpness, list[int]()

    def answer(self, prefixes: list[Prefix]) -> np.ndarray:
        self.rounds.append(len(prefixes))
        return np.stack([logs_of(self.seed, prefix, self.sharpness) for prefix in prefixes])


def exact_choice(
    labels: list[Prefix],
    digits: list[int],
    model: Model,
    bound: float = 1e-6,
    printed: bool = False,
    form: Labels = "natural",
) -> Distribution:
    search = NumberSearch(labels, digits, ends=ending(labels, form), bound=bound, printed=printed)
    return searched(search, model)


def searched(search: ChoiceSearch, model: Model) -> Distribution:
    while search.wanted:
        search.feed(model.answer(search.wanted)[:, search.tokens])
    return search.result()


@settings(max_examples=60)
@given(
    st.sampled_from([2, 9, 10, 11, 37, 100, 101, 150]),
    st.integers(0, 999),
    st.floats(0.1, 4.0),
    st.booleans(),
    st.sampled_from(["natural", "terminated", "padded"]),
)
def test_equals_brute_force_for_any_tokenization(
    options: int, seed: int, sharpness: float, pairs: bool, form: Labels
) -> None:
    tokens = two_digits_a_token if pairs else one_digit_a_token
    labels = [tokens(number) for number in option_numbers(options, form == "padded")]
    digits = DIGITS + PAIRS if pairs else DIGITS
    found = exact_choice(labels, digits, Model(seed, sharpness), bound=0.0, form=form)
    scores = brute_force(labels, digits, seed, sharpness, form)
    assert np.abs(np.array(found.probabilities) - scores / scores.sum()).sum() / 2 < 1e-12
    assert found.unassigned == pytest.approx(1 - scores.sum())
    assert found.error_bound == 0.0


@settings(max_examples=40)
@given(st.sampled_from([11, 37, 100]), st.integers(0, 999), st.floats(1.0, 6.0), st.sampled_from([1e-6, 1e-3, 1e-1]))
def test_what_is_left_out_costs_no_more_than_the_bound_says(
    options: int, seed: int, sharpness: float, bound: float
) -> None:
    labels = [one_digit_a_token(number) for number in range(options)]
    exact = exact_choice(labels, DIGITS, Model(seed, sharpness), bound=0.0)
    found = exact_choice(labels, DIGITS, Model(seed, sharpness), bound=bound)
    distance = np.abs(np.array(found.probabilities) - np.array(exact.probabilities)).sum() / 2
    assert distance <= found.error_bound + 1e-12
    assert found.passes <= exact.passes


@pytest.mark.parametrize(("options", "rounds"), [(2, [1, 2]), (10, [1, 10]), (100, [1, 10]), (101, [1, 10, 90])])
def test_the_papers_form_takes_a_pass_behind_every_one_digit_number(options: int, rounds: list[int]) -> None:
    model = Model(1, 1.0)
    labels = [one_digit_a_token(number) for number in range(options)]
    found = exact_choice(labels, DIGITS, model, bound=0.0)
    assert model.rounds == rounds
    assert (found.passes, found.levels) == (sum(rounds), len(rounds))


@pytest.mark.parametrize(("options", "rounds"), [(10, [1, 10]), (11, [1, 10, 1]), (100, [1, 10, 90])])
def test_labels_that_must_all_end_take_one_more_round(options: int, rounds: list[int]) -> None:
    model = Model(1, 1.0)
    labels = [one_digit_a_token(number) for number in range(options)]
    found = exact_choice(labels, DIGITS, model, bound=0.0, form="terminated")
    assert model.rounds == rounds
    natural = exact_choice(labels, DIGITS, Model(1, 1.0), bound=0.0)
    assert (found == natural) == (options == 10), "there all numbers have one digit"
    assert found.unassigned >= natural.unassigned


def test_a_one_digit_number_that_goes_on_is_no_option() -> None:
    """Of ten options as of eleven, `1` has nothing of 10 to 19; `padded`, where nothing must end, it has all of it."""
    labels = [one_digit_a_token(number) for number in range(11)]
    forms: list[tuple[int, Labels]] = [(10, "padded"), (10, "natural"), (11, "natural")]
    free, ten, eleven = (
        exact_choice(labels[:count], DIGITS, Model(7, 1.0), bound=0.0, form=form) for count, form in forms
    )
    one = free.probabilities[1] * (1 - free.unassigned)
    goes_on = np.exp(logs_of(7, (1,), 1.0))[DIGITS].sum()
    for found in (ten, eleven):
        assert found.probabilities[1] * (1 - found.unassigned) == pytest.approx(one * (1 - goes_on))


def test_the_order_of_options_does_not_matter() -> None:
    labels = [one_digit_a_token(number) for number in range(37)]
    forward, backward = (
        searched(NumberSearch(some, DIGITS, ends=labels[:10]), Model(5, 2.0)).probabilities
        for some in (labels, labels[::-1])
    )
    assert forward == pytest.approx(backward[::-1])


def test_bad_labels_and_bad_numbers_are_refused() -> None:
    for labels in ([(1,), (1,)], [()]):
        with pytest.raises(ValueError, match="distinct"):
            NumberSearch(labels, DIGITS, ends=())
    with pytest.raises(ValueError, match="`ends` must contain it"):
        NumberSearch([(1,), (1, 0)], DIGITS, ends=())
    search = NumberSearch([(1,), (2,)], DIGITS, ends=())
    with pytest.raises(ValueError, match="NaN"):
        search.feed(np.full((1, 2), np.nan))
    nothing = NumberSearch([(1,), (2,)], DIGITS, ends=())
    nothing.feed(np.full((1, 2), -np.inf))
    with pytest.raises(ValueError, match="no option"):
        nothing.result()


QUOTES = ((110,), (111,))  # two tokens that end a name


def some_names(options: int, seed: int) -> list[list[Prefix]]:
    """Names of one to six tokens of three, so that many share a beginning and some begin another, with their ends."""
    rng = np.random.default_rng(seed)
    names: dict[Prefix, None] = {}
    while len(names) < options:
        names[tuple(map(int, rng.integers(0, 3, rng.integers(1, 7))))] = None
    return [[(*name, *quote) for quote in QUOTES] for name in names]


def by_schema(labels: list[list[Prefix]], seed: int, sharpness: float) -> np.ndarray:
    """Every name by itself: at each token its share of all tokens that go on some name."""
    following: dict[Prefix, set[int]] = {}
    for label in (label for ways in labels for label in ways):
        for depth, token in enumerate(label):
            following.setdefault(label[:depth], set()).add(token)
    scores = []
    for ways in labels:
        scores.append(0.0)
        for label in ways:
            score = 1.0
            for depth, token in enumerate(label):
                row = np.exp(logs_of(seed, label[:depth], sharpness))
                score *= row[token] / row[sorted(following[label[:depth]])].sum()
            scores[-1] += score
    return np.array(scores)


@settings(max_examples=60)
@given(st.sampled_from([2, 9, 10, 37, 100]), st.integers(0, 999), st.floats(0.1, 4.0))
def test_names_are_renormalised_at_every_token_as_a_sampler_under_a_schema_does(
    options: int, seed: int, sharpness: float
) -> None:
    labels, model = some_names(options, seed), Model(seed, sharpness)
    found = searched(NameSearch(labels, bound=0.0), model)
    scores = by_schema(labels, seed, sharpness)
    assert scores.sum() == pytest.approx(1)
    assert np.abs(np.array(found.probabilities) - scores).sum() / 2 < 1e-12
    assert found.error_bound == 0.0
    at_the_root = len({label[0] for ways in labels for label in ways}) == 1
    assert found.passes == sum(model.rounds) <= options - 1 + at_the_root, "only where names part, and at the root"
    assert 0 < found.unassigned < 1


@settings(max_examples=40)
@given(st.sampled_from([10, 37, 100]), st.integers(0, 999), st.floats(1.0, 6.0), st.sampled_from([1e-6, 1e-3, 1e-1]))
def test_names_that_are_left_out_cost_no_more_than_the_bound_says(
    options: int, seed: int, sharpness: float, bound: float
) -> None:
    labels = some_names(options, seed)
    exact = searched(NameSearch(labels, bound=0.0), Model(seed, sharpness))
    found = searched(NameSearch(labels, bound=bound), Model(seed, sharpness))
    distance = np.abs(np.array(found.probabilities) - np.array(exact.probabilities)).sum() / 2
    assert distance <= found.error_bound + 1e-12
    assert found.passes <= exact.passes


def test_names_that_part_at_once_take_one_pass_and_what_they_do_not_begin_with_is_unassigned() -> None:
    model = Model(1, 1.0)
    found = searched(NameSearch([[(1, 5, 6)], [(2, 7)], [(3, 110), (3, 111)]]), model)
    row = np.exp(logs_of(1, (), 1.0))[[1, 2, 3]]
    assert (model.rounds, found.passes, found.levels) == ([1], 1, 1)
    assert found.probabilities == pytest.approx(tuple(row / row.sum()))
    assert found.unassigned == pytest.approx(1 - row.sum())
    assert searched(NameSearch([[(1, 2)]]), Model(1, 1.0)).probabilities == (1.0,)


def test_a_way_that_all_take_is_gone_without_a_pass() -> None:
    """`(9, 9, 1)`, `(9, 9, 2)` and `(8,)` part at the root and behind `(9, 9)`."""
    search = NameSearch([[(9, 9, 1)], [(9, 9, 2)], [(8,)]], bound=0.0)
    found = searched(search, Model(2, 1.0))
    assert search.asked == [(), (9, 9)]
    assert (found.passes, found.levels) == (2, 2)


def test_bad_names_are_refused() -> None:
    bad: list[list[list[Prefix]]] = [[[(1,)], [(1,)]], [[()]], [[(1,)], [(1, 2)]]]
    for labels in bad:
        with pytest.raises(ValueError, match="label"):
            NameSearch(labels)
    nothing = NameSearch([[(1,)], [(2,)]])
    nothing.feed(np.full((1, 2), -np.inf))
    with pytest.raises(ValueError, match="no option"):
        nothing.result()
