"""The SQL under the table of what branching corrected: `mechanisms.cells` by DuckDB."""

from __future__ import annotations

from pathlib import Path

from analysis import queries
from analysis.branching.mechanisms import CASCADE, CORRECTED, DIRECT, EQUIVALENCE, FAILED, LATER, OTHER


def cells(root: Path, model: str, dataset: str) -> str:
    """One row a cell of the planners that branch, with its mechanism where the steps have a reference's tool."""
    place = queries.where({"model": [model], "dataset": [dataset]})
    steps = f"{root}/steps/*.parquet".replace("'", "''")
    return (
        f"{queries.latest(root, place)},\n"
        "k AS (SELECT * FROM e WHERE success IS NOT NULL\n"
        "  AND setting_id IN (SELECT setting_id FROM e WHERE branched_steps IS NOT NULL)),\n"
        f"s AS (SELECT s.* FROM '{steps}' AS s JOIN k USING (cell_id, attempt_id)\n"
        "  WHERE success AND branched_steps > 0),\n"
        "f AS (SELECT cell_id, step, tool_required, reference_tool, chosen_tool AS tool, tool_matches AS matches,\n"
        "  TRUE AS there FROM s WHERE branch = 0),\n"
        "p AS (SELECT * FROM s WHERE on_path AND branch > 0),\n"
        "c AS (SELECT * FROM p QUALIFY row_number() OVER (PARTITION BY cell_id ORDER BY step) = 1),\n"
        "l AS (SELECT cell_id, coalesce(bool_or(p.tool_matches AND NOT coalesce(matches, FALSE)), FALSE) AS repaired,\n"
        "    count(*) FILTER (there IS NULL OR p.branch IS NULL OR tool IS DISTINCT FROM p.chosen_tool) AS changed\n"
        "  FROM f FULL JOIN p USING (cell_id, step) JOIN (SELECT cell_id, step AS start FROM c) USING (cell_id)\n"
        "  WHERE step > start GROUP BY ALL)\n"
        "SELECT model, dataset, robustness, planner, setting_id, cluster, case_id, cell_id,\n"
        f"  c.step IS NOT NULL OR NOT success AS {FAILED},\n"
        f"  if({FAILED}, c.step IS NOT NULL, NULL) AS {CORRECTED},\n"
        "  CASE WHEN c.reference_tool IS NULL THEN NULL\n"
        f"    WHEN c.tool_required AND c.tool_matches THEN '{DIRECT}'\n"
        f"    WHEN repaired THEN '{CASCADE}'\n"
        "    WHEN c.tool_required AND NOT c.failed AND (cell_id, c.chosen_tool) NOT IN\n"
        f"      (SELECT (cell_id, reference_tool) FROM f WHERE tool_required) THEN '{EQUIVALENCE}'\n"
        f"    ELSE '{OTHER}' END AS mechanism,\n"
        f"  if(c.reference_tool IS NULL, NULL, coalesce(changed, 0)) AS {LATER}\n"
        "FROM k LEFT JOIN c USING (cell_id) LEFT JOIN l USING (cell_id)\nORDER BY ALL"
    )
