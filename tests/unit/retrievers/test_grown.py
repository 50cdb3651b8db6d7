"""Pools of so many tools (tooltree A.11): what is in them, in which order, and what that changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from grid.cells.run import Stamp, run_cell
from grid.core.errors import ConfigError, DataError
from grid.core.problem import Problem
from grid.core.types import Parameter, ToolSpec
from grid.datasets.slate.dataset import Slate
from grid.pools.grown import MAX_NAME, OWN, Grown, distractors, fingerprint, read_tools, real_tools, variations
from grid.retrievers.scored import BM25
from grid.settings.build import build
from grid.settings.check import check_sweep
from grid.settings.config import BudgetConfig
from grid.settings.parts import Pooled
from grid.settings.setting import Setting, cells
from tests.support.configs import job, yaml

DISTRACTORS = (0, 10, 100, 1_000)
FILES: dict[str, Any] = {
    "bfcl.json": [{
        "name": "math.sum", "description": "Adds up all numbers of a list.", "parameters": {
            "type": "dict", "required": ["numbers"], "properties": {
                "numbers": {"type": "array", "description": "The numbers"},
                "start": {"type": "float", "description": "Where to begin"}}}}],
    "mcp.json": {"tools": [{"name": "read_file", "description": "Reads the text of a file.", "inputSchema": {
        "type": "object", "properties": {"path": {"type": "string", "enum": ["a", "b"]}}, "required": ["path"]}}]},
    "openapi.json": {"paths": {"/movie/{id}": {"parameters": [{"name": "id", "required": True, "schema": {
        "type": "integer"}}], "get": {"summary": "Details of one movie"}}}},
    "toolbench.json": [{"query": "?", "api_list": [{
        "category_name": "Logistics", "tool_name": "suivi-colis", "api_name": "Latest", "api_description":
        "The present state of a parcel", "required_parameters": [{"name": "colisId", "type": "STRING", "description":
        ""}], "optional_parameters": []}]}],
    "traject.json": [{
        "tool name": "Maps: Geocode", "tool description": "Coordinates of an address", "domain name": "Mapping",
        "required parameters": [], "optional parameters": [{"name": "limit", "type": "NUMBER"}]}],
    "ultratool.jsonl": [{"domain": "Document", "tools": [
        {"name": "file_write", "description": "Writes content into a file.", "arguments": {"type": "object",
         "properties": {"content": {"type": "string", "description": "What to write"}}}},
        {"name": "File_Write", "description": "The same name, written otherwise.", "arguments": {}},
        {"name": "save_file", "description": "WRITES content into a file.", "arguments": {}},
        {"name": "vague", "description": "Short.", "arguments": {}}, {"name": "call", "arguments": {"content": "x"}}]}],
}  # fmt: skip


def files(folder: Path) -> str:
    """One file in each of the forms that are read."""
    for name, value in FILES.items():
        lines = value if name.endswith("l") else [value]
        (folder / name).write_text("\n".join(map(json.dumps, lines)))
    return str(folder)


@lru_cache(maxsize=1)
def slate() -> Slate:
    return Slate(limit=12)


@lru_cache(maxsize=16)
def grown(distractors: int, seed: int = 0) -> Pooled:
    pool = Grown(distractors=distractors, seed=seed)
    stock = pool.stock(slate().tools)
    return Pooled(slate(), pool, stock, BM25(top_k=20, query_top_k=24).index(stock))


def index() -> Any:
    return BM25().index(slate().tools)


def sized(case: str, distractors: int, seed: int = 0) -> Problem:
    return grown(distractors, seed).problem(case)[0]


def test_tools_are_read_in_every_form(tmp_path: Path) -> None:
    assert read_tools(files(tmp_path)) == (
        ToolSpec("math_sum", "Adds up all numbers of a list.", (
            Parameter("numbers", "array", "The numbers"), Parameter("start", "number", "Where to begin", False))),
        ToolSpec("read_file", "Reads the text of a file.", (Parameter("path", "string", "", True, ("a", "b")),)),
        ToolSpec("get_movie_id", "Details of one movie", (Parameter("id", "integer", ""),)),
        ToolSpec("suivi_colis_Latest", "The present state of a parcel", (Parameter("colisId", "string", ""),), (),
                 "Logistics"),
        ToolSpec("Maps_Geocode", "Coordinates of an address", (Parameter("limit", "number", "", False),), (),
                 "Mapping"),
        ToolSpec("file_write", "Writes content into a file.", (
            Parameter("content", "string", "What to write", False),), (), "Document"),
    )  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_files_of_another_form_lack_tools_or_parameters_and_break_nothing(tmp_path: Path, name: str) -> None:
    """Each value in a file, at whatever depth, is replaced by values of other kinds."""
    last = {"name": "last", "description": "It is like no other tool.", "parameters": {}}
    (tmp_path / "all.json").write_text(json.dumps([*changed(FILES[name]), last]))
    assert read_tools(str(tmp_path))[-1] == ToolSpec("last", "It is like no other tool.", ())


def changed(value: Any) -> Iterator[Any]:
    """The value with one of the values in it, or itself, replaced."""
    yield from (7, "x", None, True, [7], {"a": 7})
    if isinstance(value, dict):
        yield from (value | {key: other} for key, part in value.items() for other in changed(part))
    elif isinstance(value, list):
        yield from ([*value[:at], other, *value[at + 1 :]] for at, part in enumerate(value) for other in changed(part))


def test_bad_folders_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"pool\.path.*a folder"):
        read_tools(str(tmp_path / "absent"))
    (tmp_path / "a.json").write_text("[1, 2]")
    with pytest.raises(ConfigError, match="1 files describe none"):
        read_tools(str(tmp_path))
    (tmp_path / "b.json").write_text("{ no JSON")
    with pytest.raises(DataError, match=r"b\.json"):
        read_tools(str(tmp_path) + "/.")


@pytest.mark.parametrize("case", slate().case_ids()[:4])
def test_a_larger_library_holds_a_smaller_ones_tools_and_all_hold_the_references(case: str) -> None:
    reference = slate().problem(case).reference
    used = {call.tool for call in reference.calls.values() if call}
    domains = {slate().tools[name].category for name in used}
    own = sized(case, 0).library
    smaller: dict[str, ToolSpec] = {}
    for count in DISTRACTORS:
        library = sized(case, count).library
        assert len(library) == OWN + count
        assert all(library.get(name) is tool for name, tool in smaller.items())
        assert used <= library.keys()
        assert domains.isdisjoint(tool.category for name, tool in library.items() if name not in own)
        assert len({name.casefold() for name in library}) == OWN + count
        smaller = dict(library)


def test_the_right_tools_do_not_stand_first() -> None:
    places = []
    for case in slate().case_ids():
        problem = sized(case, 100)
        order = list(problem.library)
        places += [order.index(call.tool) for call in problem.reference.calls.values() if call]
    assert 40 < sum(places) / len(places) < 75  # of 114


def test_a_seed_draws_the_distractors() -> None:
    case = slate().case_ids()[0]
    assert list(sized(case, 100).library) == list(sized(case, 100).library)
    assert set(sized(case, 100, seed=1).library) != set(sized(case, 100).library)


def test_a_small_library_is_offered_whole_and_of_a_large_one_what_is_retrieved() -> None:
    for case in slate().case_ids()[:3]:
        for count in DISTRACTORS:
            problem, size = sized(case, count), OWN + count
            for substep in problem.case.plan.substeps:
                offered = problem.candidates(problem.case, substep)
                assert {tool.name for tool in offered} <= problem.library.keys()
                assert len(offered) == (size if size <= 24 else 20)


def test_variations_are_real_tools_of_another_domain() -> None:
    real = real_tools(None)
    varied = list(islice(variations(real), 2 * len(real)))
    names = {tool.name.casefold() for tool in (*real, *varied)}
    assert len(names) == len(real) + len(varied)
    assert all(len(tool.name) <= MAX_NAME for tool in varied)
    by_end = {tool.description: tool for tool in real}
    for tool in varied[:200]:
        origin = next(o for text, o in by_end.items() if tool.description.startswith(text.rstrip(". ") + ", for "))
        assert tool.parameters == origin.parameters
        assert tool.category == origin.category
        assert f", for {tool.category}." not in tool.description


def test_real_tools_come_before_variations_and_a_longer_list_begins_with_a_shorter() -> None:
    own = tuple(slate().tools.values())
    short, long = distractors(own, None, 0, 300), distractors(own, None, 0, 1_500)
    assert long[:300] == short
    real = {tool.name for tool in (*own, *real_tools(None))}
    assert {tool.name for tool in long[: len(real)]} == real
    assert not real & {tool.name for tool in long[len(real) :]}


def test_files_add_tools(tmp_path: Path) -> None:
    path = files(tmp_path)
    assert len(real_tools(path)) == len(real_tools(None)) + 6
    assert fingerprint(path) != fingerprint(None)


def test_a_policy_without_errors_resolves_every_case_among_distractors() -> None:
    sure = {"tool_skill": 1.0, "argument_skill": 1.0, "malformed": 0.0, "case_spread": 0.0, "step_spread": 0.0}
    for count in (0, 10):
        setting = sure_of(count, sure)
        built = build(setting, BudgetConfig())
        own = list(cells(setting, built.version, built.dataset.case_ids(), 1))
        rows = [asyncio.run(run_cell(built, setting, cell, Stamp("s", None), "a")).episode for cell in own]
        assert all(row["success"] for row in rows)
        assert {row["dataset_version"] for row in rows} == {f"{built.dataset.version}+tools-{fingerprint(None)}"}


def sure_of(distractors: int, model: dict[str, Any]) -> Setting:
    config = {
        "model": yaml("model", "simulated") | model,
        "planner": yaml("planner", "react"),
        "dataset": yaml("dataset", "slate") | {"limit": 8},
        "robustness": {},
        "retriever": yaml("retriever", "bm25") | {"top_k": 20},
        "pool": yaml("pool", "grown") | {"distractors": distractors},
    }
    return Setting(config, dict.fromkeys(config, "x"), 0)


def pool_in(folder: str) -> dict[str, Any]:
    return yaml("pool", "grown") | {"distractors": 10, "path": folder}


def test_where_files_lie_is_not_in_the_id_and_what_is_in_them_is(tmp_path: Path) -> None:
    found = []
    for name, more in (("one", False), ("two", False), ("three", True)):
        folder = tmp_path / name
        folder.mkdir()
        files(folder)
        if more:
            (folder / "z.json").write_text(json.dumps(
                [{"name": "more", "description": "One tool more than before.", "parameters": {}}]))  # fmt: skip
        plan = check_sweep([job(tmp_path, pool=pool_in(str(folder)))]).plan
        found.append([cell.cell_key for setting in plan.settings for cell in plan.cells_of(setting)])
    assert found[0] == found[1]
    assert not set(found[0]) & set(found[2])


def test_two_folders_in_one_sweep_are_refused(tmp_path: Path) -> None:
    jobs = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        jobs.append(job(tmp_path, pool=pool_in(files(tmp_path / name))))
    with pytest.raises(ConfigError, match=r"pool\.path.*one value for the whole sweep"):
        check_sweep(jobs)


def test_more_tools_than_there_are_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("grid.pools.grown.variations", lambda tools: iter(()))
    with pytest.raises(ConfigError, match=r"pool\.distractors=1500: at most \d+"):
        Pooled(slate(), few := Grown(distractors=1_500), few.stock(slate().tools), index()).problem(
            slate().case_ids()[0]
        )
