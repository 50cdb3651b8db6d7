"""The SQL under each table of a report: DuckDB runs it in the folder from which the report was made.

A cell that ran again has several rows in the files; every query counts its latest, as `grid.store.read` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from grid.engines.roles import ASKED

_SETTING = f"model, dataset, robustness, retriever, {', '.join(ASKED)}, planner, dataset_version, setting_id, code"
_RETRIEVAL = """  SELECT model, dataset, robustness, retriever, case_id, 'retriever''s first' AS planner,
    avg(coalesce(reference_rank = 0, false)::INT) FILTER (tool_required) AS tool_match, avg(tool_required::INT) AS acted
  FROM d GROUP BY ALL
  UNION ALL BY NAME
  SELECT model, dataset, robustness, retriever, case_id, 'chance' AS planner,
    avg(if(reference_rank IS NULL, 0, 1 / n_options)) FILTER (tool_required) AS tool_match,
    avg(if(tool_required, 1 - 1 / n_options, 1 / n_options)) AS acted
  FROM d GROUP BY ALL
"""
_BASELINES = {
    "retrieval": f"""
SELECT model, dataset, robustness, retriever, planner, count(*) AS cases, avg(tool_match) AS tool_match_rate,
  avg(acted) AS action_accuracy
FROM (
{_RETRIEVAL})
GROUP BY ALL
""",
    "solvable": """
SELECT model, dataset, robustness, 'solvable cases' AS planner, count(*) AS cases, avg(solvable) AS success
FROM (SELECT model, dataset, robustness, case_id, max(solvable::INT) AS solvable
  FROM e WHERE solvable IS NOT NULL GROUP BY ALL)
GROUP BY ALL
""",
}
"""The rows of a table that no planner made, by what they come from."""


def _text(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def latest(root: Path, condition: str = "true") -> str:
    """The common table expression `e`: one row per cell, where a condition holds."""
    return (
        f"WITH e AS (SELECT * FROM {_text(f'{root}/episodes/*.parquet')} WHERE {condition}\n"
        "  QUALIFY row_number() OVER (PARTITION BY cell_key ORDER BY created_at DESC) = 1)"
    )


def results(root: Path, model: str, dataset: str, *baselines: str) -> str:
    """Counts, rates and costs of each setting of one model and dataset; and `baselines`: `retrieval`, `solvable`."""
    decisions = f",\n{_decisions(root)}" if "retrieval" in baselines else ""
    parts = [_BASELINES[name] for name in baselines]
    return (
        f"{latest(root, _of(model, dataset))}{decisions}\nSELECT {_SETTING}, trial,\n"
        "  count(DISTINCT case_id) AS cases, count(DISTINCT cluster) AS clusters, count(*) AS cells,\n"
        "  count(*) FILTER (status <> 'ok') AS failed, avg(success::INT) AS success,\n"
        "  avg(success::INT) FILTER (solvable) AS success_solvable,\n"
        "  avg(tool_match_rate) AS tool_match_rate, avg(action_accuracy) AS action_accuracy,\n"
        "  avg(input_tokens) AS input_tokens, avg(output_tokens) AS output_tokens, avg(llm_calls) AS llm_calls,\n"
        "  avg(forward_passes) AS forward_passes, avg(judge_input_tokens) AS judge_input_tokens,\n"
        "  avg(judge_output_tokens) AS judge_output_tokens, avg(judge_calls) AS judge_calls,\n"
        "  avg(judge_passes) AS judge_passes, avg(wall_seconds) AS wall_seconds,\n"
        "  avg(resolved_checks) AS resolved_checks, avg(branched_steps) AS branched_steps,\n"
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
        "d AS (SELECT * EXCLUDE met FROM (SELECT model, dataset, robustness, retriever, case_id, substep_id,\n"
        "    tool_required, n_options, reference_rank, count(*) AS met\n"
        f"  FROM f JOIN {_text(f'{root}/steps/*.parquet')} AS s USING (cell_id, attempt_id)\n"
        "  WHERE branch = 0 AND tool_required IS NOT NULL AND n_options IS NOT NULL GROUP BY ALL)\n"
        "  QUALIFY row_number() OVER (PARTITION BY robustness, retriever, case_id, substep_id\n"
        "    ORDER BY met DESC, n_options, reference_rank NULLS LAST) = 1)"
    )


def by_case(root: Path, values: Sequence[str], condition: str) -> str:
    """Each case's means over trials: what paired intervals are taken over."""
    means = ", ".join(f"avg({value}::DOUBLE) AS {value}" for value in values)
    return (
        f"{latest(root)}\nSELECT {_SETTING}, cluster, case_id, count(*) AS cells, {means}\n"
        f"FROM e WHERE {condition}\nGROUP BY ALL ORDER BY ALL"
    )


def differences(root: Path, model: str, dataset: str) -> str:
    """Each case's rates, for every planner of one model and dataset."""
    return by_case(root, ["success", "tool_match_rate", "resolved_checks"], _of(model, dataset))


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


def rows(root: Path, columns: Sequence[str], condition: str) -> str:
    """The rows that a regression was given."""
    return f"{latest(root)}\nSELECT {', '.join(columns)}\nFROM e WHERE {condition}\nORDER BY ALL"


def where(rows: Mapping[str, Sequence[str]]) -> str:
    """The condition that each column has one of its values; a planner counts by its name, whatever was changed."""
    columns = {name: "split_part(planner, '[', 1)" if name == "planner" else name for name in rows}
    return " AND ".join(f"{columns[name]} IN ({', '.join(map(_text, rows[name]))})" for name in rows) or "true"
