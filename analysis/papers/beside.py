"""Match the settings of a sweep with the rows of a published table, and compute the figures of these settings.

One query per table gives each case's means over trials, by setting and kind of cells; a block has the rows of the
query's result for one setting.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import pandas as pd

from analysis.load import SETTING, name_of, queries, spending
from analysis.load.queries import LABELLED
from analysis.papers.files import DECISIONS, JUDGE_ERROR, WIN, Combined, Metric, Published, Row, Value, Wanted, value_at
from analysis.papers.horizon import only
from analysis.stats.intervals import CLUSTER, Interval, amount, interval, ratio, share
from analysis.tables.plan_cells import DERIVED
from analysis.tables.win_rates import REFERENCE

# Figures of a published table that are weighted sums of others in it: averages over rows and metrics, or differences.


def measured(published: Published, beside: Sequence[Block], block: Block, model: str, name: str) -> Measured | None:
    """The value of a metric for one of our models in a row, combined from parts if the table says so.

    None if a part is unknown for all cases, or unless exactly one of our settings belongs next to the part's row.
    """
    how = published.combined.get(name)
    if how is None or how.stands not in (None, block.row.labels[published.labels.index(how.label)]):
        return block.measured(model, published.every_metric[name])
    rows: dict[str | None, list[pd.Series[float]]] = {}
    for part in how.of:
        found = _part(published, beside, block, how, part.row)
        values = found.values(model, published.every_metric[part.metric]) if found else None
        if values is None or values.empty:
            return None
        rows.setdefault(part.row, []).append(part.weight * values)
    added = [pd.concat(parts, axis=1, join="inner").sum(axis=1) for parts in rows.values()]
    weights = [sum(part.weight for part in how.of if part.row == row) for row in rows]
    most = HIGHEST.get(published.every_metric[name].unit)
    return _together(added, most) or _apart(added, weights, most)


def _part(
    published: Published, beside: Sequence[Block], block: Block, how: Combined, label: str | None
) -> Block | None:
    """The block of another row, for the same setting as `block` except for data set and pool.

    If `block` has no setting, the other row's block may have any setting. The result is None unless exactly one block
    fits.
    """
    labels = list(block.row.labels)
    if label is not None:
        labels[published.labels.index(how.label)] = label
    own = [one for one in beside if list(one.row.labels) == labels and one.setting is not None]
    if block.setting is not None:
        own = [one for one in own if _alike(one.setting, block.setting)]
    return own[0] if len(own) == 1 else None


def _alike(one: Mapping[str, str] | None, other: Mapping[str, str]) -> bool:
    """Whether two settings are the same except for data set and pool, in which the rows of a table may differ."""
    apart = ("dataset", "pool")
    return one is not None and all(one.get(part) == label for part, label in other.items() if part not in apart)


def _together(rows: Sequence[pd.Series[float]], most: float | None) -> Measured | None:
    """The sum of the rows, case by case; None if the rows do not have the same cases."""
    both = pd.concat(rows, axis=1, join="inner")
    if len(both) < max(map(len, rows)):
        return None
    values = both.sum(axis=1)
    return Measured(len(values), share(values, most) if most else interval(values, reach=1.0))


def _apart(rows: Sequence[pd.Series[float]], weights: Sequence[float], most: float | None) -> Measured:
    """The sum of rows with different cases; bounds combine the rows' bounds ("square and add", Zou and Donner 2008)."""
    own = [
        share(values, most * weight) if most and weight > 0 else interval(values, reach=abs(weight))
        for values, weight in zip(rows, weights, strict=True)
    ]
    mean = sum(one.mean for one in own)
    below = math.sqrt(sum((one.mean - one.low) ** 2 for one in own))
    above = math.sqrt(sum((one.high - one.mean) ** 2 for one in own))
    return Measured(sum(map(len, rows)), Interval(mean, mean - below, mean + above))


# The settings of a sweep that belong next to each row of a published table, and the values that they measured.


NAMED = ("planner", "dataset", "robustness", "retriever", "pool", "refine", "memory")
"""Groups in conf/. A row may name files in these groups; then only settings with these files belong next to the row."""


EITHER = {"retriever.model": ("retriever.path", "retriever.hub.id")}
"""Keys that no config has, each with the keys that are read instead.

The embedding model is a folder or, if no folder is given, a model on the hub.
"""


HIGHEST = {"share": 1.0, "percent": 1.0, "count": 1.0, "score": 10.0}
"""The maximum possible value for each unit that has one."""


class Measured(NamedTuple):
    """A metric of one of our models: the number of cases, and the mean over these cases with its interval."""

    cases: int
    of: Interval


@dataclass(frozen=True)
class Block:
    """A row of a published table, and one of our settings that belongs next to it, or no setting.

    `setting` has the labels of dataset, robustness and planner; `cases` are the setting's rows from the table's query,
    for all models. `alike` is true if the row has, or could have, further settings whose labels differ only in the
    dataset. If the table compares settings, `others` are the rows of the setting with which this setting is compared.
    """

    row: Row
    setting: Mapping[str, str] | None
    cases: pd.DataFrame
    alike: bool = False
    others: pd.DataFrame | None = None

    def measured(self, model: str, metric: Metric) -> Measured | None:
        """The value of a metric for one of our models; None if no case has it (in comparisons: in both settings)."""
        if not metric.columns or self.setting is None:
            return None
        if metric.columns[0] in DECISIONS:
            return _decided(self.cases[self.cases["model"] == model], metric.columns[0])
        means = self.values(model, metric)
        if self.others is not None:
            pairs = pd.concat([means, _means(self.others, model, metric)], axis=1, join="inner", keys=["own", "other"])
            if pairs.empty:
                return None
            if metric.unit == "ratio":
                return Measured(len(pairs), ratio(pairs["own"], pairs["other"]))
            return Measured(len(pairs), interval(pairs["own"] - pairs["other"], reach=1.0))
        if means.empty:
            return None
        if metric.unit == "cases":
            return Measured(len(means), Interval(float(means.sum()), math.nan, math.nan))
        if metric.unit in ("points", "difference"):
            return Measured(len(means), interval(means, reach=1.0))
        most = HIGHEST.get(metric.unit)
        return Measured(len(means), share(means, most) if most else amount(means))

    def values(self, model: str, metric: Metric) -> pd.Series[float]:
        """A metric's mean over trials for each case, by cluster and case; empty if the model has no values."""
        return _means(self.cases, model, metric)


def _means(cases: pd.DataFrame, model: str, metric: Metric) -> pd.Series[float]:
    """Each case's mean over trials; empty if no value is known."""
    if not metric.columns:
        return pd.Series(dtype=float, index=pd.MultiIndex.from_arrays([[], []], names=[CLUSTER, "case_id"]))
    own: pd.Series[float] = cases[cases["model"] == model].set_index([CLUSTER, "case_id"])[metric.value]
    return own.dropna()


def _decided(own: pd.DataFrame, name: str) -> Measured | None:
    """A figure of first-pass decisions: a count, or a rate with an interval; None if there are no decisions."""
    if own.empty:
        return None
    figure: float
    if name == "error_rate":
        return Measured(len(own), _rate(own.set_index([CLUSTER, "case_id"])))
    if name in ("tools", "decisions_per_tool"):
        tools = len({tool for each in own["tools"] for tool in each})
        figure = tools if name == "tools" else own["calls"].sum() / tools
    else:
        figure = own[name].sum()
    return Measured(len(own), Interval(float(figure), math.nan, math.nan))


def _rate(own: pd.DataFrame) -> Interval:
    """Errors per decision, with an interval, over cases with different numbers of decisions.

    The interval is computed from each case's contribution to the ratio (linearization).
    """
    errors, decisions = own["errors"], own["decisions"]
    rate = float(errors.sum() / decisions.sum())
    return share(rate + (errors - rate * decisions) / float(decisions.mean()))


Told = tuple[dict[Any, Any], Mapping[str, Any]]
"""A setting: its labels and names, and its config."""


class Standing(NamedTuple):
    """A setting that belongs next to a row: its labels, the models that ran, and the setting to compare with."""

    labels: dict[str, str]
    models: Set[str]
    other: dict[str, str] | None


def settings_of(cells: pd.DataFrame) -> list[Told]:
    """The settings of cells; the cells have the columns NAMED, `SETTING` and `config`."""
    columns = list(dict.fromkeys([*SETTING, *NAMED, "config"]))
    found = cells[columns].drop_duplicates().to_dict("records")
    configs = {text: json.loads(text) for text in {str(one["config"]) for one in found}}
    return [(one, configs[str(one["config"])]) for one in found]


def standing(published: Published, told: Sequence[Told]) -> list[list[Standing]]:
    """For each row of the table, our settings for it; settings that differ only in their models are merged."""
    found = []
    for row in published.rows:
        conditions, models = published.conditions(row), dict[tuple[str, ...], set[str]]()
        for one, config in told:
            if _fits(one, config, conditions):
                models.setdefault(tuple(str(one[part]) for part in SETTING[1:]), set()).add(str(one["model"]))
        each = [(dict(zip(SETTING[1:], key, strict=True)), own) for key, own in models.items()]
        found.append([Standing(labels, own, _other(labels, published, told)) for labels, own in each])
    return found


def query(published: Published, there: Sequence[Sequence[Standing]]) -> str:
    """The query for the table's metrics in each case of these settings."""
    every = [one for row in there for own in row for one in (own.labels, own.other or own.labels)]
    names = {"dataset": {one["dataset"] for one in every}, "planner": {name_of(one["planner"]) for one in every}}
    where = queries.where({name: sorted(values) for name, values in names.items()})
    if published.of == "decisions":
        return _decisions(published, where)
    values = {one.value: _mean(one.columns) for one in published.every_metric.values() if one.columns}
    return queries.of_cases(values, where, published.kinds)


def _mean(columns: Sequence[str]) -> str:
    """The SQL of a cell's mean over columns; NULL unless the values of all columns are known."""
    each = [_SQL.get(name, name) for name in columns]
    return each[0] if len(each) == 1 else f"({' + '.join(f'({one})::DOUBLE' for one in each)}) / {len(each)}"


def blocks(published: Published, cases: pd.DataFrame, there: Sequence[Sequence[Standing]] | None = None) -> list[Block]:
    """The table's rows in their order, each with all our settings that belong next to it.

    A row without any of our settings has a block without a setting if the paper has figures in this row; otherwise it
    has no block. There are no blocks at all if fewer than `least` rows of the table have settings of ours.

    Args:
        published: the table.
        cases: the rows that `query` gives; if these lack the columns that tell kinds of cells apart, all cells count.
        there: the result of `standing`; None: it is computed from `cases`, which are cells with the columns that
            `settings_of` needs.
    """
    beside: list[Block] = []
    there = standing(published, settings_of(cases)) if there is None else there
    bins = published.bins
    for row, standings in zip(published.rows, there, strict=True):
        kinds: dict[str, Wanted] = {**published.cells, **row.cells}
        if bins:
            kinds["bin"] = bins.index(row.bounds)
        each = [(one, _of(cases, one.labels, kinds, one.models)) for one in standings]
        own = [(one, found) for one, found in each if len(found)]
        alike = Counter((one.labels["robustness"], one.labels["planner"]) for one, _ in own)
        several = len(published.named(row, "dataset")) > 1
        beside += [
            Block(
                row,
                one.labels,
                found,
                several or alike[one.labels["robustness"], one.labels["planner"]] > 1,
                None if one.other is None else _of(cases, one.other, kinds),
            )
            for one, found in own
        ]
        if not own and row.figures:
            beside.append(Block(row, None, cases.iloc[:0]))
    ours = {tuple(block.row.labels) for block in beside if block.setting}
    return beside if len(ours) >= published.least else []


def _other(labels: Mapping[str, str], published: Published, told: Sequence[Told]) -> dict[str, str] | None:
    """The labels of the setting to compare with: that with the same changes, or else the result of `horizon.only`."""
    found = dict(labels)
    for key, name in published.against.items():
        rest = {part: label for part, label in labels.items() if part != key}
        there = {str(one[key]) for one, _ in told if all(str(one[part]) == label for part, label in rest.items())}
        same = name + labels[key].removeprefix(name_of(labels[key]))
        found[key] = same if same in there else only(sorted(there), name)
    return found if published.against else None


def _fits(setting: Mapping[Any, Any], config: Mapping[str, Any], conditions: Mapping[str, Wanted] | None) -> bool:
    return conditions is not None and all(
        any(
            _is(name_of(str(setting[key])) if key in NAMED else _found(config, key), value)
            for value in (wanted if isinstance(wanted, list) else [wanted])
        )
        for key, wanted in conditions.items()
    )


def _found(config: Mapping[str, Any], key: str) -> Any:
    """A value of the config; for a key in EITHER, the first value of the keys listed there that is not null."""
    return next((found for one in EITHER.get(key, (key,)) if (found := value_at(config, one)) is not None), None)


def _is(found: Any, wanted: Value) -> bool:
    """Whether a value, or the last part of it if it is a name on the hub or a folder, is the wanted value."""
    if isinstance(found, str) and isinstance(wanted, str):
        return wanted in (found, found.rstrip("/").rpartition("/")[2])
    return type(found) is type(wanted) and bool(found == wanted)


def _of(
    cases: pd.DataFrame, labels: Mapping[str, str], kinds: Mapping[str, Wanted], models: Set[str] | None = None
) -> pd.DataFrame:
    """The rows of a setting for these kinds of cells and for these models (None: for all models)."""
    mine = pd.Series(True, index=cases.index) if models is None else cases["model"].isin(models)
    for part, label in labels.items():
        mine &= cases[part] == label
    for name, wanted in kinds.items():
        if name in cases:
            allowed = wanted if isinstance(wanted, list) else [wanted]
            mine &= cases[name].isin([one for one in allowed if one is not None]) | (
                cases[name].isna() if None in allowed else False
            )
    return cases[mine]


# The SQL of columns that are not columns of `episodes`.


AGAINST = "zero_shot"
"""The planner with which all other planners are compared for the papers' win rates."""
_COMPARED = f"FROM comparisons WHERE split_part(against, '[', 1) = '{AGAINST}'"
_WRONG = {
    part: f"((r_{part} >= (e.config::VARCHAR->'judge'->>'{part}_threshold')::DOUBLE) <> {part}_right)::INT"
    for part in ("pre", "post")
}
_SQL: Mapping[str, str] = {
    **DERIVED,
    **spending.DERIVED,
    WIN: f"if(cell_id IN (SELECT against_cell_id {_COMPARED}), {REFERENCE},\n"
    f"    (SELECT last(win ORDER BY created_at) {_COMPARED} AND comparisons.cell_id = e.cell_id))",
    JUDGE_ERROR: f"(SELECT (coalesce(sum({_WRONG['pre']}), 0) + coalesce(sum({_WRONG['post']}), 0))\n"  # noqa: S608  names are ours
    f"    / nullif(count({_WRONG['pre']}) + count({_WRONG['post']}), 0) FROM nodes WHERE nodes.cell_id = e.cell_id)",
}
_DECISIONS = """SELECT {keys}, cluster, case_id,
  count(*) / count(DISTINCT trial) AS decisions,
  count(*) FILTER (NOT coalesce(tool_matches, false)) / count(DISTINCT trial) AS errors,
  list(DISTINCT reference_tool) AS tools, count(DISTINCT substep_id) AS calls
FROM e JOIN steps USING (cell_id){bins}
WHERE {where} AND branch = 0 AND tool_required GROUP BY ALL ORDER BY ALL"""


def _decisions(published: Published, where: str) -> str:
    """A query for first-pass decisions that need a tool: means over trials by case and entropy bin (egb_slate §6.2)."""
    rows = []
    for place, (low, high) in enumerate(published.bins):
        rows.append(f"({place}, {'NULL' if low is None else low}, {'NULL' if high is None else high})")
    within = "(low IS NULL OR entropy >= low) AND (high IS NULL OR entropy < high)"
    bins = f"\n  JOIN (VALUES {', '.join(rows)}) AS bins(bin, low, high) ON {within}" if rows else ""
    keys = [LABELLED, *published.kinds, *["bin"] * bool(bins)]
    return _DECISIONS.format(keys=", ".join(keys), bins=bins, where=where)
