"""Formulas and the YAML around them: what is read, and that nothing is ever evaluated."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import formulaic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.errors import AnalysisError
from analysis.stats import spec
from analysis.stats.spec import parse
from tests.support.loops import each

CONF = Path(__file__).parents[3] / "conf" / "analysis"
ALLOWED = ["y", "a", "b", "c", "f"]


def shown(text: str) -> list[str]:
    found = parse(text, ALLOWED)
    return [":".join(f"C({name})" if name in found.factors else name for name in term) for term in found.terms]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("y ~ a", ["a"]),
        ("y~a+C(f)", ["a", "C(f)"]),
        ("y ~ a*b", ["a", "b", "a:b"]),
        ("y ~ a * b + c * b", ["a", "b", "c", "a:b", "c:b"]),
        ("y ~ a:b + a", ["a", "a:b"]),
        ("y ~ a:b + b:a", ["a:b"]),
        ("y ~ a:a", ["a"]),
        ("y ~ a * C( f )", ["a", "C(f)", "a:C(f)"]),
        ("y ~ a*b*c", ["a", "b", "c", "a:b", "a:c", "b:c", "a:b:c"]),
        ("y ~ a:b*c", ["c", "a:b", "a:b:c"]),
        (" y ~ a\n + b ", ["a", "b"]),
    ],
)
def test_formulas(text: str, terms: list[str]) -> None:
    assert shown(text) == terms


@each(
    "text",
    [
        "", "  ", "y", "y ~", "~ a", "y ~ a +", "y ~ + a", "y ~ a b", "y ~ a ~ b", "y ~ a ** 2", "y ~ a::b", "y ~ 1",
        "y ~ a - 1", "y ~ I(a)", "y ~ np.log(a)", "y ~ C(a", "y ~ C()", "y ~ C(a, Treatment)", "C(y) ~ a", "y ~ y",
        "y ~ a + C(a)", "y ~ C(y)", "y ~ a:C(f)", "y + a ~ b", "y ~ a*a*b*c*f*a*b", "y ~ __import__('os').system('x')",
        "y ~ a[0]", "y ~ a.b", "y ~ 'a'", 'y ~ Q("a")', "y ~ a; b", "y ~ {a}", "y ~ C(C(a))", "y ~ a" + " + b" * 1000,
    ],
)  # fmt: skip
def test_what_is_no_formula(text: str) -> None:
    with pytest.raises(AnalysisError):
        parse(text, ALLOWED)


PYTHON = [
    "y ~ __import__('os').abort()", "y ~ {__import__('os').abort()}", "y ~ C(__import__('os').abort())", "y ~ `a`",
    "y ~ poly(a, 2)", "{__import__('os').abort()} ~ a", "y ~ a + lag(b)", "y ~ [a ~ b]", "y ~ .", "y ~ a | b",
    "y ~ a / b", "y ~ a ** 9", "y ~ 0", "y ~ a - a", "y ~ a %in% b", "~ y ~ a",
]  # fmt: skip


@each("text", PYTHON)
def test_formulaic_sees_nothing_that_it_would_run_and_no_operator_of_its_own(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("formulaic.Formula", lambda text: pytest.fail(f"it was given {text}"))
    with pytest.raises(AnalysisError, match="cannot be read"):
        parse(text, [*ALLOWED, "os", "poly", "lag", "__import__", "abort"])


@given(st.text(alphabet="yabcf~+*:C() \n.'0^-/|{}[]`%", max_size=30))
def test_whatever_formulaic_is_given_are_names_and_four_operators(text: str) -> None:
    with patch("formulaic.Formula", wraps=formulaic.Formula) as parser, suppress(AnalysisError):
        parse(text, ALLOWED)
    assert all(set(call.args[0]) <= {*"yabcf~+*: \n"} for call in parser.mock_calls)


def test_where_reading_stops_is_shown() -> None:
    with pytest.raises(AnalysisError, match=r"'\*\* 2 \+ b' cannot be read; write `outcome ~"):
        parse("y ~ a ** 2 + b", ALLOWED)


def test_a_column_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(AnalysisError, match=r"no column 'dept'; allowed: a, b, c, f, y"):
        parse("y ~ dept * b", ALLOWED)


@given(st.text(alphabet="yabcf~+*:C() \n", max_size=40))
def test_any_text_is_a_formula_of_allowed_columns_or_an_error(text: str) -> None:
    try:
        found = parse(text, ALLOWED)
    except AnalysisError:
        return
    assert set(found.columns()) <= set(ALLOWED)
    assert len({frozenset(term) for term in found.terms}) == len(found.terms) > 0


@pytest.mark.parametrize("path", sorted(CONF.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_analysis_in_conf_is_read_and_says_what_it_is(path: Path) -> None:
    assert spec.load(path).parsed.terms
    assert path.read_text(encoding="utf-8").startswith("# ")


@each(
    ("change", "message"),
    [
        ({"formula": "success ~ dept"}, "formula: .*no column 'dept'; allowed: .*depth"),
        ({"formula": "success ~ model"}, "formula, as a number: no column 'model'"),
        ({"formula": 3}, "formula: Input should be a valid string"),
        ({"formulae": "x"}, "formulae: Extra inputs"),
        ({"cluster": []}, "cluster: name at least one"),
        ({"cluster": ["question"]}, "cluster: no column 'question'; allowed: .*case_id"),
        ({"per": ["depth"]}, "per: no column 'depth'"),
        ({"rows": {"plannner": ["sh"]}}, "rows: no column 'plannner'"),
        ({"indicators": {"SH": {"planer": "sh"}}}, "indicators: no column 'planer'"),
        (
            {"indicators": {"SH": {"planner": "sh"}, "seed": {"planner": "sh"}}},
            "must be a valid name that is not the name of a column",
        ),
        ({"z_scored": {"columns": ["success"], "within": []}}, "z_scored.columns: no column 'success'"),
        ({"reference": {"model": "x"}}, "reference: no column 'model'; allowed: dataset, last_step"),
        ({"formula": "success ~ controls * trial"}, "formula: controls must be a separate term"),
        ({"formula": "success ~ C(controls)"}, "formula: controls must be a separate term"),
        ({"per": ["famly"]}, "per: no column 'famly'; allowed: .*family"),
        ({"formula": "success ~ C(family)"}, "formula: .*no column 'family'"),
        ({"families": {"a": ["x", "y"], "b": ["x"]}}, "families: 'x' is listed 2 times"),
        ({"correlation": "ar1"}, "correlation: Input should be 'independence' or 'exchangeable'"),
        ({"separation": "ignore"}, "separation: Input should be 'drop' or 'refuse'"),
    ],
)
def test_a_wrong_value_names_its_place_and_what_is_allowed(change: dict[str, Any], message: str) -> None:
    values = spec.load(CONF / "planning_horizon.yaml").model_dump() | change
    with pytest.raises(AnalysisError, match=message):
        spec.parsed(values, "file.yaml")


@pytest.mark.parametrize("text", ["- a list", "{", "!!python/object/apply:os.system [true]", "formula: [1"])
def test_a_file_that_is_no_specification(tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(AnalysisError, match="wrong"):
        spec.load(path)
