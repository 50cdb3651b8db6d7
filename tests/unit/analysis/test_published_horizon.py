"""Planning horizon's published tables: they agree with one another, and ours stand beside them, family by family."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from analysis.load.provenance import SYNTHETIC
from analysis.page.table import Table
from analysis.papers import files, published, study
from analysis.papers.files import Published
from analysis.report import print_report
from analysis.stats import spec
from analysis.tables import regression
from grid import store
from tests.support import families, simulated
from tests.support.planning_horizon_code import CODE
from tests.support.tables import by_metric

PLANNING_HORIZON = spec.load(study.PLANNING_HORIZON)
TABLES = {table.table: table for table in files.every() if table.paper == "planning_horizon"}
MOMENTS = {
    "KQA Pro": {"depth": (3.423036, 1.589407), "breadth": (1.957081, 0.585164)},
    "Atomic KBQA": {"depth": (2.06009, 0.74629), "breadth": (2.192063, 0.590319)},
    "Mul. HotpotQA": {"depth": (1.12, 0.328031), "breadth": (7.076667, 3.714966)},
}
"""Mean and deviation of each family's columns, as the official notebook prints them."""
LABELS = ["depth", "breadth", "SH", "depth × SH", "breadth × SH"]


def figures(table: str) -> dict[tuple[str, ...], Any]:
    return {tuple(row.labels): row.figures for row in TABLES[table].rows}


def regressions() -> Iterator[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Of each family and model the figures of table 3 and of C.1, by coefficient."""
    scored, raw = figures("3"), figures("C.1")
    for family, model in itertools.product(MOMENTS, TABLES["3"].models):
        in_z, in_raw = ({label: of[family, label][model] for label in LABELS} for of in (scored, raw))
        yield family, model, in_z, in_raw


def test_raw_coefficients_are_table_3s_in_other_units() -> None:
    """So each of C.1's, whose names the text has lost, has the right one."""
    for family, model, scored, raw in regressions():
        moments = MOMENTS[family]
        for name, label in itertools.product(("depth", "breadth"), ("{}", "{} × SH")):
            found, deviation = raw[label.format(name)], moments[name][1]
            expected, error, p = scored[label.format(name)]
            near = 0.0006 * (1 + deviation)
            assert found[0] * deviation == pytest.approx(expected, abs=near), (family, model, label, name)
            assert found[1] * deviation == pytest.approx(error, abs=near)
            assert found[2] == pytest.approx(p, abs=0.001)
        at_the_mean = raw["SH"][0] + sum(raw[f"{name} × SH"][0] * moments[name][0] for name in moments)
        assert at_the_mean == pytest.approx(scored["SH"][0], abs=0.006), (family, model)


def test_no_other_coefficient_of_a_regression_would_do_as_well() -> None:
    for family, model, scored, raw in regressions():
        for name, label in itertools.product(("depth", "breadth"), ("{}", "{} × SH")):
            deviation = MOMENTS[family][name][1]
            wanted = np.array(scored[label.format(name)][:2])
            off = {other: np.abs(np.array(found[:2]) * deviation - wanted).max() for other, found in raw.items()}
            assert min(off, key=lambda other: off[other]) == label.format(name), (family, model)


def test_differences_and_ratios_are_those_of_table_2() -> None:
    levels = figures("2")
    for (dataset,), by_model in figures("2 ratios").items():
        for model, found in by_model.items():
            (fh, *fh_tokens), (sh, *sh_tokens) = (levels[dataset, planner][model] for planner in ("FH", "SH"))
            assert found[0] == pytest.approx(sh - fh, abs=0.0011)
            for ratio, above, below in zip(found[1:], sh_tokens, fh_tokens, strict=True):
                assert ratio == pytest.approx(above / below, abs=0.06)


@pytest.mark.skipif(not os.environ.get(CODE), reason=f"{CODE} names no checkout of the paper's code")
def test_table_3_is_what_the_official_notebook_printed() -> None:
    """Stars and all; its table has them in the order of our rows."""
    path = Path(os.environ[CODE]) / "notebooks" / "sec4p3_topological-complexity-analysis.ipynb"
    outputs = [output for cell in json.loads(path.read_text())["cells"] for output in cell.get("outputs", [])]
    texts = ["".join(output.get("data", {}).get("text/plain", "")) for output in outputs]
    (printed,) = [text for text in texts if "Is SH?" in text.partition("\n")[0] and "coef" not in text]
    found = {}
    for line in printed.splitlines()[1:]:
        family, model, rest = re.fullmatch(r"\d+\s+(\S+(?: \S+)?)\s+(\S+)\s+(.*)", line).groups()  # type: ignore[union-attr]
        found[family, model] = rest.split()
    for (family, label), by_model in figures("3").items():
        for model, one in by_model.items():
            stars = published._shown(one).partition(" ")[0]
            assert f"{'' if stars.startswith('-') else '+'}{stars}" == found[family, model][LABELS.index(label)]


def by_labels(table: Table) -> dict[tuple[str, str], dict[str, str]]:
    if "model" in table.labels:
        return {(row[table.labels[0]], row[table.labels[1]]): row for row in by_metric(table)}
    names = [*table.labels, *table.figures]
    return {(row[0], row[1]): dict(zip(names, row, strict=True)) for row in table.rows}


def fitted(frame: pd.DataFrame) -> dict[str, Table]:
    return {
        table.name.split()[-1]: table
        for table in published.coefficient_tables(regression.fits(frame, PLANNING_HORIZON), "query")
    }


@pytest.mark.long
@pytest.mark.parametrize("studies", [6, pytest.param(12, marks=pytest.mark.slow)])
def test_planted_effects_come_back_family_by_family(studies: int) -> None:
    """Means over studies of each coefficient, levels and HotpotQA's controls among them, near what was planted."""
    estimates: dict[str, list[pd.DataFrame]] = {}
    for seed in range(studies):
        frame = pd.concat([families.episodes(family, seed, 220) for family in families.FAMILIES])
        for key, fit in regression.fits(frame, PLANNING_HORIZON):
            assert isinstance(fit, regression.Fit), fit
            estimates.setdefault(key["family"], []).append(fit.coefficients.set_index("name"))
    assert set(estimates) == set(families.FAMILIES)
    held = []
    for family, found in estimates.items():
        names = list(found[0].index)
        truth = families.truth(names)
        assert ("has_bridge[T.True]" in names) == (family == "hotpotqa_multi") == ("last_step[T.merge]" not in names)
        assert ("dataset[T.webqsp]" in names) == (family == "atomic_kbqa")
        values = pd.DataFrame([one["coefficient"] for one in found])
        error = values.std() / np.sqrt(len(found))
        assert ((values.mean() - truth[names]).abs() < 4 * error).all(), (values.mean(), truth)
        held += [((one["low"] <= truth) & (truth <= one["high"])).mean() for one in found]
    assert 0.9 <= np.mean(held) <= 0.98


def test_ours_stand_beside_the_papers_coefficients() -> None:
    frame = pd.concat([families.episodes(family, 0, 150) for family in ("kqa_synthetic", "hotpotqa_multi")])
    fits = regression.coefficients(regression.fits(frame, PLANNING_HORIZON)).to_dict("records")
    every: dict[tuple[str, str], dict[Any, Any]] = {(one["family"], one["name"]): one for one in fits}
    found = fitted(frame)
    rows = by_labels(found["3"])
    assert list(rows) == [(family, label) for family in ("KQA Pro", "Mul. HotpotQA") for label in LABELS]
    assert (
        "the paper's rows of Atomic KBQA are left out, because this folder has no results on their data"
        in found["3"].notes
    )
    own = every["hotpotqa_multi", "SH"]
    row = rows["Mul. HotpotQA", "SH"]
    assert row["lexical (ours)"] == regression.starred(own["coefficient"], own["se"], own["p"])
    assert (row["clusters"], row["our family"]) == ("150", "hotpotqa_multi")
    assert row["GPT-5-mini"] == "-0.057 (0.048)"
    assert rows["KQA Pro", "depth"]["GPT-4.1-mini"] == "-0.646** (0.128)"
    raw = by_labels(found["C.1"])["KQA Pro", "depth"]["lexical (ours)"]
    assert raw.startswith(f"{every['kqa_synthetic', 'depth_edges']['raw_coefficient']:.3f}")


def test_a_level_stands_beside_the_papers_only_against_the_same_reference() -> None:
    frame = families.episodes("atomic_kbqa", 0, 150)
    merge = ("Atomic KBQA", "last step merge")
    assert by_labels(fitted(frame)["C.1"])[merge]["lexical (ours)"] != "–"
    moved = frame.assign(last_step=frame["last_step"].replace("count", "zero"))
    rows = by_labels(fitted(moved)["C.1"])
    assert rows[merge]["lexical (ours)"] == "–"
    assert rows[merge]["GPT-4.1-mini"] == "-1.000** (0.243)"
    assert rows["Atomic KBQA", "data set WebQSP"]["lexical (ours)"] != "–", "its reference is GrailQA still"
    assert rows["Atomic KBQA", "Intercept"]["GPT-4.1-mini"] == "–", "not printed in the paper"


def test_a_separated_level_of_ours_is_shown_as_infinite() -> None:
    frame = families.episodes("atomic_kbqa", 0, 150)
    always = frame["last_step"] == "order"
    rows = by_labels(fitted(frame.assign(success=frame["success"].mask(always, 1.0)))["C.1"])
    assert rows["Atomic KBQA", "last step order"]["lexical (ours)"] == "+inf"


def test_fits_of_other_settings_and_refused_ones_stand_beside_nothing() -> None:
    assert fitted(families.episodes("atomic_kbqa", 0, 150).assign(robustness="tools_strict")) == {}
    assert fitted(families.episodes("atomic_kbqa", 0, 8)) == {}
    assert fitted(families.episodes("agentbench_kg", 0, 150)) == {}, "the paper has no such data"


def beside(root: Path, table: Published) -> Table:
    (found,) = published.tables(root, [table])
    return found


def test_what_strict_tools_cost_stands_beside_table_4(tmp_path: Path) -> None:
    """Case by case: those of one setting alone are in no difference."""
    rows = families.episodes("hotpotqa_multi", 0, 20, trials=1).sort_values(["planner", "case"])
    rows["success"] = rows.groupby("planner").cumcount() < 10
    strict = rows.assign(robustness="tools_strict", success=rows.groupby("planner").cumcount() < 5)
    strict = strict[strict["case"] < 16]
    frame = pd.concat([rows, strict]).drop(columns=["case", "control", "nodes"])
    store.write(tmp_path, {"episodes": [simulated.row(row) for row in frame.to_dict("records")]})
    table = beside(tmp_path, TABLES["4"])
    found = by_labels(table)
    assert list(found) == [("Mul. HotpotQA", "FH"), ("Mul. HotpotQA", "SH")]
    row = found["Mul. HotpotQA", "SH"]
    assert (row["cases"], row["our setting"]) == ("16", "sh")
    assert row["lexical (ours)"].startswith(f"{-5 / 16:+.3f} [")
    assert row["Gemini-3-Flash"] == "-0.190"
    (left_out,) = [note for note in table.notes if "left out" in note]
    assert left_out == (
        "the paper's rows of KQA Pro, GrailQA, WebQSP, GraphQ are left out, because this folder has no results on "
        "their data"
    )


def test_table_4_takes_changed_settings_where_there_are_no_others(tmp_path: Path) -> None:
    rows = families.episodes("hotpotqa_multi", 0, 20, trials=1).drop(columns=["case", "control", "nodes"])
    for name in ("tools_forgiving[judge=true]", "tools_strict[candidates=2]"):
        own = rows.assign(robustness=name, success=name.startswith("tools_f"))
        store.write(tmp_path, {"episodes": [simulated.row(row) for row in own.to_dict("records")]})
    row = by_labels(beside(tmp_path, TABLES["4"]))["Mul. HotpotQA", "FH"]
    assert row["lexical (ours)"].startswith("-1.000 [")
    assert row["our setting"] == "fh / tools_strict[candidates=2]"


def test_without_the_other_setting_there_is_no_difference(tmp_path: Path) -> None:
    frame = families.episodes("hotpotqa_multi", 0, 20, robustness="tools_strict")
    rows = frame.drop(columns=["case", "control", "nodes"]).to_dict("records")
    store.write(tmp_path, {"episodes": [simulated.row(row) for row in rows]})
    assert published.tables(tmp_path, [TABLES["4"]]) == []


@pytest.mark.long
def test_made_up_data_are_told_beside_the_papers(tmp_path: Path) -> None:
    families.write(tmp_path, ["kqa_synthetic", "atomic_kbqa", "hotpotqa_multi"], count=10)
    notes = beside(tmp_path, TABLES["2"]).notes
    told = {
        note.rpartition(":")[0]
        for note in notes
        if note.endswith("can be compared with the paper's, but absolute values cannot")
    }
    facts = {f"{name} ({SYNTHETIC})" for name in families.FAMILIES["atomic_kbqa"]}
    assert told == {"kqa_synthetic (synthetic, generated here from a seed)", *facts}
    tables_of = {table.title: table for table in print_report(tmp_path, Console(file=io.StringIO()))}
    named = {title: table.caption.partition(": real questions")[0] for title, table in tables_of.items()}
    assert named["planning_horizon, table 2, published values beside ours: accuracy and tokens, forgiving tools"] == (
        "grailqa, graphquestions, webqsp"
    )
    assert named["lexical on grailqa"] == "grailqa"
    for other in ("lexical on kqa_synthetic", "lexical on hotpotqa_multi"):
        assert "real questions" not in tables_of[other].caption
