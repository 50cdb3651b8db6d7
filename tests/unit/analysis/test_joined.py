"""Metrics and costs: kept in maps of an episode's row, asked for by name, and one meaning however old the file is."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from analysis.load import queries
from analysis.viewer.episodes import find
from analysis.viewer.index import Index
from grid import store
from grid.core.errors import ConfigError, StoreError
from grid.core.metric import BY_NAME, METRICS, MOST, Metric, checked, declared_by, together
from grid.store import sql
from grid.store.scanning import EpisodeRow, folded
from grid.store.schema import COSTS, JOINED, LONG, SCORES, TEXT
from tests.unit.analysis.test_version_16 import WRITTEN
from tests.unit.store.test_store import episode

VALUES: dict[str, Any] = {
    "tool_match_rate": 0.25, "exact_match": True, "hallucinated": False, "extra_calls": 3, "cancelled_llm_calls": 2**40,
    "verdict": "correct", "plan_errors": ["E1", "E6"], "failure_patterns": [], "input_tokens": 7, "llm_calls": 2,
    "judge_calls": 4, "judge_input_tokens": 2**33,
}  # fmt: skip
OWN = Metric("smiles", "smiles a minute", "lower", "a paper of one's own", "number", "How often.")


def declared(root: Path, *metrics: Metric) -> None:
    store.write(root, {"metrics": store.metric_rows([*METRICS, *metrics])})


def test_a_row_of_the_joined_form_comes_back_as_it_was(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": [episode("a", success=True, **VALUES), episode("b")]})
    rows = store.read(tmp_path, "episodes", wide=True)
    assert rows.schema.remove_metadata() == JOINED
    empty = dict.fromkeys(JOINED.names)
    assert rows.to_pylist() == [empty | episode("a", success=True, **VALUES), empty | episode("b")]
    row = EpisodeRow(folded(episode("a", **VALUES)))
    assert {name: row[name] for name in VALUES} == VALUES
    assert row["answer_f1"] is row["user_calls"] is None
    with pytest.raises(KeyError):
        row["no_such_column"]


def test_scores_and_costs_are_long(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": [episode("a", **VALUES), episode("b", judge_passes=1)]})
    scores = {(row["cell_id"], row["name"]): (row["value"], row["text"]) for row in rows(tmp_path, "scores")}
    assert scores["a", "exact_match"] == (1.0, None)
    assert scores["a", "plan_errors"] == (None, '["E1", "E6"]')
    assert {name for cell, name in scores if cell == "a"} == {name for name in VALUES if name in BY_NAME}
    assert not [cell for cell, _ in scores if cell == "b"]
    costs = {(row["cell_id"], row["role"]): row for row in rows(tmp_path, "costs")}
    assert costs.keys() == {("a", "actor"), ("a", "judge"), ("b", "judge")}
    assert (costs["a", "judge"]["input_tokens"], costs["b", "judge"]["forward_passes"]) == (2**33, 1)
    assert store.read(tmp_path, "costs", ["role"]).column_names == ["role"]


def rows(root: Path, table: store.Long) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.read(root, table).to_pylist()
    return found


def test_old_rows_and_new_ones_are_one_table(tmp_path: Path) -> None:
    root = Path(shutil.copytree(WRITTEN, tmp_path / "old"))
    old = {row["cell_id"]: row for path in (WRITTEN / "episodes").iterdir() for row in pq.read_table(path).to_pylist()}
    store.write(root, {"episodes": [episode("new", **VALUES)]})
    found = {row["cell_id"]: row for row in store.read(root, "episodes", wide=True).to_pylist()}
    assert found["new"] == dict.fromkeys(JOINED.names) | episode("new", **VALUES)
    for cell, row in old.items():
        known = {name: value for name, value in row.items() if name in JOINED.names}
        assert {name: found[cell][name] for name in known} == known
    long = {(row["cell_id"], row["name"]): row["value"] for row in store.read(root, "scores").to_pylist()}
    assert long["new", "tool_match_rate"] == 0.25
    assert all(long[cell, "finished"] == float(row["finished"]) for cell, row in old.items())
    spent = {(row["cell_id"], row["role"]): row["input_tokens"] for row in store.read(root, "costs").to_pylist()}
    assert all(spent[cell, "actor"] == row["input_tokens"] for cell, row in old.items())


@pytest.mark.parametrize("folder", ["new", "old", "both"])
def test_duckdb_has_the_joined_form_too(tmp_path: Path, folder: str) -> None:
    root = tmp_path / "it's"
    if folder != "new":
        shutil.copytree(WRITTEN, root)
    if folder != "old":
        store.write(root, {"episodes": [episode("a", **VALUES), episode("b", tool_match_rate=0.5)]})
    quoted = str(root).replace("'", "''")
    query = f"SELECT cell_id, {', '.join(LONG.names)} FROM (SELECT * FROM '{quoted}/episodes/*.parquet') ORDER BY 1"  # noqa: S608
    found = duckdb.connect().execute(sql.joined(query)).fetchall()
    rows = store.read(root, "episodes", ["cell_id", *LONG.names]).to_pylist()
    assert found == [tuple(row.values()) for row in rows]
    some = sql.joined(f"SELECT avg(inclusion) FROM (SELECT * FROM '{quoted}/episodes/*.parquet')")  # noqa: S608
    assert "usage" not in some, "what is not named is not taken"


def test_rows_are_chosen_by_a_metric(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": [episode(str(n), tool_match_rate=n / 10, judge_calls=n) for n in range(10)]})
    where = (pc.field("tool_match_rate") > 0.55) & (pc.field("judge_calls") < 9)
    assert store.read(tmp_path, "episodes", ["cell_id"], where)["cell_id"].to_pylist() == ["6", "7", "8"]


def test_a_plugins_metric_is_a_column_like_ours(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": [episode("a", scores={"smiles": 2.5}), episode("b")]})
    with pytest.raises(StoreError, match="no metric of its sweeps is called 'smiles'"):
        store.read(tmp_path, "episodes", ["smiles"])
    declared(tmp_path, OWN)
    declared(tmp_path, OWN)
    assert store.metrics(tmp_path)["smiles"] == OWN
    assert store.read(tmp_path, "episodes", ["smiles"])["smiles"].to_pylist() == [2.5, None]
    wide = store.read(tmp_path, "episodes", wide=True)
    assert wide["smiles"].to_pylist() == [2.5, None]
    query = sql.joined(f"SELECT sum(smiles) FROM (SELECT * FROM '{tmp_path}/episodes/*.parquet')")  # noqa: S608
    assert duckdb.connect().execute(query).fetchall() == [(2.5,)]


def test_two_sweeps_that_mean_two_things_by_a_name_are_refused(tmp_path: Path) -> None:
    declared(tmp_path, OWN)
    declared(tmp_path, Metric("smiles", "smiles an hour", "lower"))
    with pytest.raises(StoreError, match="smiles an hour in another"):
        store.metrics(tmp_path)


@pytest.mark.parametrize("name", ["a,b", "", "Big", "1st", "a b", "x" * 65, "é", 3])
def test_a_name_that_no_table_could_hold_is_none(name: Any) -> None:
    with pytest.raises(ConfigError, match=r"metric\.name"):
        Metric(name)


def test_what_is_declared_is_held_together() -> None:
    class Many:
        metrics = tuple(Metric(f"m{number}") for number in range(MOST + 1))

    class Twice:
        metrics = (Metric("a"), Metric("a"))

    class Words:
        metrics = ("a",)

    class Alone:
        metrics = Metric("a")

    for one in (Many, Twice, Words, Alone):
        with pytest.raises(ConfigError, match=r"\.metrics="):
            declared_by(one())
    with pytest.raises(ConfigError, match="must be declared as in one: number in share"):
        together([("one", [Metric("a", "share")]), ("two", [Metric("a", "%")])])
    with pytest.raises(ConfigError, match="must not be the name of a column of the table episodes"):
        together([("one", [Metric("depth")])], reserved=["depth"])
    assert together([("one", [Metric("a", "share")]), ("two", [Metric("a", "share", meaning="as one's")])])


@pytest.mark.parametrize("value", [math.nan, math.inf, "0.5", [0.5], True])
def test_a_value_is_of_its_metrics_kind(value: Any) -> None:
    if value is True:
        assert checked({"a": True, "b": None}, {"a": Metric("a"), "b": Metric("b")}) == {"a": 1.0}
        return
    with pytest.raises(ValueError, match=r"metric a: .* is not a number, or is not finite"):
        checked({"a": value}, {"a": Metric("a")})


def test_a_name_that_nobody_declared_is_no_metric() -> None:
    with pytest.raises(ValueError, match="metric 'a' is not declared"):
        checked({"a": 1.0}, {})


def test_maps_hold_what_columns_cannot(tmp_path: Path) -> None:
    told: dict[str, Any] = {SCORES: {"é": 0.0}, TEXT: {"x": "\0"}, COSTS: {"critic": {"money": 0.25}}}
    store.write(tmp_path, {"episodes": [episode("a", **told)]})
    (row,) = store.read(tmp_path, "episodes").to_pylist()
    assert [row[name] for name in (SCORES, TEXT)] == [[("é", 0.0)], [("x", "\0")]]
    store.write(tmp_path / "again", {"episodes": [row]})
    assert store.read(tmp_path / "again", "episodes").to_pylist() == [row]
    assert pa.types.is_map(store.read(tmp_path, "episodes").schema.field(SCORES).type)


@pytest.mark.long
@pytest.mark.parametrize("first", ["a", "b"])
def test_of_two_rows_of_one_moment_the_same_counts_for_everybody(tmp_path: Path, first: str) -> None:
    """However the files are called; the later one counts whatever its try is called."""
    for attempt in (first, *({"a", "b"} - {first})):
        row = episode("x", attempt, planner="react", case_id="c", trial=0, answer=attempt, success=attempt == "b")
        store.write(tmp_path, {"episodes": [row]})
    assert answers(tmp_path) == ["b"] * 3
    last = episode("x", "0", minute=1, planner="react", case_id="c", trial=0, answer="0", success=True)
    store.write(tmp_path, {"episodes": [last]})
    assert answers(tmp_path) == ["0"] * 3


def answers(root: Path) -> list[str]:
    """The answer of the one cell's row that counts: for Arrow, for DuckDB, for the viewer."""
    (read,) = store.read(root, "episodes", ["answer"])["answer"].to_pylist()
    ((asked,),) = duckdb.connect().execute(f"{queries.latest(root)} SELECT answer FROM e").fetchall()  # noqa: S608
    index = Index(root)
    assert index.ask("SELECT count(*) FROM e") == [(1,)]
    found = find(index, "x")
    assert found is not None
    return [read, asked, found[0]["answer"]]
