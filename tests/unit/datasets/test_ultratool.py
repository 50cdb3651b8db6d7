"""UltraTool as cases (egb_slate appendix B.3), on small files in the released format and on the release itself."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from grid.core.errors import ConfigError, DataError
from grid.core.problem import Problem
from grid.core.types import Json, ToolCall
from grid.datasets.ultratool import QUERIES, USAGE, UltraTool
from grid.metrics.scores import solvable
from grid.text.references import reference, resolve
from tests.support.walks import Walk

Row = dict[str, Any]


def tool(name: str, arguments: Sequence[str], results: dict[str, Any]) -> Row:
    """A tool definition; `results` maps a field to its type."""
    return {
        "name": name,
        "description": f"Does {name}.",
        "arguments": {"type": "object", "properties": {a: {"description": a, "type": "string"} for a in arguments}},
        "results": {"type": "object", "properties": {field: {"type": kind} for field, kind in results.items()}},
    }


WRITE = tool("file_write", ["file_path", "content"], {"status": "boolean"})
BOOK = tool("book_flight", ["flight", "seat"], {"booking_number": "string", "price": "number", "legs": "array"})
CANCEL = tool("cancel_booking", ["booking_number", "reason"], {"status": "boolean"})
DEFAULT_TOOLS = (WRITE, BOOK, CANCEL)


def query(*plan: tuple[str, str], question: str = "Help me.\n", tools: Sequence[Row] = DEFAULT_TOOLS) -> Row:
    return {
        "question": question,
        "plan": [{"step": step, "tool": call} for step, call in plan],
        "tools": list(tools),
        "domain": "Office",
    }


def usage(step: str, name: str, param: Any, question: str = "Help me.\n") -> Row:
    return {"question": question, "reference": [{"step": step, "tool": name, "param": param}]}


Make = Callable[..., UltraTool]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def build(*rows: Row, listed: Sequence[Row] = (), **keys: Any) -> UltraTool:
        (tmp_path / "test_set").mkdir(exist_ok=True)
        nothing: Row = {"question": "Another.", "reference": []}
        for name, lines in ((QUERIES, rows), (USAGE, [nothing, *listed])):
            (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        return UltraTool(str(tmp_path), **keys)

    return build


def only(dataset: UltraTool) -> Problem:
    assert list(dataset.case_ids()) == ["ultratool-0000"], dataset.skipped
    return dataset.problem("ultratool-0000")


def arguments(dataset: UltraTool, step: str) -> dict[str, Json]:
    call = only(dataset).reference.calls[step]
    assert call is not None
    return dict(call.arguments)


def run(problem: Problem) -> tuple[dict[str, Any], bool]:
    """Make the reference calls in plan order; the outputs by step, and whether they resolve the case."""
    walk, outputs = Walk(problem.world), dict[str, Any]()
    for step, call in problem.reference.calls.items():
        if call:
            concrete = resolve(call, outputs)
            assert "OUTPUT_FROM_STEP" not in concrete.text()
            outputs[step] = walk.make(concrete).content
    return outputs, walk.resolved


def test_a_query_becomes_a_case(make: Make) -> None:
    problem = only(
        make(
            query(
                ("1. Prepare", "null"),
                ("1.1 Read the request", "No tool required"),
                ("1.2 Write it", "file_write(file_path='a.txt', content='x')"),
                ("2. Travel", "null"),
                ("2.1. Fly", "null"),
                ("2.1.1 Book the flight", "book_flight(flight='LH1', seat='2A')"),
                ("3. Write again", "file_write(file_path='b.txt', content='y')"),
            )
        )
    )
    assert problem.case.query == "Help me."
    assert [(s.id, s.text, s.goal) for s in problem.case.plan.substeps] == [
        ("1.1", "Read the request", "Prepare"),
        ("1.2", "Write it", "Prepare"),
        ("2.1.1", "Book the flight", "Fly"),
        ("3", "Write again", "Write again"),
    ]
    assert problem.reference.calls == {
        "1.1": None,
        "1.2": ToolCall("file_write", {"file_path": "a.txt", "content": "x"}),
        "2.1.1": ToolCall("book_flight", {"flight": "LH1", "seat": "2A"}),
        "3": ToolCall("file_write", {"file_path": "b.txt", "content": "y"}),
    }
    assert problem.reference.resolution == ("1.2", "2.1.1", "3")
    assert not Walk(problem.world).resolved
    assert run(problem)[1]


def test_the_library_is_every_tool_of_every_query(make: Make) -> None:
    call = ("1. Write", "file_write(file_path='a', content='b')")
    dataset = make(query(call, tools=[WRITE]), query(call, tools=[WRITE, BOOK]) | {"domain": "Travel"}, query(call))
    assert list(dataset.tools) == ["file_write", "book_flight", "cancel_booking"]
    assert dataset.tools["file_write"].category == "Office"
    assert [p.name for p in dataset.tools["book_flight"].parameters] == ["flight", "seat"]
    assert dataset.tools["book_flight"].returns == ("booking_number", "price", "legs")


@pytest.mark.parametrize(
    ("listed", "wanted"),
    [
        (["seat"], {"seat"}),
        (["seat", "class", 7, None, ["flight"]], {"seat"}),
        ([], set()),
        (None, set()),
        (True, set()),
        ("seat", set()),
        ({"seat": True}, set()),
    ],
)
def test_an_argument_is_required_where_the_schema_lists_it(make: Make, listed: Any, wanted: set[str]) -> None:
    book = BOOK | {"arguments": BOOK["arguments"] | {"required": listed}}
    dataset = make(query(("1. Book", "book_flight(flight='LH1', seat='1A')"), tools=[book, CANCEL]))
    assert {p.name for p in dataset.tools["book_flight"].parameters if p.required} == wanted
    assert not any(p.required for p in dataset.tools["cancel_booking"].parameters), "its schema lists none"


def test_a_cluster_is_the_set_of_tools_that_the_reference_calls(make: Make) -> None:
    write, book = "file_write(file_path='a', content='b')", "book_flight(flight='LH1', seat='1A')"
    plans = [(write, book), (book, write, "No tool required"), (write, write), (book, write, book)]
    dataset = make(*(query(*((f"{n}. Do", call) for n, call in enumerate(plan, 1))) for plan in plans))
    both, alone = "book_flight+file_write", "file_write"
    assert [dataset.cluster(case_id) for case_id in sorted(dataset.case_ids())] == [both, both, alone, both]


def test_unescaped_quotes(make: Make) -> None:
    call = "file_write(file_path='Desktop/Work_Tasks.txt', content='Preparation for Tomorrow's Meeting, \"at 9\"')"
    dataset = make(query(("1. Write", call)))
    assert arguments(dataset, "1") == {
        "file_path": "Desktop/Work_Tasks.txt",
        "content": 'Preparation for Tomorrow\'s Meeting, "at 9"',
    }


def test_without_listed_arguments_the_call_string_holds(make: Make) -> None:
    row = query(("1. Write", "file_write(file_path='a', content='b')"))
    listed = [usage("1. Write", "file_write", ""), usage("1. Something else", "file_write", {"content": "c"})]
    assert arguments(make(row, listed=listed), "1") == {"file_path": "a", "content": "b"}


@pytest.mark.parametrize("call", ["file_write(file_path='a', content='b')", "file_write(broken"])
def test_listed_arguments_are_preferred(make: Make, call: str) -> None:
    listed = usage("1. Write", "file_write", {"file_path": "A", "content": ["c", 2]})
    assert arguments(make(query(("1. Write", call)), listed=[listed]), "1") == {"file_path": "A", "content": ["c", 2]}


def test_a_listed_argument_that_breaks_off_is_completed(make: Make) -> None:
    row = query(("1. Write", "file_write(file_path='Notes.txt', content='Notes of March 18, 2023')"))
    listed = usage("1. Write", "file_write", {"file_path": "Notes.txt", "content": "Notes of March 1"})
    assert arguments(make(row, listed=[listed]), "1")["content"] == "Notes of March 18, 2023"


@pytest.mark.parametrize("placeholder", ["<booking number>", "<Booking_Number>", "booking_number", "Booking Number"])
def test_a_placeholder_is_tied_to_the_latest_output_of_its_name(make: Make, placeholder: str) -> None:
    dataset = make(
        query(
            ("1. Book", "book_flight(flight='LH1', seat='1A')"),
            ("2. Book another", "book_flight(flight='LH2', seat='1A')"),
            ("3. Cancel it", f"cancel_booking(booking_number='{placeholder}', reason='ill')"),
        )
    )
    assert arguments(dataset, "3") == {"booking_number": reference("2", "booking_number"), "reason": "ill"}
    problem = only(dataset)
    assert problem.reference.resolution == ("1", "3")
    outputs, resolved = run(problem)
    assert resolved
    walk = Walk(problem.world)
    right = ToolCall("cancel_booking", {"booking_number": outputs["2"]["booking_number"], "reason": "ill"})
    wrong = ToolCall("cancel_booking", {"booking_number": outputs["1"]["booking_number"], "reason": "ill"})
    assert walk.make(right).content == outputs["3"]
    assert walk.make(wrong).content["status"] == "no_result"


def test_a_placeholder_that_nothing_fills_is_open(make: Make) -> None:
    dataset = make(
        query(
            ("1. Cancel", "cancel_booking(booking_number='<booking number>', reason='ill')"),
            ("2. Book", "book_flight(flight='LH1', seat='1A')"),
            ("3. Book", "book_flight(flight='LH2', seat='one of <legs>, please')"),
        )
    )
    walk = Walk(only(dataset).world)
    for right in (
        ToolCall("cancel_booking", {"booking_number": "any", "reason": "ill"}),
        ToolCall("cancel_booking", {"reason": "ill"}),
        ToolCall("book_flight", {"flight": "LH2", "seat": "any"}),
    ):
        assert "receipt" in walk.make(right).content
    for wrong in (
        ToolCall("cancel_booking", {"booking_number": "any", "reason": "bored"}),
        ToolCall("book_flight", {"flight": "LH1", "seat": "any"}),
        ToolCall("book_flight", {"flight": "LH3", "seat": "any"}),
    ):
        assert walk.make(wrong).content["status"] == "no_result"


def test_a_list_is_no_source_for_a_placeholder(make: Make) -> None:
    book = ("1. Book", "book_flight(flight='LH1', seat='1A')")
    look = tool("look_up", ["legs"], {"status": "boolean"})
    dataset = make(query(book, ("2. Look", "look_up(legs='<legs>')"), tools=[BOOK, look]))
    assert arguments(dataset, "2") == {"legs": "<legs>"}


SKIPPED = {
    "a step has no number": query(("Write", "file_write(file_path='a', content='b')")),
    "a step number comes twice": query(("1. A", "No tool required"), ("1. B", "file_write(file_path='a')")),
    "a step calls a tool that no query defines": query(("1. A", "make_tea(kind='green')")),
    "a call string cannot be parsed": query(("1. A", "file_write('a', 'b')")),
    "a call has an argument that its tool does not define": query(("1. A", "file_write()"), question="Listed."),
    "no step calls a tool": query(("1. A", "null"), ("1.1 B", "No tool required")),
}
FINE = query(("1. Write", "file_write(file_path='a', content='b')"))


def test_every_reason_to_skip_is_counted(make: Make) -> None:
    listed = usage("1. A", "file_write", {"colour": "red"}, question="Listed.")
    dataset = make(FINE, *SKIPPED.values(), FINE, FINE | {"plan": []}, listed=[listed])
    assert sorted(dataset.case_ids()) == ["ultratool-0000", "ultratool-0007"]
    assert [(skip.record, skip.reason) for skip in dataset.skipped] == [
        *((f"ultratool-{index:04d}", reason) for index, reason in enumerate(SKIPPED, 1)),
        ("ultratool-0008", "no step calls a tool"),
    ]


def test_limit_counts_cases(make: Make) -> None:
    rows = (FINE, SKIPPED["no step calls a tool"], FINE, FINE)
    dataset = make(*rows, limit=2, order="file")
    assert list(dataset.case_ids()) == ["ultratool-0000", "ultratool-0002"]
    assert [skip.record for skip in dataset.skipped] == ["ultratool-0001"]
    assert list(make(*rows, limit=100, order="file").case_ids()) == [f"ultratool-000{n}" for n in (0, 2, 3)]


def test_limit_draws_domains_by_their_shares_and_more_cases_are_further_ones(make: Make) -> None:
    """The released file is in order of domain, and its first hundred queries are its easiest."""
    rows = [
        FINE | {"domain": domain}
        for domain, count in (("Office", 60), ("Travel", 30), ("Bank", 10))
        for _ in range(count)
    ]
    whole = list(make(*rows).case_ids())
    assert sorted(whole) == list(make(*rows, order="file").case_ids())
    for limit in (10, 20, 40, 70):
        chosen = list(make(*rows, limit=limit).case_ids())
        assert chosen == whole[:limit]
        drawn = Counter(rows[int(name[-4:])]["domain"] for name in chosen)
        for domain, share in (("Office", 0.6), ("Travel", 0.3), ("Bank", 0.1)):
            assert abs(drawn[domain] - share * limit) <= 1.5, (limit, drawn)


def test_resolution_is_every_final_call_or_the_last(make: Make) -> None:
    row = query(
        ("1. Book", "book_flight(flight='LH1', seat='1A')"),
        ("2. Cancel it", "cancel_booking(booking_number='<booking number>', reason='ill')"),
        ("3. Write", "file_write(file_path='a', content='b')"),
    )
    for resolution, steps in (("all", ("2", "3")), ("last", ("3",))):
        problem = only(make(row, resolution=resolution))
        assert problem.reference.resolution == steps
        walk = Walk(problem.world)
        walk.make(ToolCall("file_write", {"file_path": "a", "content": "b"}))
        assert walk.resolved == (resolution == "last")


def test_an_argument_that_the_schema_does_not_require_may_be_given_as_well(make: Make) -> None:
    call = ("1. Book", "book_flight(flight='LH1')")
    book = BOOK | {"arguments": BOOK["arguments"] | {"required": ["flight", "seat"]}}
    for spec, obtained in ((BOOK, True), (book, False)):
        walk = Walk(only(make(query(call, tools=[spec]))).world)
        walk.make(ToolCall("book_flight", {"flight": "LH1", "seat": "1A"}))
        assert walk.resolved == obtained


SOLVABLE = {
    "in the query": ("Write 'b  c' to A.TXT!", "file_write(file_path='a.txt', content='B c')", (), True),
    "not in the query": ("Write something to a.txt", "file_write(file_path='a.txt', content='B c')", (), False),
    "in a substep": ("Write it.", "file_write(file_path='a.txt', content='B')", ("a.txt takes B",), True),
    "a date in another form": (
        "Book LH1 on May 1st, 2025.", "book_flight(flight='LH1', seat='2025-05-01')", (), True,
    ),
    "another date": ("Book LH1 on May 2nd, 2025.", "book_flight(flight='LH1', seat='2025-05-01')", (), False),
    "a number in another form": ("LH1 for 1,200 dollars", "book_flight(flight='LH1', seat='$1200.00')", (), True),
    "a part of a word": ("Write abc to a.txt", "file_write(file_path='a.txt', content='b')", (), False),
    "open": ("Say that I am ill", "cancel_booking(booking_number='<booking number>', reason='ill')", (), True),
    "a truth value": ("LH1, please", "book_flight(flight='LH1', seat=True)", (), True),
}  # fmt: skip


@pytest.mark.parametrize("name", SOLVABLE)
def test_a_case_is_solvable_when_all_its_arguments_are_told(make: Make, name: str) -> None:
    question, call, told, expected = SOLVABLE[name]
    steps = [(f"{n}. {text}", "No tool required") for n, text in enumerate(told, 1)]
    assert solvable(only(make(query(*steps, ("9. Do", call), question=question)))) is expected


def test_outcomes_tell_later_calls_only(make: Make) -> None:
    book = ("1. Book", "book_flight(flight='LH1', seat='1A')")
    tied = query(
        book, ("2. C", "cancel_booking(booking_number='<booking number>', reason='ill')"), question="LH1 1A ill"
    )
    assert solvable(only(make(tied))) is True
    number = run(only(make(tied)))[0]["1"]["booking_number"]
    cancel = f"cancel_booking(booking_number='{number}', reason='ill')"
    for plan, expected in (((book, ("2. C", cancel)), True), ((("1. C", cancel), ("2. " + book[0], book[1])), False)):
        assert solvable(only(make(query(*plan, question="LH1 1A ill")))) is expected


def test_only_the_calls_that_the_resolution_takes_must_be_told(make: Make) -> None:
    row = query(("1. A", "book_flight(flight='X9')"), ("2. B", "file_write(file_path='a')"), question="Write a")
    assert [solvable(only(make(row, resolution=which))) for which in ("all", "last")] == [False, True]


def test_outcomes_follow_from_tool_and_arguments(make: Make) -> None:
    row = query(
        ("1. A", "book_flight(flight='LH1', seat='1A')"),
        ("2. B", "book_flight(flight='LH2', seat='1A')"),
        ("3. C", "book_flight(flight='LH1', seat='1A')"),
    )
    first, second = run(only(make(row)))[0], run(only(make(row)))[0]
    assert first == second
    assert first["1"] == first["3"]
    assert first["1"] != first["2"]
    outcome = first["1"]
    assert list(outcome) == ["booking_number", "price", "legs", "receipt"]
    assert isinstance(outcome["booking_number"], str)
    assert isinstance(outcome["price"], float)
    assert isinstance(outcome["legs"], list)


def test_outcomes_have_the_declared_types(make: Make) -> None:
    results: dict[str, Any] = {"yes": "boolean", "count": "integer", "odd": "whatever"}
    spec = tool("look", ["at"], results)
    spec["results"]["properties"]["address"] = {"type": "object", "properties": {"city": {"type": "string"}}}
    outcome = run(only(make(query(("1. Look", "look(at='it')"), tools=[spec]))))[0]["1"]
    assert outcome["yes"] is True
    assert type(outcome["count"]) is int
    assert isinstance(outcome["odd"], str)
    assert list(outcome["address"]) == ["city"]


def test_the_version_follows_the_files(make: Make) -> None:
    one = make(FINE).version
    assert make(FINE).version == one
    assert make(FINE, FINE).version != one


@pytest.mark.parametrize("name", [QUERIES, USAGE])
def test_broken_json_is_refused_with_file_and_line(make: Make, name: str) -> None:
    root = make(FINE, FINE, listed=[usage("1. Write", "file_write", {})]).root
    lines = (root / name).read_text().splitlines()
    (root / name).write_text(f"{lines[0]}\n{lines[1][:-5]}\n")
    with pytest.raises(DataError, match="broken JSON") as caught:
        UltraTool(str(root)).case_ids()
    assert (caught.value.path, caught.value.line) == (root / name, 2)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"question": None}, "question must be a str"),
        ({"plan": "none"}, "plan must be a list"),
        ({"tools": {}}, "tools must be a list"),
        ({"tools": ["file_write"]}, "every item of tools must be an object with a name"),
        ({"tools": [{"name": 5}]}, "every item of tools must be an object with a name"),
    ],
)
def test_a_row_of_another_shape_is_refused_with_file_and_line(make: Make, change: Row, said: str) -> None:
    dataset = make(FINE, FINE | change)
    with pytest.raises(DataError, match=said) as caught:
        dataset.case_ids()
    assert (caught.value.path, caught.value.line) == (dataset.root / QUERIES, 2)


def test_a_tool_defined_twice_with_different_arguments_is_refused(make: Make) -> None:
    other = tool("file_write", ["file_path"], {"status": "boolean"})
    dataset = make(FINE, FINE, query(("1. A", "No tool required"), tools=[other]))
    with pytest.raises(
        DataError, match=r"'file_write' is defined twice.*'content'.*and \{'file_path': 'string'\}"
    ) as caught:
        dataset.case_ids()
    assert (caught.value.path, caught.value.line) == (dataset.root / QUERIES, 3)


def test_the_parent_of_the_released_folder_is_accepted(make: Make, tmp_path: Path) -> None:
    root = make(FINE).root
    parent = tmp_path / "download"
    parent.mkdir()
    (parent / "English-dataset").symlink_to(root)
    assert list(UltraTool(str(parent)).case_ids()) == ["ultratool-0000"]


def test_a_path_that_cannot_be_used_is_a_config_error(make: Make, tmp_path: Path) -> None:
    root = make(FINE).root
    empty = tmp_path / "no_files"
    empty.mkdir()
    for path in (None, str(tmp_path / "nowhere"), str(empty)):
        with pytest.raises(ConfigError, match=re.escape(QUERIES)) as caught:
            UltraTool(path).case_ids()
        assert (caught.value.key, caught.value.value) == ("dataset.path", path)
    (root / USAGE).write_text("")
    with pytest.raises(ConfigError, match=f"{USAGE} is empty"):
        UltraTool(str(root)).case_ids()


def test_a_plan_of_another_shape_is_refused_with_file_and_line(make: Make) -> None:
    with pytest.raises(DataError, match=r"test\.json:2: "):
        make(FINE, FINE | {"plan": ["1. Write"]}).case_ids()


def test_a_usage_of_another_shape_is_refused_with_file_and_line(make: Make) -> None:
    with pytest.raises(DataError, match=r"tool_usage\.json:2: "):
        make(FINE, listed=[{"question": "Help me.\n", "reference": 5}]).case_ids()


def test_the_same_concrete_call_through_two_references_has_one_outcome(make: Make) -> None:
    row = query(
        ("1. Book", "book_flight(flight='LH1', seat='1A')"),
        ("2. Cancel", "cancel_booking(booking_number='<booking number>', reason='ill')"),
        ("3. Book", "book_flight(flight='LH1', seat='1A')"),
        ("4. Cancel", "cancel_booking(booking_number='<booking number>', reason='ill')"),
    )
    assert run(only(make(row)))[1]


def test_a_placeholder_is_tied_to_a_field_of_any_name(make: Make) -> None:
    ask = tool("ask", ["who"], {"flight-number": "string"})
    fly = tool("fly", ["flight_number"], {"status": "boolean"})
    plan = [("1. Ask", "ask(who='me')"), ("2. Fly", "fly(flight_number='<flight number>')")]
    assert run(only(make(query(*plan, tools=[ask, fly]))))[1]


@pytest.mark.parametrize(
    "second",
    ["book_flight(seat='1A', flight='LH1')", "book_flight(flight='lh1', seat='1A')"],
    ids=["other order", "other form"],
)
def test_a_call_made_twice_in_other_words_can_be_resolved(make: Make, second: str) -> None:
    assert run(only(make(query(("1. Book", "book_flight(flight='LH1', seat='1A')"), ("2. Book", second)))))[1]


@pytest.fixture(scope="module")
def released(released_ultratool: str) -> UltraTool:
    return UltraTool(released_ultratool)


def test_nearly_all_released_queries_are_cases(released: UltraTool) -> None:
    assert len(released.case_ids()) + len(released.skipped) == 700
    assert len(released.skipped) <= 0.03 * 700, Counter(skip.reason for skip in released.skipped)
    assert len(released.tools) > 200
    clusters = Counter(map(released.cluster, released.case_ids()))
    assert (len(clusters), max(clusters.values())) == (253, 46)


def test_the_reference_calls_resolve_every_released_case(released: UltraTool) -> None:
    unresolved = [case_id for case_id in released.case_ids() if not run(released.problem(case_id))[1]]
    assert unresolved == []


def test_how_many_released_cases_are_solvable(released: UltraTool) -> None:
    told = [solvable(released.problem(case_id)) for case_id in released.case_ids()]
    assert 540 <= told.count(True) <= 590


@pytest.mark.parametrize(
    "spoilt",
    [
        query(("1.1 Book", "book\ud800(flight='x')"), tools=[tool("book\ud800", ["flight"], {"status": "boolean"})]),
        query(("1.1 Book", "book_flight(flight='x')"), question="Help \udc00 me."),
        query(("1.1 Book", "book_flight(flight='\ud800', seat='1')")),
        query(("1.1 Book", "book_flight(flight='x')"), tools=[tool("book_flight", ["\udfff"], {})]),
    ],
)
def test_half_a_surrogate_pair_is_refused_at_load_with_its_line(make: Make, spoilt: Row) -> None:
    """It made every cell an infrastructure failure: no prompt can be encoded that holds it."""
    dataset = make(query(("1.1 Book", "book_flight(flight='x', seat='1')")), spoilt)
    with pytest.raises(DataError, match=r"test\.json:2: .*half a surrogate pair"):
        _ = dataset.tools
