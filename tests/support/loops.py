"""A property of many small cases as one test: an item costs more than a case of a millisecond does."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest


def each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, but one test: all cases run, and the first failure tells which ones fail.

    A fixture is made once for all cases, so that they must leave it as they found it. None of them may be skipped.
    """
    single, known = isinstance(names, str), (names,) if isinstance(names, str) else names
    every = [(case,) if single else tuple(case) for case in cases]
    assert every, "a loop over nothing proves nothing"
    assert all(len(case) == len(known) for case in every)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        assert set(known) <= signature.parameters.keys()

        @wraps(test)
        def looped(**fixtures: Any) -> None:
            failed: list[tuple[str, BaseException]] = []
            for case in every:
                given = dict(zip(known, case, strict=True))
                try:
                    test(**given, **fixtures)
                except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:  # noqa: BLE001 - each is told
                    failed.append((", ".join(f"{name}={value!r:.200}" for name, value in given.items()), error))
            if failed:
                first = failed[0][1]
                first.add_note(f"{len(failed)} of {len(every)} cases fail:")
                for case_name, failure in failed[:20]:
                    first.add_note(f"  {case_name}: {type(failure).__name__}: {str(failure)[:200]!r}")
                if isinstance(first, pytest.skip.Exception):
                    raise AssertionError(f"a case of a loop is skipped: {failed[0][0]}") from first
                raise first

        rest = [one for name, one in signature.parameters.items() if name not in known]
        looped.__signature__ = signature.replace(parameters=rest)  # type: ignore[attr-defined]
        return looped

    return decorate
