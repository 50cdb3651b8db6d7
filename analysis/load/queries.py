"""The SQL under each table of a report: DuckDB runs it in the folder from which the report was made.

A cell that ran again has several rows in the files; every query counts its latest, as `grid.store.read` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.load import grading, spending, unknowns
from analysis.load.baselines import OF_CASES
from grid.core.engine import ASKED
from grid.store import sql

_SETTING = ", ".join(
    [
        "model, dataset, robustness, refine, memory, retriever, pool",
        *ASKED,
        "planner, dataset_version, setting_id, code",
    ]
)
_RETRIEVAL = """  SELECT model, dataset, robustness, retriever, pool, case_id, 'retriever''s first' AS planner,
    avg(coalesce(reference_rank = 0, false)::INT) FILTER (tool_required) AS tool_match, avg(tool_required::INT) AS acted
  FROM d GROUP BY ALL
  UNION ALL BY NAME
  SELECT model, dataset, robustness, retriever, pool, case_id, 'chance' AS planner,
    avg(if(reference_rank IS NULL, 0, 1 / n_options)) FILTER (tool_required) AS tool_match,
    avg(if(tool_required, 1 - 1 / n_options, 1 / n_options)) AS acted
  FROM d GROUP BY ALL
  UNION ALL BY NAME
  SELECT model, dataset, robustness, retriever, pool, case_id, 'retriever''s ceiling' AS planner,
    avg((reference_rank IS NOT NULL)::INT) FILTER (tool_required) AS tool_match, 1.0 AS acted,
    coalesce(bool_and(reference_rank IS NOT NULL) FILTER (tool_required), true)::INT AS success
  FROM d GROUP BY ALL
"""
_BASELINES = {
    "retrieval": f"""
SELECT model, dataset, robustness, retriever, pool, planner, count(*) AS cases, avg(tool_match) AS tool_match_rate,
  avg(acted) AS action_accuracy, avg(success) AS success
FROM (
{_RETRIEVAL})
GROUP BY ALL
""",
    **{
        name: f"""
SELECT model, dataset, robustness, '{name}' AS planner, count(*) AS cases, avg(resolved) AS success
FROM (SELECT model, dataset, robustness, case_id, max({column}::INT) AS resolved
  FROM e WHERE {column} IS NOT NULL GROUP BY ALL)
GROUP BY ALL
"""
        for name, column in OF_CASES.items()
    },
}
"""The rows of a table that no planner made, by what they come from."""


def _text(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def latest(root: Path, condition: str = "true", graded: bool = False) -> str:
    """The common table expression `e`: one row per cell, where a condition holds; success as it is counted now.

    `graded`: with `grading.COLUMN`.
    """
    cells = f"SELECT * FROM {_text(f'{root}/episodes/*.parquet')} WHERE {condition}\n  QUALIFY {sql.COUNTS}"
    found = unknowns.sql(cells)
    return f"WITH e AS (SELECT *, {grading.sql()}\nFROM ({found}))" if graded else f"WITH e AS ({found})"


def results(root: Path, model: str, dataset: str, *baselines: str) -> str:
    """Counts, rates and costs of the settings of a model and dataset; `baselines`: `retrieval`, names of `OF_CASES`."""
    decisions = f",\n{_decisions(root)}" if "retrieval" in baselines else ""
    parts = [_BASELINES[name] for name in baselines]
    return (
        f"{latest(root, _of(model, dataset))}{decisions}\nSELECT {_SETTING}, trial,\n"
        "  count(DISTINCT case_id) AS cases, count(DISTINCT cluster) AS clusters, count(*) AS cells,\n"
        "  count(*) FILTER (status <> 'ok') AS failed, avg(success::INT) AS success,\n"
        "  avg(success::INT) FILTER (solvable) AS success_solvable,\n"
        f"  {unknowns.COUNTED[unknowns.how_counted()]} AS unknown,\n"
        "  avg(tool_match_rate) AS tool_match_rate, avg(action_accuracy) AS action_accuracy,\n"
        "  avg(input_tokens) AS input_tokens, avg(cached_input_tokens) AS cached_input_tokens,\n"
        "  avg(output_tokens) AS output_tokens, avg(llm_calls) AS llm_calls,\n"
        "  avg(forward_passes) AS forward_passes, avg(cancelled_llm_calls) AS cancelled_llm_calls,\n"
        "  avg(judge_input_tokens) AS judge_input_tokens,\n"
        "  avg(judge_output_tokens) AS judge_output_tokens, avg(judge_calls) AS judge_calls,\n"
        "  avg(judge_passes) AS judge_passes, avg(money) AS money, avg(wall_seconds) AS wall_seconds,\n"
        "  avg(resolved_checks) AS resolved_checks, avg(branched_steps) AS branched_steps,\n"
        "  sum(cut_answers) / nullif(sum(llm_calls), 0) AS cut,\n"
        f"  avg(unassigned) AS unassigned\nFROM e GROUP BY ALL\n{''.join(f'UNION ALL BY NAME{part}' for part in parts)}"
        "ORDER BY ALL"
    )


def _of(model: str, dataset: str) -> str:
    return f"model = {_text(model)} AND dataset = {_text(dataset)}"


def _decisions(root: Path) -> str:
    """The expression `d`: of each substep the decision that the first passes of most settings met."""
    return (
        "f AS (SELECT * FROM e WHERE status = 'ok' QUALIFY row_number() OVER (\n"
        "  PARTITION BY setting_id, dataset_version, code, case_id ORDER BY trial) = 1),\n"
        "d AS (SELECT * EXCLUDE met FROM (SELECT model, dataset, robustness, retriever, pool, case_id, substep_id,\n"
        "    tool_required, n_options, reference_rank, count(*) AS met\n"
        f"  FROM f JOIN {_text(f'{root}/steps/*.parquet')} AS s USING (cell_id, attempt_id)\n"
        "  WHERE branch = 0 AND tool_required IS NOT NULL AND n_options IS NOT NULL GROUP BY ALL)\n"
        "  QUALIFY row_number() OVER (PARTITION BY robustness, retriever, pool, case_id, substep_id\n"
        "    ORDER BY met DESC, n_options, reference_rank NULLS LAST) = 1)"
    )


def by_case(root: Path, values: Sequence[str] | Mapping[str, str], condition: str, keys: Sequence[str] = ()) -> str:
    """Each case's means over trials, by further `keys`: what paired intervals are taken over.

    `values` are columns, or what is worked out of some by its name.
    """
    named = values if isinstance(values, Mapping) else {value: value for value in values}
    means = ", ".join(f"avg({_value(text)}::DOUBLE) AS {name}" for name, text in named.items())
    further = "".join(f"{key}, " for key in keys)
    cells = latest(root, graded=grading.COLUMN in named.values())
    return (
        f"{cells}\nSELECT {_SETTING}, {further}cluster, case_id, count(*) AS cells, {means}\n"
        f"FROM e WHERE {condition}\nGROUP BY ALL ORDER BY ALL"
    )


def _value(text: str) -> str:
    return text if text.isidentifier() else f"({text})"


def differences(root: Path, model: str, dataset: str) -> str:
    """Each case's rates, for every planner of one model and dataset."""
    return of_place(root, ["success", "tool_match_rate", "resolved_checks"], model, dataset)


def of_place(root: Path, values: Sequence[str], model: str, dataset: str) -> str:
    """Each case's means of some columns, for every planner of one model and dataset."""
    return by_case(root, values, _of(model, dataset))


def failure_patterns(root: Path, model: str, dataset: str, patterns: Sequence[str]) -> str:
    """Of each setting's cells the share that has each pattern, and that which has none."""
    each = "".join(f"  avg(list_contains(failure_patterns, {_text(name)})::INT) AS {name},\n" for name in patterns)
    return (
        f"{latest(root, _of(model, dataset))}\nSELECT {_SETTING}, count(*) AS cells,\n{each}"
        "  avg((len(failure_patterns) = 0)::INT) AS none\n"
        "FROM e WHERE failure_patterns IS NOT NULL GROUP BY ALL ORDER BY ALL"
    )


def replacements(root: Path, model: str, dataset: str) -> str:
    """By setting the calls, and the arguments that forgiving tools replaced, all and wrongly."""
    return (
        f"{latest(root, _of(model, dataset))}\nSELECT {_SETTING}, count(*) AS cells, sum(tool_calls) AS tool_calls,\n"
        "  sum(replaced_arguments) AS replaced_arguments,\n"
        "  sum(wrongly_replaced_arguments) AS wrongly_replaced_arguments,\n"
        "  sum(wrongly_replaced_arguments) / nullif(sum(replaced_arguments), 0) AS wrong_share\n"
        "FROM e WHERE replaced_arguments IS NOT NULL GROUP BY ALL ORDER BY ALL"
    )


def disturbances(root: Path, model: str, dataset: str) -> str:
    """By setting success, refusals, and costs of solved cells; and what followed the first failure of a broken tool."""
    return (
        f"{latest(root, _of(model, dataset))}\nSELECT {_SETTING}, behaviour, count(*) AS cells,\n"
        "  avg(success::INT) AS success, avg(refused::INT) AS refused,\n"
        "  sum(plan_cost) FILTER (success AND least_cost > 0)\n"
        "    / sum(least_cost) FILTER (success AND least_cost > 0) AS cost\n"
        "FROM e GROUP BY ALL ORDER BY ALL"
    )


def tool_counts(root: Path, model: str, dataset: str, small: float) -> str:
    """By setting and kind of tool hits, calls made and gold calls over all cells, and their F1."""
    counts = ", ".join(
        f"sum((tool_counts->('$.\"' || kind || '\"[{place}]'))::BIGINT) AS {name}"
        for place, name in enumerate(("hits", "predicted", "gold"))
    )
    return (
        f"{latest(root, _of(model, dataset))},\n"
        "k AS (SELECT *, unnest(json_keys(tool_counts)) AS kind FROM e WHERE tool_counts IS NOT NULL),\n"
        f"c AS (SELECT {_SETTING}, kind, count(*) AS cells, {counts} FROM k GROUP BY ALL),\n"
        f"r AS (SELECT *, hits / (predicted + {small}) AS p, hits / nullif(gold, 0) AS r FROM c)\n"
        f"SELECT * EXCLUDE (p, r), 2 * p * r / (p + r + {small}) AS f1 FROM r ORDER BY ALL"
    )


_ALL_CALLS = "llm_calls + forward_passes + coalesce(judge_calls, 0) + coalesce(judge_passes, 0)"
_TERMS = f"{_SETTING}, config->'budget' AS budget"


def search_costs(root: Path, model: str, dataset: str) -> str:
    """Each case's success and costs, the judge's too, for every planner of one model and dataset, by budget."""
    stopped = ", ".join(
        f"avg(coalesce(budget_reached = '{part}', false)::INT) AS stopped_{part}"
        for part in ("steps", "llm_calls", "tokens", "seconds")
    )
    return (
        f"{latest(root, _of(model, dataset))}\nSELECT {_TERMS}, cluster, case_id, count(*) AS cells,\n"
        "  count(*) FILTER (status <> 'ok') AS failed, avg(success::INT) AS success,\n"
        f"  avg(tool_match_rate) AS tool_match_rate, avg({spending.OF_JUDGED}) AS tokens,\n"
        f"  avg({_ALL_CALLS}) AS calls, avg(tool_calls) AS executed,\n"
        "  avg(case_seconds) AS seconds, avg(n_nodes) AS n_nodes, avg(resolved_checks) AS checks,\n"
        f"  {stopped}\nFROM e GROUP BY ALL ORDER BY ALL"
    )


def anytime(root: Path, model: str, dataset: str, limits: Sequence[int]) -> str:
    """Each case's success and seconds at limits of executed calls, for every planner of one model and dataset."""
    return (
        f"{latest(root, _of(model, dataset))},\n"
        f"i AS (SELECT i.* FROM {improvements(root)} AS i JOIN e USING (cell_id, attempt_id)),\n"
        "p AS (SELECT cell_id, tool_calls, max(seconds) AS seconds FROM (\n"
        "  SELECT cell_id, 0 AS tool_calls, 0.0 AS seconds FROM e\n"
        "  UNION ALL BY NAME SELECT cell_id, tool_calls, case_seconds AS seconds FROM e\n"
        "  UNION ALL BY NAME SELECT cell_id, tool_calls, seconds FROM i) GROUP BY ALL),\n"
        f"l AS (SELECT unnest([{', '.join(map(str, limits))}]) AS most),\n"
        "s AS (SELECT cell_id, most, max_by(success::INT, improvement) AS success\n"
        "  FROM i JOIN l ON tool_calls <= most GROUP BY ALL),\n"
        "t AS (SELECT cell_id, most,\n"
        "    max(tool_calls) FILTER (tool_calls <= most) AS c0, min(tool_calls) FILTER (tool_calls >= most) AS c1,\n"
        "    arg_max(seconds, tool_calls) FILTER (tool_calls <= most) AS s0,\n"
        "    arg_min(seconds, tool_calls) FILTER (tool_calls >= most) AS s1\n"
        "  FROM p CROSS JOIN l GROUP BY ALL)\n"
        f"SELECT {_TERMS}, cluster, case_id, most,\n"
        "  avg(if(tool_calls <= most OR e.success IS NULL, e.success::INT, coalesce(s.success, 0))) AS success,\n"
        "  avg(if(coalesce(c1, c0) = c0, s0, s0 + (most - c0) * (s1 - s0) / (c1 - c0))) AS seconds\n"
        "FROM e JOIN t USING (cell_id) LEFT JOIN s USING (cell_id, most) GROUP BY ALL ORDER BY ALL"
    )


def improvements(root: Path) -> str:
    """The files of improvements; where nobody improved anything there are none, and DuckDB would refuse their names."""
    if any((root / "improvements").glob("*.parquet")):
        return _text(f"{root}/improvements/*.parquet")
    kinds = dict.fromkeys(("improvement", "tool_calls", "llm_calls", "forward_passes"), "BIGINT")
    kinds |= {"cell_id": "VARCHAR", "attempt_id": "VARCHAR", "seconds": "DOUBLE", "success": "BOOLEAN"}
    return f"(SELECT {', '.join(f'NULL::{kind} AS {name}' for name, kind in kinds.items())} WHERE false)"


def trees(root: Path, model: str, dataset: str) -> str:
    """The size of each episode's tree, the root left out."""
    return (
        f"{latest(root, _of(model, dataset))}\nSELECT {_TERMS}, cell_id, count(*) AS nodes,\n"
        "  count(n.execution) AS executed_nodes, coalesce(sum(n.visits) FILTER (n.depth = 1), 0) AS rollouts,\n"
        "  count(n.pruned) AS pruned\n"
        f"FROM e JOIN {_text(f'{root}/nodes/*.parquet')} AS n USING (cell_id, attempt_id)\n"
        "WHERE n.depth > 0 GROUP BY ALL ORDER BY ALL"
    )


def expected(root: Path) -> str:
    """Each case's success beside what is expected of a single pass in closed form."""
    return by_case(root, ["success", "expected_success"], "expected_success IS NOT NULL")


def entropies(root: Path, model: str, dataset: str) -> str:
    """Every first-pass decision that needs a tool and recorded an entropy, of its cell's latest try."""
    return (
        f"{latest(root)}\nSELECT {_SETTING}, cell_id, step, entropy, NOT tool_matches AS error\n"
        f"FROM e JOIN {_text(f'{root}/steps/*.parquet')} AS s USING (cell_id, attempt_id)\n"
        f"WHERE {_of(model, dataset)} AND branch = 0 AND entropy IS NOT NULL AND tool_required\nORDER BY ALL"
    )


def shapes(root: Path, condition: str) -> str:
    """Depth and breadth of each case's reference, in both definitions."""
    return (
        f"{latest(root)}\nSELECT DISTINCT dataset, case_id, depth, breadth, depth_edges, breadth_edges\n"
        f"FROM e WHERE depth IS NOT NULL AND {condition}\nORDER BY ALL"
    )


def steps(root: Path, columns: Sequence[str], condition: str) -> str:
    """The steps of some cells' latest tries."""
    return (
        f"{latest(root)}\nSELECT {', '.join(f's.{name}' for name in columns)}\n"
        f"FROM {_text(f'{root}/steps/*.parquet')} AS s JOIN e USING (cell_id, attempt_id)\n"
        f"WHERE {condition}\nORDER BY cell_id, step"
    )


def rows(root: Path, columns: Sequence[str], condition: str) -> str:
    """The rows that a regression was given; `success` is `grading.COLUMN`."""
    named = [f"{grading.COLUMN} AS success" if name == "success" else name for name in columns]
    return f"{latest(root, graded=True)}\nSELECT {', '.join(named)}\nFROM e WHERE {condition}\nORDER BY ALL"


def where(rows: Mapping[str, Sequence[str]]) -> str:
    """The condition that each column has one of its values; a planner counts by its name, whatever was changed."""
    columns = {name: "split_part(planner, '[', 1)" if name == "planner" else name for name in rows}
    return " AND ".join(f"{columns[name]} IN ({', '.join(map(_text, rows[name]))})" for name in rows) or "true"


def place(model: str, dataset: str) -> str:
    """The condition that a row is of a model and dataset, as `where` writes it."""
    return where({"model": [model], "dataset": [dataset]})


def restoration(root: Path) -> str:
    """Each case's decisions of a judge, how many were wrong, and its success, by which decisions were set right."""
    key = "config->'judge'->>"
    scored = "\n  UNION ALL\n".join(
        f"  SELECT cell_id, attempt_id, '{part}' AS part, r_{part} AS score, {part}_right AS truth\n"
        f"  FROM {_text(f'{root}/nodes/*.parquet')} WHERE r_{part} IS NOT NULL AND {part}_right IS NOT NULL"
        for part in ("pre", "post")
    )
    return (
        f"{latest(root, 'judge IS NOT NULL')},\nd AS (\n{scored}),\n"
        f"j AS (SELECT cell_id, truth, score >= ({key}(part || '_threshold'))::DOUBLE AS passed\n"
        "  FROM d JOIN e USING (cell_id, attempt_id)),\n"
        "c AS (SELECT cell_id, count(*) AS decisions, count(*) FILTER (passed AND NOT truth) AS false_positives,\n"
        "  count(*) FILTER (truth AND NOT passed) AS false_negatives FROM j GROUP BY ALL)\n"
        f"SELECT {_SETTING}, {key}'restored' AS restored, cluster, case_id, sum(decisions) AS decisions,\n"
        "  sum(false_positives) AS false_positives, sum(false_negatives) AS false_negatives,\n"
        "  avg(success::INT) AS success\nFROM e LEFT JOIN c USING (cell_id)\nGROUP BY ALL ORDER BY ALL"
    )


def win_rates(root: Path, evaluator: str, against: str) -> str:
    """Each case's win rate against a reference planner, by one evaluator."""
    return (
        f"{latest(root)},\nc AS (\n"
        f"  SELECT cell_id, against_cell_id, rule, win FROM {_text(f'{root}/comparisons/*.parquet')}\n"
        f"  WHERE evaluator = {_text(evaluator)} AND against = {_text(against)}\n"
        "  QUALIFY row_number() OVER (PARTITION BY cell_id, against_cell_id ORDER BY created_at DESC) = 1)\n"
        f"SELECT {_SETTING}, cluster, case_id, rule, avg(win) AS win, count(*) AS pairs,\n"
        "  count(*) FILTER (win IS NULL) AS unreadable\n"
        "FROM c JOIN e USING (cell_id) WHERE against_cell_id IN (SELECT cell_id FROM e)\nGROUP BY ALL ORDER BY ALL"
    )
