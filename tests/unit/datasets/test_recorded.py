"""Recorded responses in the form of StableToolBench's cache: what is found, and what a hostile folder can do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from grid.core.errors import ConfigError
from grid.core.types import Json, ToolCall
from grid.datasets.stabletoolbench import Recorded, StableToolBench
from grid.datasets.stabletoolbench_records import Api
from tests.support.stabletoolbench import api, parameter, query, write_queries
from tests.support.walks import Walk

CONVERT = Api("Finance", "Money Changer", "Convert")
PLACE = "Finance/money_changer_for_Finance/convert.json"
KNOWN = {
    "{'amount': 5, 'to': 'NOK'}": {"error": "", "response": {"rate": 10.5}},
    "{'to': 'SEK', 'amount': '5'}": {"error": "no such currency", "response": ""},
    "{}": {"error": "", "response": "nothing was asked"},
}


def record(root: Path, content: Any, place: str = PLACE) -> Path:
    file = root / place
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"to": "NOK", "amount": 5}, ("", {"rate": 10.5})),
        ({"amount": "5", "to": "NOK"}, ("", {"rate": 10.5})),
        ({"Amount": 5, "TO": "SEK"}, ("no such currency", "")),
        ({}, ("", "nothing was asked")),
        ({"amount": 6, "to": "NOK"}, None),
        ({"amount": 5}, None),
    ],
)
def test_a_recorded_call_is_found_by_its_arguments(
    tmp_path: Path, arguments: dict[str, Json], found: tuple[str, Json] | None
) -> None:
    assert Recorded(str(record(tmp_path, KNOWN)), [CONVERT]).find(CONVERT, arguments) == found


def test_names_of_files_and_arguments_are_as_the_benchmark_writes_them(tmp_path: Path) -> None:
    odd = Api("News, Media/Video", "9 Lives!", "id")
    place = "News_Media_Video/get_9_lives_for_News_Media_Video/is_id.json"
    found = Recorded(str(record(tmp_path, {"{'is_id': 1, 'get_2nd': 2}": {"error": "", "response": 3}}, place)), [odd])
    assert found.find(odd, {"id": 1, "2nd": 2}) == ("", 3)


def test_a_case_is_answered_from_records_first(tmp_path: Path) -> None:
    rows = [
        query(1, "What?", [api("Money Changer", "Convert", [parameter("amount"), parameter("to")], category="Finance")])
    ]
    path = write_queries(tmp_path / "queries", {"G1_tool": rows})
    plain, recorded = (
        StableToolBench(path=path, responses=responses) for responses in (None, str(record(tmp_path / "cache", KNOWN)))
    )
    assert plain.version != recorded.version
    walk = Walk(recorded.problem("G1_tool-1").world)
    failed = walk.make(ToolCall("convert_for_money_changer", {"amount": 5, "to": "SEK"}))
    assert (failed.failed, failed.content) == (True, {"error": "no such currency"})
    assert not walk.resolved
    assert walk.make(ToolCall("convert_for_money_changer", {"amount": 5, "to": "NOK"})).content == {"rate": 10.5}
    assert walk.resolved
    made_up = walk.make(ToolCall("convert_for_money_changer", {"amount": 7, "to": "NOK"}))
    assert not made_up.failed
    record(tmp_path / "cache", {**KNOWN, "{'amount': 1}": {"error": "", "response": 1}})
    again = StableToolBench(path=path, responses=str(tmp_path / "cache"))
    assert again.version != recorded.version


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", '{"{}": ', "[" * 100_000, '{"{}": {"error": "", "response": NaN}}', "\x00\xff"],
)
def test_a_file_of_garbage_has_no_responses_and_is_reported(tmp_path: Path, content: str) -> None:
    found = Recorded(str(record(tmp_path, content)), [CONVERT])
    assert found.find(CONVERT, {}) is None
    assert found.examples(CONVERT) == []
    assert [(skip.record, skip.reason.partition(":")[0]) for skip in found.unreadable] == [
        (PLACE, "recorded responses")
    ]


@pytest.mark.parametrize(
    "key", ["__import__('os').abort()", "{'a': f()}", "[1]", "{'a': 1", "", "{" * 5000, f"{{'a': '{'x' * 20_000}'}}"]
)
def test_inputs_are_read_and_never_run(tmp_path: Path, key: str) -> None:
    content = {key: {"error": "", "response": 1}, **KNOWN}
    found = Recorded(str(record(tmp_path, content)), [CONVERT])
    assert found.find(CONVERT, {"amount": 5, "to": "NOK"}) is not None
    assert not found.unreadable


@pytest.mark.parametrize("answer", [7, None, [], {}, {"error": "x"}, "text"])
def test_an_answer_of_another_form_is_none(tmp_path: Path, answer: Any) -> None:
    assert Recorded(str(record(tmp_path, {"{}": answer})), [CONVERT]).find(CONVERT, {}) is None


def test_no_name_leads_out_of_the_folder(tmp_path: Path) -> None:
    secret = {"{}": {"error": "", "response": "secret"}}
    inside = record(tmp_path / "inside", KNOWN)
    record(tmp_path, secret, "x_for_../api.json")
    record(tmp_path, secret, "outside.json")
    (inside / "Data" / "x_for_Data").mkdir(parents=True)
    (inside / "Data" / "x_for_Data" / "link.json").symlink_to(tmp_path / "outside.json")
    (inside / "Data" / "loop").symlink_to(inside / "Data" / "loop")
    apis = [Api("..", "x", "api"), Api("Data", "x", "link"), Api("../..", "../x", "../api"), Api("a\0b", "x", "y")]
    apis += [Api("/", "/etc", "passwd"), Api("Data", "x" * 5000, "y"), Api("Data", "loop", "x")]
    found = Recorded(str(inside), apis)
    assert [found.find(one, {}) for one in apis] == [None] * len(apis)


def test_a_few_short_examples_are_shown(tmp_path: Path) -> None:
    many = {f"{{'amount': {number}}}": {"error": "", "response": "x" * 300} for number in range(20)}
    shown = Recorded(str(record(tmp_path, many)), [CONVERT]).examples(CONVERT)
    assert shown[0].startswith("{'amount': 0} -> ")
    assert len(shown) == 5
    huge = Recorded(str(record(tmp_path / "b", {"{}": {"error": "", "response": "x" * 5000}})), [CONVERT])
    assert huge.examples(CONVERT) == []
    assert Recorded(str(tmp_path), []).examples(CONVERT) == []


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = write_queries(tmp_path)
    with pytest.raises(ConfigError) as caught:
        _ = StableToolBench(path=path, responses=str(tmp_path / "absent")).version
    assert caught.value.key == "dataset.responses"


def test_a_response_that_no_table_can_hold_is_none(tmp_path: Path) -> None:
    content = '{"{}": {"error": "", "response": "\\ud800"}, "{\'a\': 1}": {"error": "", "response": "fine"}}'
    found = Recorded(str(record(tmp_path, content)), [CONVERT])
    assert (found.find(CONVERT, {}), found.find(CONVERT, {"a": 1})) == (None, ("", "fine"))
    assert len(found.examples(CONVERT)) == 1
