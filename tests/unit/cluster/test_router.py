"""Routing of cases to replicas."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from grid.cluster.client import Router, case_key
from grid.core.engine import Prompt, Section, TextAnswer

NAMES = [f"replica-{index}" for index in range(4)]


def test_a_case_stays_on_its_replica_and_cases_spread() -> None:
    router = Router(NAMES)
    first = {}
    for case in range(200):
        first[case] = router.pick(str(case))
        router.report(first[case], 0)
    assert all(Counter(first.values())[name] >= 25 for name in NAMES)
    for case, name in first.items():
        assert Router(NAMES).pick(str(case)) == name, "another task routes it alike"


def test_only_the_cases_of_a_lost_replica_move() -> None:
    for case in map(str, range(100)):
        before, after = Router(NAMES).pick(case), Router(NAMES[:-1]).pick(case)
        assert before in (after, NAMES[-1])


def test_an_overloaded_replica_is_left_for_the_least_loaded_one() -> None:
    router = Router(NAMES)
    favourite = router.pick("case")
    for name in NAMES:
        router.report(name, 5)
    router.report(favourite, 200)
    other = router.pick("case")
    assert other != favourite
    router.report(favourite, 5)
    assert router.pick("case") == favourite


@given(st.lists(st.text(max_size=5), max_size=200))
def test_loads_never_drift_far_apart(keys: list[str]) -> None:
    router, sent = Router(NAMES), Counter[str]()
    for key in keys:
        sent[router.pick(key)] += 1
    assert max(sent.values(), default=0) <= 2 * min(sent[name] for name in NAMES) + 17


def test_a_lost_replica_is_avoided_where_another_is_there() -> None:
    assert Router(NAMES).pick("case", avoid=Router(NAMES).pick("case")) != Router(NAMES).pick("case")
    assert Router(NAMES[:1]).pick("case", avoid=NAMES[0]) == NAMES[0]


def test_all_prompts_of_a_case_have_one_key() -> None:
    def prompt(task: str, history: str) -> Prompt:
        sections = Section("role", ("You act.",)), Section("task", (task,)), Section("history", (history,))
        return Prompt(sections, TextAnswer())

    assert case_key(prompt("buy", "nothing")) == case_key(prompt("buy", "something"))
    assert case_key(prompt("buy", "nothing")) != case_key(prompt("sell", "nothing"))
