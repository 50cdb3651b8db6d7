"""The package of BFCL's classes where it is missing, and calls that are not let through to it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

import pytest

from grid.core.errors import ConfigError
from grid.datasets import bfcl_records as checker
from grid.datasets.bfcl import BFCL
from tests.support import bfcl, bfcl_turns


def test_without_the_package_several_turns_say_how_to_install_it_and_single_ones_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "bfcl_eval"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "bfcl_eval", cast(Any, None))
    checker.api_class.cache_clear()
    checker.parameters.cache_clear()
    folder = bfcl_turns.write(tmp_path)
    with pytest.raises(ConfigError, match="pip install --no-deps bfcl-eval=="):
        BFCL(folder, category="multi_turn_base").case_ids()
    bfcl.write(tmp_path)
    assert BFCL(folder, category="simple_python").case_ids()


@pytest.mark.parametrize(
    ("method", "arguments", "refused"),
    [
        ("power", {"base": 2, "exponent": 1000}, False),
        ("power", {"base": 2, "exponent": -1001}, True),
        ("power", {"base": 2, "exponent": 1e9}, True),
        ("power", {"base": 2, "exponent": "many"}, False),
        ("round_number", {"number": 1, "decimal_places": -(10**9)}, True),
        ("mean", {"numbers": [10**9]}, False),
    ],
)
def test_only_arguments_that_decide_how_long_a_call_takes_are_limited(
    method: str, arguments: dict[str, Any], refused: bool
) -> None:
    assert (checker.too_large(method, arguments) is not None) is refused
