"""Errors that were made on purpose are found by the symbolic scorer of plans, by their names, and no others."""

from __future__ import annotations

import pytest

from tests.studies.plan_mutations import rates, references_right, scored


@pytest.mark.long
@pytest.mark.parametrize(("count", "seed"), [(300, 0), pytest.param(5_000, 7, marks=pytest.mark.slow)])
def test_each_error_is_found_where_it_was_made(count: int, seed: int) -> None:
    found = scored(count, seed)
    assert len(found) == count
    assert min(min(both) for both in rates(found).values()) > 0.985
    assert all(references_right(count // 10, seed))
