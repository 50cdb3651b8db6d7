"""Tasks for an MCP server's tools: what is listed, what is read, what is refused and what is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grid.core.engine import ToolCallAnswer
from grid.core.errors import ConfigError, DataError
from grid.core.problem import REFERENCES
from grid.core.types import Parameter, ToolCall, ToolSpec
from grid.datasets.mcp import Mcp
from grid.datasets.mcp_session import specs
from grid.datasets.mcp_world import same_answer
from grid.engines.answer_schema import answer_schema
from grid.engines.functions import _definition
from grid.episode.prompts import tool_text
from grid.settings.build import build
from grid.settings.check import invalid_reason
from grid.settings.config import BudgetConfig
from grid.text.references import misfit
from tests.support import mcp
from tests.support.configs import setting_of
from tests.support.extras import needs
from tests.support.mcp_server import EITHER

pytestmark = needs("mcp")

PRICE = {"tool": "price", "arguments": {"name": "mug"}}


def data(at: Path, mode: str = "", rows: list[dict[str, Any]] | None = None, **values: Any) -> Mcp:
    return Mcp(**{"path": mcp.write(at, rows), **mcp.command(mode), **values})


def test_tools_are_as_the_server_lists_them(tmp_path: Path) -> None:
    tools = data(tmp_path).tools
    assert list(tools) == ["add_item", "count_items", "price", "convert", "note"]
    name, count = tools["add_item"].parameters
    assert (name.type, name.required, name.description) == ("string", True, "of the item.")
    assert (count.type, count.required, count.description) == ("integer", False, "Default: 1.")
    assert tools["convert"].parameters[1].values == ("USD", "EUR")
    assert tools["price"].returns == ("result",)
    assert data(tmp_path, "two_pages").tools == tools
    assert data(tmp_path, "banner").tools == tools


def test_schemas_are_read_with_what_they_refer_to(tmp_path: Path) -> None:
    tool = data(tmp_path, "nested").tools["order"]
    assert [(one.name, one.type) for one in tool.parameters] == [
        ("address", "object"),
        ("note", "string"),
        ("$ref", "integer"),
        ("kind", "string"),
    ]
    assert "street*: string" in tool.parameters[0].description
    assert "Default: null" in tool.parameters[1].description
    assert tool.returns == ("id", "total")


def test_alternatives_stay_in_the_prompt_and_in_the_function(tmp_path: Path) -> None:
    tool = data(tmp_path, "either").tools["either"]
    assert {one.name: (one.type, one.required) for one in tool.parameters} == {
        "z": ("string", True),
        "b": ("boolean|number", False),
        "t": ("integer|array", False),
        "o": ("object", False),
        "a": ("object", False),
        "n": ("integer", False),
        "l": ("array", False),
    }
    assert tool_text(tool) == (
        "either(z*: string, b: boolean|number, t: integer|array, o: object, a: object, n: integer, l: array) -> result"
        ": Has parts of several kinds. Needs b, or o and a. [b = a flag or a share.; t = Form: [integer].; "
        "o = Form: {x*: number} or {name*: string}.; a = Form: {q*: boolean, p*: integer}.]"
    )
    function = json.loads(_definition("either", tool))["function"]
    told, own = function["parameters"]["properties"], EITHER["inputSchema"]["properties"]
    assert told["b"] == own["b"] | {"description": "a flag or a share."}
    assert {key: told["o"][key] for key in own["o"]} == own["o"]
    assert told["t"]["type"] == ["integer", "array", "null"]
    assert told["a"]["allOf"][1] == {"properties": {"q": {"type": "boolean"}}, "required": ["q"]}
    assert (told["n"]["minimum"], told["n"]["maximum"]) == (1, 5)
    assert told["l"]["items"] == {}
    action = answer_schema(ToolCallAnswer((tool,), may_decline=False))["properties"]["action"]
    assert action["properties"]["arguments"]["properties"]["b"] == {
        "anyOf": [{"type": "boolean"}, {"type": "number"}, {"type": "string"}]
    }


@pytest.mark.long
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"b": True}, None),
        ({"b": 2.5}, None),
        ({"b": [1]}, "b is no boolean or number"),
        ({"t": 5}, None),
        ({"t": [1, 2]}, None),
        ({"t": None}, None),
        ({"t": True}, "t is no integer or array"),
        ({"t": [1, True]}, "True is not of type 'integer'"),
        ({"o": {"x": 1}}, None),
        ({"o": {"name": "Tür"}}, None),
        ({"o": {"x": "OUTPUT_FROM_STEP_0.result"}}, None),
        ({"o": {"x": -1}}, "o does not fit its schema"),
        ({"o": {"name": "Tür", "more": 1}}, "o does not fit its schema"),
        ({"a": {"p": 1, "q": False}}, None),
        ({"a": {"p": 1}}, "'q' is a required property"),
        ({"n": 6}, "6 is greater than the maximum of 5"),
        ({"n": "6"}, None),
        ({"z": None}, None),
        ({"z": ""}, "either without z"),
    ],
)
def test_a_call_is_held_against_the_whole_schema(tmp_path: Path, arguments: dict[str, Any], why: str | None) -> None:
    """A text fits wherever it stands: it may be what an earlier step returned."""
    call = {"tool": "either", "arguments": {"z": "a", **arguments}}
    prior = {"tool": "price", "arguments": {"name": "mug"}}
    found = data(tmp_path, "either", [{"id": "one", "query": "Do it.", "calls": [prior, call]}, *mcp.tasks()])
    reasons = [skip.reason for skip in found.skipped]
    assert ("one" in found.case_ids()) == (why is None), reasons
    assert why is None or why in reasons[0]


def test_a_pattern_of_a_server_is_never_run(tmp_path: Path) -> None:
    """It might take for ever: what the server's own check refuses, it refuses."""
    schema = json.dumps({"type": "object", "patternProperties": {"(a+)+$": {}}, "additionalProperties": False})
    tool = ToolSpec("t", "", (Parameter("o", "object", "", schema=schema),))
    assert misfit(ToolCall("t", {"o": {"a" * 40 + "!": 1}}), tool) is None


NUMBER = {"type": "object", "properties": {"a": {"type": "integer"}}}
CHAIN = {f"d{place}": {"items": {"$ref": f"#/$defs/d{place + 1}"}} for place in range(900)} | {"d900": {}}
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    "more",
    [
        {"patternProperties": {"properties": True, "$ref": True, "default": {"$ref": "#/$defs/n"}}, "$defs": {"n": {}}},
        {"dependentRequired": {"properties": ["a"], "$ref": ["a"]}},
        {"dependencies": {"properties": ["a"]}, "$schema": DRAFT_7},
        {"x-of-our-own": {"properties": 5}},
    ],
)
def test_names_and_keys_of_no_meaning_are_not_read_as_keys_of_a_schema(more: dict[str, Any]) -> None:
    tools, skipped = specs([{"name": "t", "inputSchema": {**NUMBER, **more}}])
    assert [(one.name, one.type) for one in tools["t"].parameters] == [("a", "integer")]
    assert not skipped


@pytest.mark.parametrize(
    "more",
    [
        {"$schema": "http://[x"},
        {"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"allOf": 5}}, "$schema": DRAFT_7},
        {"properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": CHAIN},
    ],
)
def test_a_schema_that_nobody_can_read_takes_its_tool_alone(more: dict[str, Any]) -> None:
    tools, skipped = specs([{"name": "t", "inputSchema": {**NUMBER, **more}}, {"name": "u", "inputSchema": NUMBER}])
    assert list(tools) == ["u"]
    ((record, reason),) = [(one.record, one.reason) for one in skipped]
    assert record == "tool t"
    assert "its schema cannot be read" in reason


def test_a_tool_with_a_broken_schema_is_left_out_by_name_and_so_are_its_tasks(tmp_path: Path) -> None:
    rows = [*mcp.tasks(), {"id": "odd", "query": "Do it.", "calls": [{"tool": "lost"}]}]
    found = data(tmp_path, "broken", rows)
    assert list(found.tools) == list(data(tmp_path).tools)
    told = {skip.record: skip.reason for skip in found.skipped}
    assert list(told) == ["tool typed", "tool lost", "tool has a blank", "tool bomb", "odd"]
    for name, why in {
        "tool typed": "its schema is invalid",
        "tool lost": "a reference to nothing: #/$defs/none",
        "tool has a blank": "other characters",
        "tool bomb": "more than 10,000 parts",
        "odd": "which was left out",
    }.items():
        assert why in told[name]


@pytest.mark.parametrize(
    ("mode", "values", "why"),
    [
        ("dies_at_start", {}, "it ended with status 1; it wrote: no database"),
        ("hang_at_start", {"start_seconds": 0.5}, "did not answer within 0.5 s"),
        ("hang_at_list", {"start_seconds": 0.5}, "did not answer within 0.5 s"),
        ("pages", {"max_tools": 20}, "more than 20 tools (dataset.max_tools)"),
        ("endless", {}, "more than 100 pages"),
        ("twins", {}, "two tools with the name 'price'"),
        ("array", {}, "tools.5.inputSchema.type: Input should be 'object'"),
        ("untyped", {}, "tools.5.inputSchema: Field required"),
    ],
)
def test_a_server_that_cannot_be_used_is_refused(tmp_path: Path, mode: str, values: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _ = data(tmp_path, mode, **values).tools
    assert caught.value.key == "dataset.command"
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("command", "/no/such/program"),
        ("command", None),
        ("env", ["NO_SUCH_VARIABLE"]),
        ("folder", "/no/such/folder"),
        ("path", "/no/such/file"),
    ],
)
def test_what_can_never_start_is_refused_by_its_key(tmp_path: Path, key: str, value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        _ = data(tmp_path, **{key: value}).version
    assert caught.value.key == f"dataset.{key}"


def test_a_folder_is_copied_whole_so_that_links_and_large_ones_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    with pytest.raises(ConfigError, match="without links"):
        _ = data(tmp_path, folder=str(folder)).version
    (folder / "link").unlink()
    with (folder / "large").open("wb") as file:
        file.truncate(65 * 2**20)
    with pytest.raises(ConfigError, match="64 MiB"):
        _ = data(tmp_path, folder=str(folder)).version


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("[]", "a JSON object is expected"),
        ("{", "broken JSON"),
        ('{"query": "q"}', "id: Field required"),
        ('{"id": "a"}', "query: Field required"),
        ('{"id": "a", "query": "q", "tools": []}', "tools: there is no key 'tools'; the keys are"),
        ('{"id": 7, "query": "q"}', "id: Input should be a valid string"),
        ('{"id": "a", "query": "q", "answr": "3"}', "there is no key 'answr' (did you mean answer?)"),
        ('{"id": "a", "query": "q", "answer": 3}', "answer: Input should be a valid string"),
        (
            '{"id": "a", "query": "q", "calls": [{"name": "x"}]}',
            "calls.0.name: there is no key 'name'; the keys are tool, arguments",
        ),
        ('{"id": "a", "query": "q", "calls": [{"tool": "x", "arguments": []}]}', "calls.0.arguments"),
        ('{"id": "add-mug", "query": "q", "answer": "a"}', "id: an earlier task has the id 'add-mug'"),
        ('{"id": "\\ud800", "query": "q"}', "surrogate"),
        ('{"id": "a", "query": "q", "query": "r", "answer": "a"}', "'query' stands twice in an object"),
        ('{"id": "a", "query": "q", "calls": [{"tool": "x", "arguments": {"n": 1, "n": 1}}]}', "'n' stands twice"),
        ('{"id": "a", "query": "", "answer": "a"}', "query: it is blank"),
        ('{"id": "a", "query": " \\n", "answer": "a"}', "query: it is blank"),
        ('{"id": "a", "query": "q", "answer": " "}', "answer: it is blank"),
    ],
)
def test_a_line_that_is_no_task_is_an_error_with_its_place(tmp_path: Path, line: str, why: str) -> None:
    found = data(tmp_path)
    file = Path(mcp.write(tmp_path))
    number = len(file.read_text(encoding="utf-8").splitlines()) + 1
    file.write_text(file.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        found.case_ids()
    assert (caught.value.path, caught.value.line) == (file, number)
    assert why in str(caught.value)


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ({}, "no calls, answer or expect"),
        ({"calls": [{"tool": "sell"}]}, "'sell', which is not a tool of the server"),
        ({"calls": [{"tool": "price"}]}, "price without name"),
        ({"answer": "1", "milestones": [{"tool": "prise"}]}, "'prise', which is not a tool (did you mean price?)"),
        ({"calls": [{"tool": "price", "arguments": {"name": "mug", "of": "x"}}]}, "no argument 'of'"),
        (
            {"calls": [{"tool": "price", "arguments": {"name": "OUTPUT_FROM_STEP_0.result"}}]},
            "which is not an earlier step",
        ),
    ],
)
def test_a_task_that_cannot_be_a_case_is_skipped_with_its_reason(
    tmp_path: Path, task: dict[str, Any], why: str
) -> None:
    found = data(tmp_path, rows=[*mcp.tasks(), {"id": "odd", "query": "q", **task}])
    assert sorted(found.case_ids()) == sorted(row["id"] for row in mcp.tasks())
    ((record, reason),) = [(skip.record, skip.reason) for skip in found.skipped]
    assert record == "odd"
    assert why in reason


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"id": "odd", "query": "q"}', "no calls, answer or expect"),
        ('{"id": "odd", "query": "q", "calls": [{"tool": "lost"}]}', "left out .*a reference to nothing"),
        ("", "the file is empty"),
    ],
)
def test_a_file_without_any_case_is_refused_for_its_first_tasks_fault(tmp_path: Path, line: str, why: str) -> None:
    """Not for that of a tool that no task needs: the mode lists four broken ones."""
    found = data(tmp_path, "broken")
    Path(found.path or "").write_text(line, encoding="utf-8")
    with pytest.raises(ConfigError, match=why):
        found.case_ids()


def test_there_are_references_where_every_task_has_calls(tmp_path: Path) -> None:
    assert data(tmp_path).provides == {REFERENCES}
    asked = {"id": "asked", "query": "What does it cost?", "answer": "9.50"}
    assert data(tmp_path, rows=[*mcp.tasks(), asked]).provides == frozenset()
    setting = setting_of({"path": mcp.write(tmp_path, [asked])}, dataset="mcp", model="simulated")
    assert "needs the cases' references" in str(invalid_reason(setting))


def test_planners_that_go_back_are_left_out_by_name(tmp_path: Path) -> None:
    setting = setting_of({"path": mcp.write(tmp_path)}, dataset="mcp", planner="lats")
    assert invalid_reason(setting) == (
        "conf/planner/lats.yaml needs branching, which conf/dataset/mcp.yaml does not have"
    )


def test_the_version_tells_tasks_tools_and_folder_but_no_place(tmp_path: Path) -> None:
    folder, other = tmp_path / "folder", tmp_path / "other"
    for one in (folder, other):
        one.mkdir()
        (one / "data.txt").write_text("7")
    first = data(tmp_path, folder=str(folder)).version
    assert data(other, folder=str(folder)).version == first
    (other / "tasks.jsonl").unlink()
    assert data(tmp_path, folder=str(other)).version == first
    (other / "data.txt").write_text("8")
    versions = {
        first,
        data(tmp_path).version,
        data(tmp_path, folder=str(other)).version,
        data(tmp_path, "odd", folder=str(folder)).version,
        data(tmp_path, rows=mcp.tasks()[1:], folder=str(folder)).version,
    }
    assert len(versions) == 5


def test_cases_have_what_their_tasks_say(tmp_path: Path) -> None:
    found = data(tmp_path, limit=4)
    assert len(found.case_ids()) == 4
    assert found.cluster("price-mug") == found.cluster("price-Tür") == "price"
    assert found.cluster("add-mug") == "add-mug"
    priced, added = found.problem("price-mug"), found.problem("add-mug")
    assert (priced.case.answered, priced.case.policy, added.case.answered) == (True, "Be brief.", False)
    assert (priced.reference.answer, priced.reference.resolution) == ("9.50", ("0",))
    drafted = data(tmp_path, outline="drafted").problem("price-mug")
    assert not drafted.case.answered


def test_a_task_names_what_lies_on_the_way_and_what_must_not_be_done(tmp_path: Path) -> None:
    named = {"milestones": [PRICE, {"tool": "add_item"}], "in_order": True, "forbidden": [{"tool": "note"}]}
    found = data(tmp_path, rows=[{"id": "buy", "query": "Buy a mug.", "answer": "1", **named}]).problem("buy")
    first, second = found.reference.milestones
    assert (first.tool, first.arguments, second.after) == ("price", {"name": "mug"}, (first.name,))
    assert [one.tool for one in found.reference.forbidden] == ["note"]


@pytest.mark.parametrize(
    ("given", "wanted", "same"),
    [
        ("9.5", "9.50", True),
        ("$ 9.50", "9.50", True),
        ("95", "9.5", False),
        ("1,000", "1000", True),
        ("the Lamp.", "lamp", True),
        ("tür", "Tür", True),
        ("2024-05-01", "May 1, 2024", True),
        ("lamp and mug", "lamp", False),
        ("-5", "5", False),
        ("[{'COUNT(*)': 8}]", "8", True),
        ('{"name": "Tür"}', "tür", True),
        ("[{'n': 8}, {'n': 9}]", "8", False),
        ("it is {'n': 8}", "8", False),
        ("[" * 5000, "8", False),
    ],
)
def test_answers_mean_the_same_in_an_equal_form(given: str, wanted: str, same: bool) -> None:
    assert same_answer(given, wanted) == same


def test_a_listing_that_changes_changes_the_version_of_the_rows(tmp_path: Path) -> None:
    """What the driver saw is in the cells' ids, what a worker sees in their rows."""
    values = {"path": mcp.write(tmp_path)}
    driver = build(setting_of(values, dataset="mcp"), BudgetConfig())
    worker = build(setting_of({**values, **mcp.command("odd")}, dataset="mcp"), BudgetConfig())
    assert driver.version != worker.version
    assert json.dumps(driver.version).startswith('"mcp-a')
