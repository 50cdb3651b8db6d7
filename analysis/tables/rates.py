"""The tables at the end of every sweep: rates, costs, and paired differences of planners and of models."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
import pyarrow as pa

from analysis.load import SETTING, name_of, spending, unknowns
from analysis.load.queries import Asked, ask, of_cases, of_settings
from analysis.page.table import (
    MISSING,
    POINTS,
    Column,
    Row,
    Table,
    bounded,
    bounds,
    count,
    marks,
    mean,
    number,
    probability,
)
from analysis.stats import intervals
from analysis.stats.intervals import CLUSTER, cohens_h, holm, interval, n_clusters, p_value, ratio, share
from analysis.stats.latent import Counts
from analysis.stats.power import MOST, settling

RATES = ["success", "tool_match_rate", "action_accuracy"]
PAIRED = ["success", "tool_match_rate"]
CHECKS = "resolved_checks"
COSTS = [
    "input_tokens", "cached_input_tokens", "output_tokens", "llm_calls", "forward_passes", "cancelled_llm_calls",
    "judge_input_tokens", "judge_output_tokens", "judge_calls", "judge_passes", "wall_seconds", CHECKS,
    "branched_steps", "money", "unassigned",
]  # fmt: skip
TIMES = "times_tokens"
"""The column with a planner's tokens as a multiple of the reference planner's tokens."""
REFERENCE = "react"
"""The planner with which the other planners are compared."""
EVERY_PLANNER = "all planners"
"""The label of a row over all planners."""
_GROUP = SETTING[:3]
_FURTHER = (["success_solvable"], [unknowns.LEAST, unknowns.LARGEST])


def by_case(cells: pd.DataFrame, condition: str = "true") -> Asked:
    """Means over trials by setting and case, from which rates, differences, pass^k and token ratios are computed.

    Columns, each only if the cells have its values: `cells`, `tried` (cells whose success is known), `won` (successes
    among these), RATES, CHECKS, `money`, `tokens` of all roles, `success_solvable`, `success_least` and `success_most`,
    and for each rate RATE_differs (whether the case's trials differ in it).
    """
    rates = [name for name in RATES if name in cells]
    values = {name: name for name in (*rates, CHECKS, "money") if name in cells}
    if set(spending.SPENT) <= set(cells):
        values["tokens"] = spending.SQL
    further = [
        "count(success) AS tried, coalesce(sum(success::DOUBLE), 0) AS won",
        *["avg(success::DOUBLE) FILTER (solvable::BOOLEAN) AS success_solvable"] * ("solvable" in cells),
        *[
            f"avg(if(unknown, {value}, success::DOUBLE)) AS {name}"
            for name, value in ((unknowns.LEAST, 0), (unknowns.LARGEST, 1))
            if unknowns.COLUMN in cells
        ],
        *(
            f"coalesce(max({name}) > min({name}) OR count({name}) NOT IN (0, count(*)), false) AS {name}_differs"
            for name in rates
        ),
    ]
    return ask(cells, of_cases(values, condition, further=further))


def by_setting(cells: pd.DataFrame, condition: str = "true", baselines: str = "", **further: pa.Table) -> Asked:
    """Counts, and means over cells of rates and costs, for each setting; rates also have the deviation of trial means.

    `success_solvable`, `cut` and `stopped` are as in `rated`. A column is there only if the cells have its values.

    Args:
        cells: the cells of `load.episodes`.
        condition: the condition that selects the cells to be counted.
        baselines: SQL for rows that come from no planner (`load.baselines`).
        further: the tables that this SQL reads.
    """
    rates, costs = ([name for name in names if name in cells] for names in (RATES, COSTS))
    unknown = "success IS NULL" + " OR unknown" * (unknowns.COLUMN in cells)
    values = [
        "count(DISTINCT case_id) AS cases, count(DISTINCT cluster) AS clusters, count(*) AS cells",
        f"count(*) FILTER (status <> 'ok') AS failed, count(*) FILTER ({unknown}) AS unknown",
        *(f"avg({name}::DOUBLE) AS {name}" for name in (*rates, *costs)),
        *["avg(success::DOUBLE) FILTER (solvable::BOOLEAN) AS success_solvable"] * ("solvable" in cells),
        *["sum(cut_answers) / nullif(sum(llm_calls), 0) AS cut"] * ("cut_answers" in cells),
        *["avg((budget_reached IS NOT NULL)::INT) AS stopped"] * ("budget_reached" in cells),
    ]
    deviations = ", ".join(f"stddev_samp({name}) AS {name}_std" for name in rates)
    means = ", ".join(f"avg({name}::DOUBLE) AS {name}" for name in rates)
    query = (
        f"SELECT * FROM ({of_settings(values, condition)}) JOIN (\n"  # noqa: S608  names are ours
        f"SELECT model, dataset, robustness, planner, count(*) AS trials, {deviations}\n"
        f"FROM (SELECT model, dataset, robustness, planner, trial, {means} FROM e WHERE {condition} GROUP BY ALL)\n"
        f"GROUP BY ALL) USING (model, dataset, robustness, planner)\n{baselines}ORDER BY ALL"
    )
    return ask(cells, query, **further)


def results(episodes: pd.DataFrame) -> pd.DataFrame:
    """The result of `rated` for episodes; rates and costs that the frame lacks are left out."""
    return rated(by_setting(episodes).rows, by_case(episodes).rows)


def rated(settings: pd.DataFrame, cases: pd.DataFrame) -> pd.DataFrame:
    """One row per setting: counts (`unknown` cells are those whose success is not known), rates and costs.

    Each rate has its mean over cases (of each case's mean over trials) and its standard deviation over trials (of each
    trial's mean over cells; ddof 1). The deviation is NaN if there is one trial, or if RATE_repeated is true, that is,
    if every case has the same rate in all trials. `success_low` and `success_high` are the bounds of the 95% interval
    of success (`intervals.share`). `success_least` is success if all unknown cells failed, `success_most` if all
    succeeded. `success_solvable` is the mean over solvable cases. A cost is a mean per cell; `cut` is the share of
    answers that were cut off, and `stopped` the share of cells whose budget was used up. `repeated` is true if
    RATE_repeated is true for every rate. A figure is NaN if no cell has a known value.

    Args:
        settings: the rows of `by_setting`.
        cases: the rows of `by_case`.
    """
    rates, costs = ([name for name in names if name in settings] for names in (RATES, (*COSTS, "cut", "stopped")))
    found, counts = settings.set_index(SETTING), ["cases", "clusters", "cells", "failed", "unknown"]
    deviations = found[[f"{rate}_std" for rate in rates]]
    grouped = cases.groupby(SETTING, sort=False, observed=True)
    solvable, opened = ([name for name in names if name in cases] for names in _FURTHER)
    means = grouped[[*rates, *solvable]].mean().rename(columns={rate: f"{rate}_mean" for rate in rates})
    differs = grouped[[f"{rate}_differs" for rate in rates]].any().reindex(found.index)
    repeated = ~differs.set_axis(deviations.columns, axis=1) & (found[["trials"]] > 1).to_numpy()
    bounds = pd.DataFrame(
        [share(own.set_index(CLUSTER)["success"].dropna())[1:] for _, own in grouped],
        index=means.index,
        columns=["success_low", "success_high"],
    )
    found = (
        found[counts]
        .join(means)
        .join(deviations.mask(repeated))
        .join(bounds)
        .join(found[costs])
        .join(grouped[opened].mean())
    )
    own = repeated.rename(columns=lambda name: f"{name.removesuffix('_std')}_repeated")
    return found.assign(repeated=repeated.all(axis=1)).join(own).reset_index()


def ranked(found: pd.DataFrame) -> pd.DataFrame:
    """The rows of `results`: the reference planner first, then the others by success, the best first.

    Models, datasets and robustness settings stay in their order, and so do planners of equal success.
    """
    places = pd.DataFrame({
        "group": found.groupby(_GROUP, sort=False).ngroup(),
        "other": [name_of(str(planner)) != REFERENCE for planner in found["planner"]],
        "failure": -found["success_mean"].fillna(-1.0),
    })  # fmt: skip
    order = places.sort_values(["group", "other", "failure"], kind="stable").index
    return found.loc[order].reset_index(drop=True)


def in_order(episodes: pd.DataFrame, found: pd.DataFrame) -> pd.DataFrame:
    """The episodes, with settings in the order of the settings in `found`, which has all of them."""
    settings = pd.MultiIndex.from_frame(found[SETTING].astype(str))
    own = episodes.groupby(SETTING, sort=False, observed=True).ngroup().to_numpy()
    numbers, first = np.unique(own, return_index=True)
    places = settings.get_indexer(pd.MultiIndex.from_frame(episodes[SETTING].iloc[first].astype(str)))
    return episodes.iloc[np.argsort(places[np.searchsorted(numbers, own)], kind="stable")]


def paired_differences(episodes: pd.DataFrame, reference: str = REFERENCE) -> pd.DataFrame:
    """The result of `compared` for episodes."""
    return compared(by_case(episodes).rows, reference)


def compared(cases: pd.DataFrame, reference: str = REFERENCE) -> pd.DataFrame:
    """Each rate of `PAIRED` for each planner, minus the rate of `reference` on the same cases, with a 95% interval.

    A case's value is its mean over trials. The columns are the rate's name (the mean difference), `_low`, `_high` and
    `_p`, for success also `_h` (`cohens_h`) and, if the interval contains 0, `_needed` (`stats.power.settling`);
    `reference` (the reference's label), `resolved_checks` (how often per case the planner asked whether the case was
    resolved), `resolved_checks_reference` (the same for the reference), and the numbers of `cases` and `clusters` that
    both have. The frame is empty if no planner has a reference (`reference_of`). `cases` are the rows of `by_case`.
    """
    return pd.DataFrame([
        setting | {"reference": against} | _compared(own, theirs)
        for setting, against, own, theirs in _pairs(cases, reference)
    ])  # fmt: skip


def _pairs(cases: pd.DataFrame, reference: str) -> Iterator[tuple[dict[str, str], str, pd.DataFrame, pd.DataFrame]]:
    """For each setting with a reference: its labels, the reference's label, and both frames of cases."""
    for place, group in cases.groupby(_GROUP, sort=False, observed=True):
        parts = group.groupby("planner", sort=False, observed=True)
        planners = {str(planner): own.set_index([CLUSTER, "case_id"]) for planner, own in parts}
        for planner, own in planners.items():
            against = reference_of(planner, list(planners), reference)
            if against is not None:
                yield dict(zip(SETTING, map(str, (*place, planner)), strict=True)), against, own, planners[against]


def paired_models(cases: pd.DataFrame) -> pd.DataFrame:
    """The differences of `compared` for models instead of planners, on the same planners and cases.

    Of the models that ran with a planner, the one whose name sorts first is subtracted from each of the others. The
    columns `dataset`, `robustness`, `planner`, `model` and `reference` (a model) identify the rows. If several planners
    ran with all models, rows EVERY_PLANNER come first; they have the difference over all these planners: a case's value
    is its mean over the planners that ran the case with all models. The frame is empty if no planner ran with two
    models on the same data.
    """
    return pd.DataFrame([*_paired_models(_over_planners(cases)), *_paired_models(cases)])


def _over_planners(cases: pd.DataFrame) -> pd.DataFrame:
    """For models that several planners share: each case's mean over the planners that ran it with all models.

    There are no rows for a robustness setting in which fewer than two planners ran a case with all models.
    """
    case = ["dataset", "robustness", CLUSTER, "case_id"]
    known = cases.dropna(subset=["success"])
    models = known.groupby(["dataset", "robustness"], observed=True)["model"].transform("nunique")
    both = known.groupby(["planner", *case], observed=True)["model"].transform("nunique") == models
    shared = known[both & (models > 1)]
    several = shared.groupby(["dataset", "robustness"], observed=True)["planner"].transform("nunique") > 1
    summed = [name for name in ("won", "tried", "cells") if name in cases]
    means = [name for name in (*PAIRED, CHECKS) if name in cases]
    how = {**dict.fromkeys(summed, "sum"), **dict.fromkeys(means, "mean")}
    found = shared[several].groupby(["model", *case], sort=False, observed=True).agg(how).reset_index()
    return found.assign(planner=EVERY_PLANNER)


def _paired_models(cases: pd.DataFrame) -> list[dict[str, object]]:
    place = ["dataset", "robustness", "planner"]
    rows = []
    for key, group in cases.groupby(place, sort=False, observed=True):
        parts = group.groupby("model", observed=True)
        values = {str(model): own.set_index([CLUSTER, "case_id"]) for model, own in parts}
        first, *others = sorted(values)
        for model in others:
            labels = dict(zip(place, map(str, cast(tuple[Any, ...], key)), strict=True))
            rows.append(labels | {"model": model, "reference": first} | _compared(values[model], values[first]))
    return rows


def token_ratios(cases: pd.DataFrame, reference: str = REFERENCE) -> pd.DataFrame:
    """Each planner's tokens as a multiple of the tokens of `reference`, on the cases that both have.

    One row per setting that has a reference (`reference_of`): `SETTING` and TIMES with `_low` and `_high` (95%, over
    clusters). `cases` are the rows of `by_case`, with tokens.
    """
    rows = []
    for setting, _, own, theirs in _pairs(cases.dropna(subset=["tokens"]), reference):
        both = own[["tokens"]].join(theirs["tokens"].rename("other"), how="inner")
        rows.append(setting | ratio(both["tokens"], both["other"]).named(TIMES))
    return pd.DataFrame(rows, columns=[*SETTING, TIMES, f"{TIMES}_low", f"{TIMES}_high"])


def corrected(differences: pd.DataFrame) -> pd.DataFrame:
    """The rows of `compared` or `paired_models`, with p values after Holm's correction over all rows.

    Each rate is corrected separately: `success_holm`, `tool_match_rate_holm`.
    """
    return differences.assign(**{f"{rate}_holm": holm(differences[f"{rate}_p"]) for rate in PAIRED})


def _settling(theirs: pd.DataFrame, own: pd.DataFrame) -> float:
    """The number of cases that would settle a difference which the given cases leave open (`settling`).

    The result is NaN if, by the statistical model, no more cases than the given ones are needed. This happens if chance
    affects both planners' trials alike, because the model assumes independent trials and then sees no variance.
    """
    found = settling(_counts(theirs, own))
    return found if found > len(own) else np.nan


def _compared(own: pd.DataFrame, theirs: pd.DataFrame) -> dict[str, object]:
    differences = (own[PAIRED] - theirs[PAIRED]).dropna(how="all")
    found: dict[str, object] = {"cases": len(differences), "clusters": n_clusters(differences)}
    for rate in PAIRED:
        values = differences[rate].dropna()
        found |= interval(values, reach=1.0).named(rate) | {f"{rate}_p": p_value(values, reach=1.0)}
    values = differences["success"].dropna()
    pair = [rates.loc[values.index] for rates in (own, theirs)]
    shares = [float(rates["success"].mean()) for rates in pair]
    opened = interval(values, reach=1.0)
    needed = _settling(pair[1], pair[0]) if opened.low <= 0 <= opened.high else np.nan
    found |= {"success_h": cohens_h(*shares) if len(values) else np.nan, "success_needed": needed}
    return found | {CHECKS: own[CHECKS].mean(), f"{CHECKS}_reference": theirs[CHECKS].mean()}


def _counts(theirs: pd.DataFrame, own: pd.DataFrame) -> Counts:
    """The successes and trials of two planners on the same cases, in the form that `stats.power` needs."""
    codes = np.unique(own.index.get_level_values(CLUSTER), return_inverse=True)[1]
    won, tried = (np.stack([theirs[name], own[name]], axis=1).astype(np.float64) for name in ("won", "tried"))
    return Counts(codes.astype(np.int64), won, tried)


def reference_of(planner: str, planners: Sequence[str], reference: str) -> str | None:
    """The label of the reference planner that a planner is compared with; None for the reference itself.

    If the reference planner has a single label, this label is used. If it has several labels, the result is the label
    with the same changes (`react[temperature=0]` for `egb_logits[temperature=0]`) and the same retriever, or None if
    there is no such label. The result is also None if the reference planner did not run.
    """
    found = [label for label in planners if name_of(label) == reference]
    if planner in found:
        return None
    same = [label for label in found if label.removeprefix(reference) == planner.removeprefix(name_of(planner))]
    return found[0] if len(found) == 1 else same[0] if same else None


# The tables of one model on one dataset as they are shown.


LABELS = ["robustness", "planner"]
_COSTS = {
    "input_tokens": ("tokens in", ",.0f"),
    "cached_input_tokens": ("cached", ",.0f"),
    "output_tokens": ("out", ",.0f"),
    "llm_calls": ("calls", ",.1f"),
    "forward_passes": ("passes", ",.1f"),
    "cancelled_llm_calls": ("cancelled", ",.1f"),
    "judge_input_tokens": ("judge in", ",.0f"),
    "judge_output_tokens": ("judge out", ",.0f"),
    "judge_calls": ("judge calls", ",.1f"),
    "judge_passes": ("judge passes", ",.1f"),
    "wall_seconds": ("seconds", ".3f"),
    CHECKS: ("checks", ".1f"),
    "branched_steps": ("branched", ".1f"),
    "unassigned": ("unassigned", ".1%"),
}
"""Costs with their headers and formats."""
_TOKENS = "means per case; tokens in: input tokens of prompts; out: output tokens of answers; calls: completions"
_PASSES = "passes: model passes that score the options of an exact choice"
_ASKED = "checks: how often the planner asked whether the case was resolved"
_BRANCHED = "branched: the number of different steps at which the planner branched"
_UNASSIGNED = "unassigned: the part of the probability that the model gave to none of the options of an exact choice"
_CANCELLED = (
    "cancelled: the part of the calls that belongs to branches which were cancelled because an earlier branch had "
    "resolved the case"
)
_CACHED = "cached: the part of the input tokens that the engine took from its prefix cache"
_TIMES = f"x {REFERENCE}: tokens of all roles as a multiple of those of {REFERENCE}, with its 95% interval"
_JUDGE = "judge in, judge out, judge calls, judge passes: the judge's own costs, which the other columns do not include"
_SECONDS = "seconds: from a cell's start to its end, including all waiting"
_SAID = {"forward_passes": _PASSES, CHECKS: _ASKED, "wall_seconds": _SECONDS}
"""Costs that every sweep has and that need a caption, each with its caption."""
_SOMETIMES = {
    **dict.fromkeys(("judge_input_tokens", "judge_output_tokens", "judge_calls", "judge_passes"), _JUDGE),
    "cached_input_tokens": _CACHED,
    "cancelled_llm_calls": _CANCELLED,
    "branched_steps": _BRANCHED,
    "unassigned": _UNASSIGNED,
}
"""Costs that only some sweeps have, and the caption about each."""
_UNPRINTED = ("cached_input_tokens", "forward_passes", "judge_calls", "judge_passes", "branched_steps", "unassigned")
"""Costs that a terminal leaves out."""


class Place(NamedTuple):
    """The model and dataset that the rows of a table share."""

    model: str
    dataset: str

    @property
    def title(self) -> str:
        """The start of the titles of the place's tables."""
        return f"{self.model} on {self.dataset}"


def costs_table(results: pd.DataFrame, query: str, answer_prefix: str = "") -> Table:
    """Costs by planner and robustness; `answer_prefix` is the text with which the model's answers were made to start.

    If the rows have the columns of `token_ratios`, the table has a column for the ratios.
    """
    place = place_of(results)
    shown = [name for name in _COSTS if name not in _SOMETIMES or (results[name].fillna(0) > 0).any()]
    columns = [_cost(name, printed=name not in _UNPRINTED and bool(results[name].any())) for name in shown]
    if TIMES in results and results[TIMES].notna().any():
        columns.append(Column(f"x {REFERENCE}", _times, printed=False, said=_TIMES))
        shown += [TIMES, f"{TIMES}_low", f"{TIMES}_high"]
    prefix = f"every answer was made to begin with {json.dumps(answer_prefix)} (model.answer_prefix)"
    return Table(
        name=f"costs {place.model} {place.dataset}",
        title=f"{place.title}: costs",
        by=LABELS,
        columns=columns,
        values=results[[*SETTING, *shown]],
        query=query,
        about="; ".join([_TOKENS, *[prefix] * bool(answer_prefix)]),
        breaks=["robustness"],
    )


def _cost(name: str, printed: bool) -> Column:
    header, form = _COSTS[name]
    return mean(name, header, form, scale=1.0, said=(_SAID | _SOMETIMES).get(name, ""), printed=printed)


def _times(row: Mapping[Any, Any]) -> str:
    return bounded(row, TIMES, ".1f", 1.0, missing=MISSING)


def place_of(frame: pd.DataFrame) -> Place:
    """The model and dataset that all rows of a table share."""
    return Place(str(frame["model"].iloc[0]), str(frame["dataset"].iloc[0]))


# The tables of differences: each planner minus a reference, each model minus another, paired over cases.


_CHECKS = "checks: how often per case the planner and (after the slash) {} asked whether the case was resolved"
_EVERY = f"{EVERY_PLANNER}: each case's mean over the planners that ran it with all models"
_DIGITS = 2
"""The number of digits shown for an estimated number of cases."""


def differences_table(differences: pd.DataFrame, reference: str, query: str) -> Table:
    """Each planner of one model and dataset minus the reference, from the rows of `corrected`."""
    place = place_of(differences)
    tests = int(differences["success_holm"].notna().sum())
    asked = bool((differences[[CHECKS, f"{CHECKS}_reference"]] > 0).any(axis=None))
    return Table(
        name=f"differences {reference} {place.model} {place.dataset}",
        title=f"{place.title}: difference from {reference}, paired over cases",
        by=LABELS,
        columns=[
            *_columns(),
            Column("checks", _asked, printed=asked, said=_CHECKS.format(reference)),
        ],
        values=differences,
        query=query,
        about=_caption(tests),
        briefly=_short(tests),
        notes=_open(differences),
        breaks=["robustness"],
    )


def models_table(differences: pd.DataFrame, query: str) -> Table:
    """Each model of one data set minus another model, from `corrected` rows of `paired_models`.

    If planners ran with different models, the models that are subtracted may differ; then a column names them.
    """
    dataset, references = str(differences["dataset"].iloc[0]), list(differences["reference"].unique())
    several = len(references) > 1
    against = "the model in the column minus" if several else references[0]
    tests = int(differences["success_holm"].notna().sum())
    return Table(
        name=f"models {dataset}",
        title=f"{dataset}: models, difference from {against} with the same planner, paired over cases",
        by=[*LABELS, "model"],
        columns=[*[Column("minus", lambda row: str(row["reference"]))] * several, *_columns()],
        values=differences,
        query=query,
        about=f"{_caption(tests)}; {_EVERY}",
        briefly=f"{_short(tests)}; {_EVERY}",
        breaks=LABELS,
    )


def _columns() -> list[Column]:
    """The columns of paired differences, in the tables of planners and of models."""
    return [
        count("cases"),
        count("clusters", printed=False),
        *paired("success", "success"),
        Column("p Holm", lambda row: probability(row["success_holm"])),
        mean("success_h", "h", "+.2f", 1.0),
        *paired("tool_match_rate", "tool match", "95% interval (tools)", printed=False),
    ]


def _asked(row: Row) -> str:
    return "/".join(number(row[name], ".1f") for name in (CHECKS, f"{CHECKS}_reference"))


def _caption(tests: int) -> str:
    return (
        f"differences in percentage points on the cases that both have; 95% interval: {intervals.TOLD}; *: the "
        "interval excludes 0, †: significant also after Holm's correction; p Holm: p of the difference in success, "
        f"corrected over the {tests} differences of this table; {intervals.SIZE}; {intervals.ALIKE}"
    )


def _short(tests: int) -> str:
    return (
        f"differences in percentage points on the cases that both have; *: the 95% interval ({intervals.BRIEFLY}) "
        f"excludes 0, †: significant also after Holm's correction over the {tests} differences of this table; h: "
        "Cohen's h (0.2 is small, 0.5 medium, 0.8 large)"
    )


def _open(differences: pd.DataFrame) -> list[str]:
    """A note on how many cases would settle the largest open difference in success; none if no difference is open."""
    known = differences[differences["success_needed"].notna()]
    if known.empty:
        return []
    row = max(known.to_dict("records"), key=lambda one: abs(float(one["success"])))
    return [
        f"largest open difference: {row['planner']} minus {row['reference']} ({row['robustness']}), "
        f"{100 * row['success']:+.1f} points; {rounded(row['success_needed'])} cases would settle it (now "
        f"there are {row['cases']:,}), if it is as large as estimated ({100 * intervals.POWER:.0f}% power at the "
        f"{100 * intervals.LEVEL:.0f}% level, without correction, with clusters like those of this table)"
    ]


def rounded(cases: float) -> str:
    """A number of cases as text, rounded up to two digits, because it is estimated; if infinite, `more than` MOST."""
    if math.isinf(cases):
        return f"more than {MOST:,}"
    step: int = 10 ** max(math.floor(math.log10(cases)) + 1 - _DIGITS, 0)
    return f"about {math.ceil(cases / step) * step:,}"


def paired(rate: str, header: str, interval_of: str = "95% interval", printed: bool = True) -> list[Column]:
    """Two columns: a paired difference with its marks, and the difference's interval."""
    return [
        Column(header, lambda row: marked(row, rate)[0], printed=printed),
        Column(interval_of, lambda row: marked(row, rate)[1], printed=printed),
    ]


def marked(row: Mapping[Any, Any], rate: str) -> tuple[str, str]:
    """Two texts from a row of `corrected`: the difference with its marks, and its interval; both `none` if unknown."""
    low, high = row[f"{rate}_low"], row[f"{rate}_high"]
    if pd.isna(row[rate]):
        return "none", "none"
    told = marks(low, high, row[f"{rate}_holm"], level=intervals.LEVEL)
    return f"{number(row[rate], POINTS, 100)}{told:2}", bounds(low, high, POINTS)
