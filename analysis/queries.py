"""The SQL under each table of a report: DuckDB runs it in the folder from which the report was made.

A cell that ran again has several rows in the files; every query counts its latest, as `grid.store.read` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

_SETTING = "model, dataset, robustness, retriever, judge, planner, dataset_version, setting_id, code"


def _text(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def latest(root: Path) -> str:
    """The common table expression `e`: one row per cell."""
    return (
        f"WITH e AS (SELECT * FROM {_text(f'{root}/episodes/*.parquet')}\n"
        "  QUALIFY row_number() OVER (PARTITION BY cell_key ORDER BY created_at DESC) = 1)"
    )


def results(root: Path, model: str, dataset: str) -> str:
    """Counts, rates and costs of each setting of one model and dataset."""
    return (
        f"{latest(root)}\nSELECT {_SETTING}, trial, count(DISTINCT case_id) AS cases, count(*) AS cells,\n"
        "  count(*) FILTER (status <> 'ok') AS failed, avg(success::INT) AS success,\n"
        "  avg(tool_match_rate) AS tool_match_rate, avg(action_accuracy) AS action_accuracy,\n"
        "  avg(input_tokens) AS input_tokens, avg(output_tokens) AS output_tokens, avg(llm_calls) AS llm_calls,\n"
        "  avg(forward_passes) AS forward_passes, avg(wall_seconds) AS wall_seconds, avg(unassigned) AS unassigned\n"
        f"FROM e WHERE model = {_text(model)} AND dataset = {_text(dataset)}\nGROUP BY ALL ORDER BY ALL"
    )


def by_case(root: Path, values: Sequence[str], condition: str) -> str:
    """Each case's means over trials: what paired intervals are taken over."""
    means = ", ".join(f"avg({value}::DOUBLE) AS {value}" for value in values)
    return (
        f"{latest(root)}\nSELECT {_SETTING}, case_id, count(*) AS cells, {means}\n"
        f"FROM e WHERE {condition}\nGROUP BY ALL ORDER BY ALL"
    )


def differences(root: Path) -> str:
    """Each case's rates, for every planner."""
    return by_case(root, ["success", "tool_match_rate"], "true")


def entropies(root: Path) -> str:
    """Every first-pass decision that needs a tool and recorded an entropy, of its cell's latest try."""
    return (
        f"{latest(root)}\nSELECT {_SETTING}, cell_id, step, entropy, NOT tool_matches AS error\n"
        f"FROM e JOIN {_text(f'{root}/steps/*.parquet')} AS s USING (cell_id, attempt_id)\n"
        "WHERE branch = 0 AND entropy IS NOT NULL AND tool_required\nORDER BY ALL"
    )


def rows(root: Path, columns: Sequence[str], condition: str) -> str:
    """The rows that a regression was given."""
    return f"{latest(root)}\nSELECT {', '.join(columns)}\nFROM e WHERE {condition}\nORDER BY ALL"


def where(rows: Mapping[str, Sequence[str]]) -> str:
    """The condition that each column has one of its values; a planner counts by its name, whatever was changed."""
    columns = {name: "split_part(planner, '[', 1)" if name == "planner" else name for name in rows}
    return " AND ".join(f"{columns[name]} IN ({', '.join(map(_text, rows[name]))})" for name in rows) or "true"
