"""The GEE recovers known coefficients, equals R's geepack, and says what it cannot know."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

from analysis.errors import AnalysisError
from analysis.stats import design, spec
from analysis.stats.spec import spelt_out
from analysis.tables import regression
from grid.core.types import to_json
from tests.support import simulated

ROOT = Path(__file__).parents[3]
SAVED = ROOT / "tests" / "data" / "geepack"
PLANNING_HORIZON = spec.load(ROOT / "conf" / "analysis" / "planning_horizon.yaml")
CALLS = PLANNING_HORIZON.model_copy(
    update={"formula": "success ~ depth * SH + breadth * SH + C(last_step) + C(dataset)"}
)
"""With depth and breadth as tests/support/simulated.py plants their coefficients."""
TOGETHER = {"both": ["kqapro", "grailqa"]}
PLAIN = PLANNING_HORIZON.model_copy(update={"formula": "success ~ depth * SH + breadth * SH"})


def fitted(frame: pd.DataFrame, of: spec.Spec = PLANNING_HORIZON) -> regression.Fit:
    ((_, found),) = regression.fits(frame, of)
    assert isinstance(found, regression.Fit), found
    return found


def refused(frame: pd.DataFrame, of: spec.Spec = PLANNING_HORIZON) -> str:
    ((_, found),) = regression.fits(frame, of)
    assert isinstance(found, regression.Refused), found
    return found.reason


def changed(**changes: Any) -> spec.Spec:
    return spec.parsed(PLANNING_HORIZON.model_dump() | changes)


def test_equals_geepack() -> None:
    rows = pd.read_csv(SAVED / "episodes.csv").assign(model="lexical", robustness="tools_forgiving")
    rows["cluster"] = rows["case_id"]
    scored = {"columns": ["depth", "breadth"], "within": ["dataset"]}
    of = changed(formula=CALLS.formula, families=TOGETHER, z_scored=scored, few_clusters="none")
    ours = fitted(rows, of).coefficients.set_index("name")
    theirs = pd.read_csv(SAVED / "geepack.csv").set_index("name")
    assert set(ours.index) == set(theirs.index)
    for column in theirs:
        assert ours[column].to_dict() == pytest.approx(theirs[column].to_dict(), abs=1e-6), column


@pytest.mark.long
@pytest.mark.parametrize(("studies", "least"), [(50, 0.88), pytest.param(200, 0.92, marks=pytest.mark.slow)])
def test_intervals_cover_known_coefficients(studies: int, least: float) -> None:
    """Of 300 intervals 95% hold the truth, give or take 1.5: errors a tenth too small show, and those 15% too large."""
    held = []
    for seed in range(studies):
        found = fitted(simulated.episodes(seed, 200), PLAIN).coefficients.set_index("name")
        truth = pd.Series(simulated.TRUTH)[found.index]
        held.append((found["low"] <= truth) & (truth <= found["high"]))
    shares = pd.DataFrame(held).mean()
    assert set(shares.index) == set(simulated.TRUTH)
    assert 0.93 <= shares.mean() <= 0.97
    assert shares.min() >= least, shares


@pytest.mark.slow
def test_corrected_intervals_of_few_clusters_cover_too() -> None:
    uncorrected = PLAIN.model_copy(update={"few_clusters": "none"})
    frames = [simulated.episodes(seed, 30) for seed in range(200)]
    shares = {}
    for name, of in (("corrected", PLAIN), ("uncorrected", uncorrected)):
        found = [fit for frame in frames for _, fit in regression.fits(frame, of) if isinstance(fit, regression.Fit)]
        assert len(found) > 180
        tables = [fit.coefficients.set_index("name") for fit in found]
        truth = pd.Series(simulated.TRUTH)[tables[0].index]
        shares[name] = np.mean([((t["low"] <= truth) & (truth <= t["high"])).mean() for t in tables])
    assert shares["uncorrected"] + 0.01 < shares["corrected"], "of the same studies"
    assert 0.93 <= shares["corrected"] <= 0.98


@pytest.mark.slow
def test_intervals_over_clusters_cover_and_those_over_cases_do_not() -> None:
    """66 or so templates of 1 to 8 questions, on which a planner's successes are correlated."""
    frames = [simulated.episodes(seed, 300, within=0.3, largest=8, between=0.3) for seed in range(1000, 1300)]
    over_cases = PLAIN.model_copy(update={"cluster": ["dataset", "case_id"]})
    shares = {}
    for name, of in (("clusters", PLAIN), ("cases", over_cases)):
        tables = [fitted(frame, of).coefficients.set_index("name") for frame in frames]
        truth = pd.Series(simulated.TRUTH)[tables[0].index]
        shares[name] = pd.DataFrame([(t["low"] <= truth) & (truth <= t["high"]) for t in tables]).mean()
    assert 0.93 <= shares["clusters"].mean() <= 0.97
    assert shares["clusters"].between(0.91, 0.98).all(), shares
    assert (shares["cases"][["Intercept", "SH"]] < 0.85).all(), "what varies between templates alone"


def test_questions_that_share_a_template_count_once() -> None:
    frame = simulated.episodes(0, 200, largest=8, between=0.3)
    found = fitted(frame, PLAIN)
    assert found.clusters == frame["cluster"].nunique() < 60
    alone = fitted(frame.assign(cluster=frame["case_id"]), PLAIN).coefficients.set_index("name")
    assert found.coefficients.set_index("name")["se"]["SH"] > 1.2 * alone["se"]["SH"]


@pytest.mark.parametrize("count", [50, 120])
def test_a_level_that_stands_in_one_question_is_pooled_and_said(count: int) -> None:
    """With few clusters statsmodels fails on it; with many it gives an error that knows nothing of it."""
    frame = simulated.episodes(0, count)
    rare = frame["case_id"] == "case-3"
    frame["last_step"] = frame["last_step"].mask(rare, "Rare")
    frame.loc[frame.index[rare][:2], "success"] = [0.0, 1.0]
    found = fitted(frame)
    fewest = frame[~rare].groupby("last_step")["cluster"].nunique().sort_values(kind="stable").index[0]
    told = f"last_step: 2 levels are pooled as 'other', because each level needs 3 clusters: Rare, {fewest}"
    assert told in found.notes
    assert found.rows == found.rows_in == len(frame)
    names = set(found.coefficients["name"])
    assert "last_step[T.other]" in names
    assert not {"last_step[T.Rare]", f"last_step[T.{fewest}]"} & names


def test_pooling_is_what_pooled_data_give() -> None:
    frame = simulated.episodes(0, 120).assign(last_step=lambda rows: rows["last_step"].astype(str))
    rare = {f"case-{place}": f"Rare{place}" for place in range(4)}
    frame["last_step"] = frame["case_id"].map(rare).fillna(frame["last_step"])
    by_hand = frame.assign(last_step=frame["last_step"].where(~frame["case_id"].isin(list(rare)), "other"))
    ours, theirs = fitted(frame), fitted(by_hand)
    pd.testing.assert_frame_equal(ours.coefficients, theirs.coefficients)
    assert ours.references == theirs.references == {"last_step": "Count", "dataset": "kqa_synthetic"}
    assert not any("pooled" in note for note in theirs.notes)


def test_levels_may_be_any_texts() -> None:
    """The matrix by hand, of texts that mean something to formulaic, to Python or in a name."""
    texts = ["__import__('os').abort()", "__x", "{name}", "a:b", "x]", "`q`", "", "\n", "T.x", "1", "nan"]
    rows = pd.DataFrame({"f": texts * 6, "g": ["p", "q", "__r"] * 22, "a": np.arange(66.0)})
    formula = spec.parse("y ~ a * C(f) + C(f) * C(g)", ["y", "a", "f", "g"])
    names, matrix = design._matrix(rows, formula, {"f": "a:b", "g": "q"})
    levels = {
        name: {f"{name}[T.{text}]": rows[name] == text for text in sorted(set(rows[name])) if text != base}
        for name, base in (("f", "a:b"), ("g", "q"))
    }
    wanted = {"Intercept": 1.0, "a": rows["a"], **levels["f"], **levels["g"]}
    wanted |= {f"a:{name}": rows["a"] * holds for name, holds in levels["f"].items()}
    wanted |= {f"{f}:{g}": one & other for g, other in levels["g"].items() for f, one in levels["f"].items()}
    assert names == [*wanted]
    np.testing.assert_array_equal(matrix, pd.DataFrame(wanted, index=rows.index).to_numpy(dtype=np.float64))


def test_a_pool_is_no_level_of_its_name_and_takes_no_reference() -> None:
    frame = simulated.episodes(0, 120)
    frame["last_step"] = frame["last_step"].replace({"Count": "other"})
    rare = frame["case_id"].isin(["case-0", "case-1", "case-2"])
    frame["last_step"] = frame["last_step"].mask(rare, "A" + frame["case_id"])
    found = fitted(frame, changed(reference={"last_step": "Acase-1"}))
    assert {"last_step[T.other']", "last_step[T.other]"} <= set(found.coefficients["name"])
    assert (
        "last_step: the reference level is QueryAttr, because Acase-1 does not occur, was pooled or was left out"
        in found.notes
    )


def test_clusters_too_few_for_the_formula_pool_its_levels_further() -> None:
    """Of 9 coefficients 40 clusters carry 8; what is pooled does not depend on outcomes."""
    frame = simulated.episodes(0, 40)
    found = fitted(frame)
    (note,) = [note for note in found.notes if "each coefficient needs 5 clusters" in note]
    assert "2 levels are pooled as 'other'" in note
    assert len(found.coefficients) == 8
    assert any(note in fitted(frame.assign(success=1 - frame["success"])).notes for _ in "1")
    alone = fitted(simulated.episodes(0, 30))
    assert "last_step has no coefficient, because all of its levels are pooled" in alone.notes
    assert len(alone.coefficients) == 6


@pytest.mark.parametrize("count", [5, 12, 29])
def test_below_5_clusters_a_coefficient_it_says_what_to_run(count: int) -> None:
    times = f"{30 / count:.1f}"
    assert refused(simulated.episodes(1, count), PLAIN) == (
        f"{count} clusters are too few for 6 coefficients, which need 5 clusters each; run cases of 30 clusters or "
        f"more (about {times} times as many cases), or fit a shorter formula"
    )


def test_families_are_fitted_together_and_changed_datasets_apart() -> None:
    names = ["kqapro", "grailqa", "kqapro[seed=1]", "kqa_synthetic"]
    frame = pd.concat([simulated.episodes(seed, 60).assign(dataset=name) for seed, name in enumerate(names)])
    found = {key["family"]: fit for key, fit in regression.fits(frame, changed(families=TOGETHER))}
    assert list(found) == ["both", "both[seed=1]", "kqa_synthetic"]
    for name, rows in (("both", 720), ("both[seed=1]", 360), ("kqa_synthetic", 360)):
        fit = found[name]
        assert isinstance(fit, regression.Fit)
        assert fit.rows == rows
        assert ("dataset[T.kqapro]" in set(fit.coefficients["name"])) == (name == "both")


def test_z_scores_are_taken_within_family_and_model() -> None:
    near, far = simulated.episodes(0, 60), simulated.episodes(1, 60).assign(dataset="other")
    moved = far.assign(depth_edges=far["depth_edges"] * 10 + 3)
    apart, moved_apart = (regression.fits(pd.concat([near, part]), PLANNING_HORIZON) for part in (far, moved))
    for (_, before), (_, after) in zip(apart, moved_apart, strict=True):
        assert isinstance(before, regression.Fit)
        assert isinstance(after, regression.Fit)
        pd.testing.assert_frame_equal(before.coefficients[regression.FIGURES], after.coefficients[regression.FIGURES])
    together = changed(families={"both": ["kqa_synthetic", "other"]})
    one, another = (fitted(pd.concat([near, part]), together).coefficients for part in (far, moved))
    assert not np.allclose(one["coefficient"], another["coefficient"])


def official(frame: pd.DataFrame, cov_struct: Any = None, z_scored: bool = True) -> Any:
    """As the paper's official code calls statsmodels: z-scores, then the formula; clusters are questions."""
    frame = frame.assign(SH=(frame["planner"] == "sh").astype(int))
    for name in ("depth_edges", "breadth_edges") if z_scored else ():
        frame[name] = (frame[name] - frame[name].mean()) / frame[name].std(ddof=0)
    formula = "success ~ depth_edges * SH + breadth_edges * SH + C(last_step)"
    more = {"cov_struct": cov_struct} if cov_struct else {}
    binomial = sm.families.Binomial()
    return smf.gee(formula=formula, groups="case_id", data=frame, family=binomial, **more).fit()


@pytest.mark.parametrize("correlation", ["independence", "exchangeable"])
def test_equals_statsmodels_formulas_in_z_scores_and_raw_units(correlation: str) -> None:
    frame = simulated.episodes(5, 160)
    ours = fitted(frame, changed(correlation=correlation)).coefficients.set_index("name")
    for z_scored, prefix in ((True, ""), (False, "raw_")):
        cov_struct = sm.cov_struct.Exchangeable() if correlation == "exchangeable" else None
        theirs = official(frame, cov_struct, z_scored)
        names = theirs.params.index.str.replace("C(last_step)", "last_step", regex=False)
        near = 1e-9 if correlation == "independence" else 1e-6  # it stops within a tolerance, elsewhere for raw units
        for figure, values in (("coefficient", theirs.params), ("se", theirs.bse), ("p", theirs.pvalues)):
            expected = dict(zip(names, values, strict=True))
            assert ours[prefix + figure].to_dict() == pytest.approx(expected, abs=near, rel=near), figure


def test_bias_reduced_errors_are_statsmodels_own() -> None:
    frame = simulated.episodes(5, 100)
    ours = fitted(frame).coefficients.set_index("name")["se"]
    theirs = official(frame).model.fit(cov_type="bias_reduced")
    assert list(ours[theirs.params.index.str.replace("C(last_step)", "last_step", regex=False)]) == pytest.approx(
        list(theirs.bse), rel=1e-6
    )


def test_raw_units_of_several_slices_are_none() -> None:
    frame = pd.concat([simulated.episodes(seed, 60).assign(model=name) for seed, name in enumerate("ab")])
    found = fitted(frame, changed(per=["robustness"]))
    assert found.coefficients[regression.RAW].isna().all(axis=None)
    assert "no coefficients in raw units, because z-scores were computed within several slices" in found.notes


def test_holm_corrects_over_the_coefficients_of_table_3_in_all_fits() -> None:
    frame = pd.concat([simulated.episodes(seed, 60).assign(model=name) for seed, name in enumerate("abc")])
    every = regression.coefficients(regression.fits(frame, PLANNING_HORIZON))
    tested = every.dropna(subset="p_holm").sort_values("p")
    assert len(tested) == 3 * 5
    assert not any("[T." in name or name == "Intercept" for name in tested["name"])
    least = [min(1.0, p * (15 - place)) for place, p in enumerate(tested["p"])]
    assert tested["p_holm"].to_list() == pytest.approx(np.maximum.accumulate(least))


def test_few_clusters_are_corrected_and_said() -> None:
    frame = simulated.episodes(0, 32)
    found, plain = fitted(frame, PLAIN), fitted(frame, PLAIN.model_copy(update={"few_clusters": "none"}))
    assert any("only 32 clusters, so standard errors come from a bias-reduced" in note for note in found.notes)
    assert any("only 32 clusters, and standard errors are not corrected" in note for note in plain.notes)
    ours, theirs = found.coefficients, plain.coefficients
    assert ours["coefficient"].to_list() == pytest.approx(theirs["coefficient"].to_list())
    assert (ours["high"] - ours["low"] > 1.05 * (theirs["high"] - theirs["low"])).all()
    assert [note for note in fitted(simulated.episodes(0, 149), PLAIN).notes if "clusters" in note]
    assert not [note for note in fitted(simulated.episodes(0, 150), PLAIN).notes if "clusters" in note]


def with_types(frame: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Questions with a bridge, a comparison or both, as multi-objective HotpotQA has them."""
    rng = np.random.default_rng(seed)
    kinds = {case: rng.choice(["bridge", "comparison", "both"]) for case in frame["case_id"].unique()}
    kind = frame["case_id"].map(kinds)
    found = [to_json({"has_bridge": one != "comparison", "has_comparison": one != "bridge"}) for one in kind]
    return frame.assign(controls=found, bridge=kind != "comparison", comparison=kind != "bridge")


def test_cases_own_controls_take_the_last_steps_place() -> None:
    """As the paper's formula (6) for HotpotQA, in statsmodels' words."""
    frame = with_types(simulated.episodes(7, 200))
    ours = fitted(frame).coefficients.set_index("name")
    assert not any("last_step" in name for name in ours.index)
    scored = frame.assign(SH=(frame["planner"] == "sh").astype(int))
    for name in ("depth_edges", "breadth_edges"):
        scored[name] = simulated.z(scored[name])
    formula = "success ~ depth_edges * SH + breadth_edges * SH + bridge + comparison"
    theirs = smf.gee(formula=formula, groups="case_id", data=scored, family=sm.families.Binomial()).fit()
    expected = {f"has_{name}" if "[T.True]" in name else name: value for name, value in theirs.params.items()}
    assert ours["coefficient"].to_dict() == pytest.approx(expected, abs=1e-9)


def test_every_family_has_its_own_controls() -> None:
    """What one family's data set gives is no control of another, and a case without what others have is left out."""
    hotpot = with_types(simulated.episodes(0, 60)).assign(dataset="hotpotqa_multi")
    hotpot.loc[hotpot["case_id"] == "case-3", "controls"] = None
    found = {
        key["family"]: fit
        for key, fit in regression.fits(pd.concat([hotpot, simulated.episodes(1, 60)]), PLANNING_HORIZON)
    }
    names = {family: set(fit.references) for family, fit in found.items() if isinstance(fit, regression.Fit)}
    assert names == {
        "hotpotqa_multi": {"has_bridge", "has_comparison", "dataset"}, "kqa_synthetic": {"last_step", "dataset"}
    }  # fmt: skip
    assert isinstance(found["hotpotqa_multi"], regression.Fit)
    assert "6 rows left out: no has_bridge" in found["hotpotqa_multi"].notes


@pytest.mark.parametrize(
    ("text", "told"),
    [("[1]", "not a mapping"), ('{"a": 1}', "not a mapping"), ("{", "not a mapping"), ("[" * 100_000, "not a mapping"),
     ('{"SH": "x"}', "SH"), ('{"a b": "x"}', "a b"), ('{"success": true}', "success")],
)  # fmt: skip
def test_controls_that_are_none_are_refused_by_name(text: str, told: str) -> None:
    reason = refused(simulated.episodes(0, 60).assign(controls=text))
    assert reason.startswith("controls: ")
    assert told in reason


def test_where_all_plans_are_equally_deep_the_rest_is_fitted() -> None:
    """As of HotpotQA, whose plans are wide alone."""
    frame = simulated.episodes(0, 60).assign(depth_edges=1.0)
    found = fitted(frame)
    assert "depth_edges is 1 in all 360 rows, so it and its products have no coefficient" in found.notes
    shorter = changed(formula="success ~ SH + breadth_edges * SH + controls + C(dataset)")
    pd.testing.assert_frame_equal(found.coefficients, fitted(frame, shorter).coefficients)
    flat = refused(frame, changed(formula="success ~ depth_edges"))
    assert flat == "nothing varies, because each of depth_edges has a single value in all 360 rows"


def test_lost_rows_are_counted_by_reason() -> None:
    frame = simulated.episodes(0, 60).assign(error_kind=None)
    frame.loc[frame.index[:4], ["success", "error_kind"]] = [None, "infrastructure"]
    frame.loc[frame.index[6:9], "success"] = np.nan
    frame.loc[frame["case_id"] == "case-50", "last_step"] = None
    found = fitted(frame)
    assert (found.rows_in, found.rows) == (360, 347)
    assert (found.clusters_in, found.clusters) == (60, 59)
    assert set(found.notes) == {
        "4 rows left out: no success: infrastructure error",
        "3 rows left out: no success",
        "6 rows left out: no last_step",
        "there are only 59 clusters, so standard errors come from a bias-reduced covariance (Mancl and DeRouen 2001)",
    }


def separated() -> pd.DataFrame:
    frame = simulated.episodes(0, 100)
    always, never = frame["last_step"] == "QueryName", frame["last_step"] == "SelectAmong"
    return frame.assign(success=frame["success"].mask(always, 1.0).mask(never, 0.0))


def test_separated_levels_are_left_out_and_marked() -> None:
    frame = separated()
    found = fitted(frame)
    table = found.coefficients.set_index("name")
    assert table["coefficient"]["last_step[T.QueryName]"] == np.inf
    assert table["coefficient"]["last_step[T.SelectAmong]"] == -np.inf
    assert table.loc["last_step[T.QueryName]", ["se", "p", "low", "high"]].isna().all()
    size = int((frame["last_step"] == "QueryName").sum())
    assert f"last_step[T.QueryName] = +inf: all {size} rows have success 1" in found.notes
    assert table["se"].drop(["last_step[T.QueryName]", "last_step[T.SelectAmong]"]).between(0.05, 2).all()


def test_leaving_separated_levels_out_changes_no_other_coefficient() -> None:
    """Plain maximum likelihood pushes theirs towards infinity; the others', and their errors, come out the same."""
    frame = separated()
    ours = fitted(frame, changed(few_clusters="none")).coefficients.set_index("name")
    frame, formula = spelt_out(frame, PLANNING_HORIZON.parsed)
    rows = design._with_indicators(frame.assign(family="kqa_synthetic"), PLANNING_HORIZON)
    whole, _ = design._z_scored(rows, ["depth_edges", "breadth_edges"], PLANNING_HORIZON)
    bases = {"last_step": "Count", "dataset": "kqa_synthetic"}
    names, matrix = design._matrix(whole, formula, bases)
    clusters = frame.groupby("case_id").ngroup().to_numpy().astype(np.int64)
    plain = design.Design(names, matrix, frame["success"].to_numpy(), clusters, 0, 0, {}, {}, bases, [], None)
    params, covariance = regression.estimate(plain, "independence", bias_reduced=False)
    for name, value, error in zip(names, params, np.sqrt(np.diag(covariance)), strict=True):
        if not np.isinf(ours["coefficient"][name]):
            assert ours["coefficient"][name] == pytest.approx(value, abs=1e-5)
            assert ours["se"][name] == pytest.approx(error, abs=1e-5)
        else:
            assert abs(value) > 15, "what statsmodels says of a separated level, without a word"


def test_separation_can_be_refused() -> None:
    reason = refused(separated(), changed(separation="refuse"))
    assert "separation: last_step=QueryName" in reason


def test_a_reference_level_that_is_separated_gives_its_place_to_another() -> None:
    names = fitted(separated(), changed(reference={"last_step": "QueryName"})).coefficients["name"].to_list()
    assert "last_step[T.QueryAttr]" in names
    assert "last_step[T.Count]" not in names


def test_separation_by_the_planner_is_refused_by_name() -> None:
    frame = simulated.episodes(0, 60)
    frame["success"] = frame["success"].mask(frame["planner"] == "sh", 1.0)
    reason = refused(frame, PLAIN)
    assert reason.startswith("separation: ")
    assert "SH" in reason


def test_separation_by_a_number_is_refused_by_name() -> None:
    frame = simulated.episodes(0, 60)
    reason = refused(frame.assign(success=(frame["depth"] > 4).astype(float)), changed(formula="success ~ depth"))
    assert reason == "separation: all outcomes are predicted without error by depth" or "Intercept, depth" in reason


def test_quasi_separation_is_refused_too() -> None:
    frame = simulated.episodes(0, 60)
    deep = frame["depth"] > 4
    mixed = frame["success"].where(frame["depth"] == 4, deep.astype(float))
    assert "separation" in refused(frame.assign(success=mixed), changed(formula="success ~ depth"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.assign(success=1.0), "success is 1 in all 360 rows"),
        (lambda frame: frame.assign(cluster="template-0"), "one cluster"),
        (lambda frame: frame.assign(success=0.5), "must be 0 or 1"),
        (lambda frame: frame.assign(success=np.nan), "no rows are left"),
        (lambda frame: frame.assign(breadth=frame["depth"] * 2), "follow from other columns"),
        (lambda frame: frame[frame["planner"] == "fh"], "SH is 0 in all 180 rows"),
        (lambda frame: frame[frame["case_id"].isin(["case-0", "case-1"])], "2 clusters are too few"),
        (lambda frame: frame.assign(depth=np.inf), "no rows are left"),
    ],
)
def test_data_that_cannot_carry_the_formula(change: Any, message: str) -> None:
    assert message in refused(change(simulated.episodes(3, 60)), PLAIN)


def test_one_refusal_does_not_keep_other_models_from_being_fitted() -> None:
    frame = simulated.episodes(0, 60)
    frame = pd.concat([frame.assign(success=1.0, model="perfect"), frame])
    kinds = {key["model"]: type(found) for key, found in regression.fits(frame, PLANNING_HORIZON)}
    assert kinds == {"perfect": regression.Refused, "lexical": regression.Fit}


def test_a_fit_that_does_not_converge_is_named() -> None:
    with pytest.raises(AnalysisError, match="did not converge"):
        regression.settled(SimpleNamespace(converged=False, score_norm=1.0), bias_reduced=False)
    with pytest.raises(AnalysisError, match="did not converge"):
        regression.settled(SimpleNamespace(converged=True, score_norm=-1.0), bias_reduced=False)


def test_a_fit_that_returns_nothing_is_named() -> None:
    with pytest.raises(AnalysisError, match="returned no fit"):
        regression.settled(None, bias_reduced=False)


def test_a_frame_without_a_column_is_an_error_that_names_it() -> None:
    with pytest.raises(AnalysisError, match="no column 'last_step'"):
        regression.fits(simulated.episodes(0, 60).drop(columns="last_step"), PLANNING_HORIZON)


def test_a_level_alone_is_pooled_with_nobody() -> None:
    assert design._rare(pd.Series([1], index=["only"])) == []
    assert design._rare(pd.Series([1, 1, 90], index=["a", "b", "c"])) == ["a", "b", "c"], "until these are enough"


@pytest.mark.parametrize(("key", "said"), [({}, "all rows"), ({"dataset": "slate", "model": "m"}, "slate, m")])
def test_notes_say_of_which_rows_a_fit_was(key: dict[str, str], said: str) -> None:
    refusal: regression.Fit | regression.Refused = regression.Refused("too few")
    fits = [(key, refusal), ({"dataset": "other"}, fitted(simulated.episodes(40)))]
    table, *_ = regression.tables(("title", "title"), PLANNING_HORIZON, fits, "SELECT")
    assert table.notes[0] == f"{said}: not fitted: too few"
