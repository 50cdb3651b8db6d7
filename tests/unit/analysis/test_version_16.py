"""A folder that the store wrote at schema version 16 is read for good, and sweeps go on in it.

`tests/data/version_16` is as 447b699 wrote it: react, egb_logits and tooltree on three cases of SLATE, two trials each.
So is `version_16_horizon`, a planning-horizon study of forty cases; the figures beside it are what that commit's own
tables, notebooks, power and viewer made of it.
"""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from analysis import load, tables
from analysis.papers import horizon, study
from analysis.report import print_report
from analysis.stats import spec
from analysis.stats.latent import counts, fitted
from analysis.tables import regression
from analysis.viewer.index import Index
from analysis.viewer.reading import ask, connect
from grid import store
from grid.store import scanning
from grid.store.files import VERSION_KEY
from grid.store.schema import JOINED, TABLES
from grid.store.transcripts import transcripts
from tests.unit.store.test_store import episode

WRITTEN = Path(__file__).parents[2] / "data" / "version_16"
IDS = ("cell_id", "cell_key", "attempt_id")
HORIZON = WRITTEN.with_name("version_16_horizon")
LATER = ("metrics", "scorings", "rescores")
"""Tables that came later."""
ROWS = {table: sum(pq.read_metadata(file).num_rows for file in (WRITTEN / table).glob("*")) for table in TABLES}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(shutil.copytree(WRITTEN, tmp_path / "version_16"))


@pytest.mark.parametrize("table", [table for table in get_args(store.Table) if table not in LATER])
def test_every_table_is_read_with_what_it_had(root: Path, table: store.Table) -> None:
    files = list((WRITTEN / table).iterdir())
    assert files
    assert {pq.read_metadata(file).metadata[VERSION_KEY] for file in files} == {b"16"}
    store.check(root)
    found = store.read(root, table, wide=True)
    assert found.schema.names == (JOINED if table == "episodes" else TABLES[table]).names
    assert len(found) == ROWS[table]
    raw = pa.concat_tables([pq.read_table(file) for file in files])
    for name in found.column_names:
        if name in raw.column_names:
            assert found[name].null_count == raw[name].null_count, name
        else:
            assert found[name].null_count == len(found), name


@pytest.mark.long
@pytest.mark.parametrize(
    "where",
    [
        None,
        pc.field("planner") == "react",
        pc.field("planner").isin(["react", "nobody"]) & pc.field("refine").is_valid(),
        pc.coalesce(pc.field("error_kind"), pc.scalar("")) != "code",
        pc.field("success").is_valid() & (pc.field("cell_id") > "8"),
    ],
)
def test_texts_of_large_files_come_as_dictionaries_and_mean_the_same(
    root: Path, where: pc.Expression | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = [episode(str(number), planner="later", config="{}") for number in range(3)]
    store.write(root, {"episodes": later})
    texts = [field.name for field in JOINED if field.type == pa.string() and field.name not in IDS]
    plain = store.read(root, "episodes", JOINED.names, where)
    monkeypatch.setattr(scanning, "SMALL", 0)
    found = store.read(root, "episodes", JOINED.names, where, texts)
    assert len(plain) >= (where is None)
    assert all(pa.types.is_dictionary(found[name].type) for name in texts)
    assert found.cast(plain.schema).equals(plain)


def test_figures_are_those_of_the_rows(root: Path) -> None:
    raw = pa.concat_tables([pq.read_table(file) for file in (WRITTEN / "episodes").iterdir()]).to_pandas()
    means = raw.groupby(["planner", "case_id"])["success"].mean().groupby("planner").mean()
    found = tables.results(load.episodes(root)).set_index("planner")
    assert {str(name).partition(" ")[0]: value for name, value in found["success_mean"].items()} == means.to_dict()
    text = io.StringIO()
    shown = print_report(root, Console(file=text, width=200))
    assert {"results", "differences", "costs"} <= {table.name.partition(" ")[0] for table in shown}
    cells = [str(cell) for cell in raw["cell_id"]]
    kept = transcripts(root, cells)
    assert len(kept) == len(cells)
    assert all(request is not None for cell in kept.values() for request in cell)


def test_the_viewer_shows_it_beside_new_rows(root: Path) -> None:
    store.write(root, {"episodes": [episode("new")]})
    index = Index(root)
    assert index.ask("SELECT count(*) FROM e") == [(ROWS["episodes"] + 1,)]
    query = "SELECT count(*) AS n, count(answered_by) AS known, count(reasoning_tokens) AS told FROM $files"
    found = ask(connect(root), root, "episodes", query, {})
    assert found is not None
    assert found.to_pylist() == [{"n": ROWS["episodes"] + 1, "known": 0, "told": 0}]


def test_a_sweep_goes_on_beside_it(root: Path) -> None:
    before = len(store.finished(root, by="cell_key"))
    assert before == ROWS["episodes"]
    store.write(root, {"episodes": [episode("new")]})
    store.write(root, {"episodes": [episode("newer")]})
    store.compact(root)
    assert len(store.finished(root)) == before + 2
    left = {file.name for file in (root / "episodes").iterdir()}
    assert {file.name for file in (WRITTEN / "episodes").iterdir()} <= left, "old files stay as they were written"
    assert store.read(root, "episodes", ["answered_by"])["answered_by"].null_count == before + 2


def figures(root: Path) -> dict[str, list[dict[str, Any]]]:
    """What notebooks, the report, power and the viewer take from a planning-horizon study."""
    episodes, wanted = study.rows(root), spec.load(study.PLANNING_HORIZON)
    fits = regression.fits(study.regressed(root, wanted), wanted)
    pilots = {name: fitted(counts(own, "fh", "sh")) for name, own in episodes.groupby("robustness", observed=True)}
    index = Index(root)
    found = {
        "table 2": horizon.accuracy_and_tokens(episodes),
        "table 3": pd.concat([fit.coefficients.assign(**key) for key, fit in fits if isinstance(fit, regression.Fit)]),
        "table 4": horizon.robustness_change(episodes),
        "table 5": horizon.repeated_calls(episodes),
        "results": tables.results(load.episodes(root)),
        "power": pd.DataFrame([{"robustness": name, **one._asdict()} for name, one in pilots.items()]),
        "viewer": pd.DataFrame(
            {
                **{name: getattr(one.setting, name) for name in ("robustness", "planner")},
                **{name: getattr(one, name) for name in ("cases", "cells", "broken", "tokens")},
                **one.success._asdict(),
            }
            for one in (index.summaries[setting.key] for setting in index.settings)
        ),
    }
    return {name: json.loads(frame.to_json(orient="records", double_precision=15)) for name, frame in found.items()}


def test_a_planning_horizon_study_has_the_figures_that_it_had(tmp_path: Path) -> None:
    found = figures(Path(shutil.copytree(HORIZON, tmp_path / "study")))
    then = json.loads(HORIZON.with_suffix(".json").read_text(encoding="utf-8"))
    assert found.keys() == then.keys()
    for name, rows in then.items():
        own = [{column: row[column] for column in old} for row, old in zip(found[name], rows, strict=True)]
        assert own == [pytest.approx(old) for old in rows], name
