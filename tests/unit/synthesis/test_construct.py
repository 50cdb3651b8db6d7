"""The rules of SLATE's construction: each says what it should of any answer, and no answer breaks the program."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grid.core.types import NO_TOOL, Json, ToolCall
from grid.datasets.slate.shop import SHAPES, Complexity
from grid.engines.http.chat import strict_schema
from grid.synthesis import by_queries, config, plans, queries, substeps, tools
from grid.synthesis.asking import (
    CHARACTERS,
    FORM,
    NO_JSON,
    Asker,
    Broken,
    Checked,
    Item,
    Journal,
    Line,
    Settled,
    Stage,
    copied,
    fits,
    normal,
    prompt_of,
    read,
    stands_in,
)
from grid.synthesis.by_queries import by_words
from grid.synthesis.config import Domain
from grid.synthesis.slate import gates as table_of_gates
from grid.synthesis.substeps import _EXAMPLE, _contradictions, of_case
from tests.support.scripted_slate import ANSWERS, QUERIES_FIRST, STAGES

T = TypeVar("T")
DOMAIN = Domain(
    name="Workshop",
    description="A small workshop.",
    users=["customer"],
    topics={"Repairs": "what is broken", "Hire": "what is free"},
)


class Scripted:
    """Takes the place of what asks a model: the scripted model answers at once. Items are kept by stage."""

    def __init__(self) -> None:
        self.items: dict[str, list[tuple[Item[Any], dict[str, Json]]]] = {}

    def of(self, stage: str) -> Asker:
        """What a stage's functions are given."""

        class At:
            @staticmethod
            async def settle(item: Item[T]) -> Settled[T]:
                answer = ANSWERS[stage](prompt_of(item).text(), item.schema)
                self.items.setdefault(stage, []).append((item, answer))
                return Settled(item, [(line(stage), read(item, json.dumps(answer)))])

        return cast(Asker, At())


def line(item: str, attempt: int = 0, answer: str = "") -> Line:
    return Line(
        item=item, attempt=attempt, prompt="0", seed=0, input_tokens=0, cached_input_tokens=0, output_tokens=0,
        money=None, answer=answer, refused=[],
    )  # fmt: skip


async def _written() -> Scripted:
    made = Scripted()
    library = [
        tool
        for topic in DOMAIN.topics
        for one in await tools.of_topic(made.of("tools"), DOMAIN, topic, 5)
        for tool in one.products
    ]
    shape = config.Shape("customer", "simple", ((True, False), (True,)))
    (planned,) = await plans.of_topic(made.of("plans"), DOMAIN, "Repairs", library, [shape])
    (said,) = await queries.of_workflow(made.of("queries"), DOMAIN, planned.products[0], 1)
    (outlined,) = await substeps.of_query(made.of("substeps"), DOMAIN, said.products[0])
    known = {tool.name: tool for tool in library}
    await of_case(made.of("outcomes"), DOMAIN, outlined.products[0], known)
    await tools.equivalent(made.of("equivalents"), DOMAIN, library[0], library)
    await tools.near(made.of("distractors"), DOMAIN, library[0], library, range(9, 12), 3)
    await _queries_first(made)
    return made


async def _queries_first(made: Scripted) -> None:
    of = {user: config.Shape(user, "simple", ((True, False), (True,))) for user in ("customer", "mechanic")}
    said = await queries.of_topic(made.of("wishes"), DOMAIN, "Repairs", [*of.values()])
    planned = [await queries.of_wish(made.of("outlines"), DOMAIN, one.products[0]) for one in said]
    plans_in_words = [one.products[0] for settled in planned for one in settled]
    grounded = await by_queries.of_outlines(made.of("grounding"), DOMAIN, plans_in_words, by_words)
    library = [tool for one in grounded for tool in one.products[0].made]
    (sorted_ones,) = await by_queries.categorised(made.of("categories"), DOMAIN, 0, library)
    apart = by_queries.neighbours([one.products[0].plan for one in grounded])
    await by_queries.merged(made.of("merging"), DOMAIN, "repairs-000", sorted_ones.products, apart)


WRITTEN = asyncio.run(_written())


@pytest.mark.parametrize("stage", [*STAGES, *QUERIES_FIRST])
def test_a_right_answer_is_kept_and_keeps_its_own_schema(stage: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    for item, answer in WRITTEN.items[stage]:
        checked = read(item, json.dumps(answer))
        assert checked.broken == ()
        assert len(checked.kept) == item.wanted
        jsonschema.validate(answer, item.schema)
        exact = strict_schema(dict(item.schema))
        assert exact, "OpenAI's strict mode takes it"
        jsonschema.validate(answer, exact)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20)
    | st.sampled_from(["OUTPUT_FROM_STEP_1.1.x", "OUTPUT_FROM_STEP_", NO_TOOL, "1.1", "2024-02-30", "\x1b", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


def places(value: Json, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, part in inner for place in places(part, (*at, key)))]


@pytest.mark.long
@pytest.mark.parametrize("stage", [*STAGES, *QUERIES_FIRST])
@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_any_answer_is_kept_or_refused_by_a_rule(stage: str, data: st.DataObject) -> None:
    item, right = WRITTEN.items[stage][0]
    answer = json.loads(json.dumps(right))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from([place for place in places(answer) if place] or [("x",)]))
        at: Any = answer
        for key in place[:-1]:
            at = at[key]
        at[place[-1]] = data.draw(JSON)
    checked = read(item, json.dumps(answer))
    assert checked.broken or len(checked.kept) == item.wanted
    assert all(broken.gate and broken.text.isprintable() for broken in checked.broken)


@given(st.text(max_size=200))
@settings(deadline=None)
def test_any_text_is_an_answer_or_refused(text: str) -> None:
    item, _ = WRITTEN.items["plans"][0]
    checked = read(item, text)
    assert checked.broken
    assert {broken.gate for broken in checked.broken} <= {NO_JSON, FORM, CHARACTERS, "shape", "text"}


def gates(stage: str, **changes: Any) -> set[str]:
    item, right = WRITTEN.items[stage][0]
    return {broken.gate for broken in read(item, json.dumps({**right, **changes})).broken}


def test_hidden_characters_are_refused() -> None:
    assert gates("plans", goal="A \x1b[31mred goal") == {CHARACTERS}
    assert gates("plans", goal="A goal on\n two lines") == set()


@pytest.mark.parametrize(
    ("value", "text", "stands"),
    [
        ("BK-20417", "my bike bk-20417, please", True),
        ("BK-2041", "my bike BK-20417, please", False),
        ("Anna’s bike", "It is Anna's   bike.", True),
        ("2024-06-01", "from June 1, 2024 on", True),
        ("2024-06-01", "from 1 June 2024 on", True),
        ("2024-06-01", "from 2024-06-01 on", True),
        ("2024-06-01", "from June 2, 2024 on", False),
        (15, "15% off", True),
        (1299, "at $1,299 each", True),
        (35, "a minimum of $35.00", True),
        (5, "15 units", False),
        (2, "Two bicycles", True),
        (2.5, "two bicycles", False),
        (2, "network", False),
        (2023, "SKU TF-WB-2023", False),
        (True, "", True),
        ("", "anything", False),
        (["a", 3], "a and 3", True),
        (None, "None", False),
        ({}, "{}", False),
    ],
)
def test_whether_a_text_states_a_value(value: Json, text: str, stands: bool) -> None:
    assert stands_in(value, text) is stands


@given(st.integers(-(10**6), 10**6), st.sampled_from(["{} of them", "about {:,}.", "({})"]))
def test_a_number_is_found_in_any_form(number: int, form: str) -> None:
    assert stands_in(number, form.format(number))
    assert not stands_in(number, form.format(10 * number + 1))


def test_types() -> None:
    values: Mapping[str, list[Json]] = {
        "integer": [1],
        "number": [1, 1.5],
        "boolean": [True],
        "date": ["2024-01-01"],
        "string": ["x", "2024-01-01"],
    }
    for kind, fitting in values.items():
        for value in [1, 1.5, True, "2024-01-01", "x", "", None, [], {}]:
            told = fits(cast(Json, value), kind)
            assert told is any(value == one and type(value) is type(one) for one in fitting), (kind, value)


def test_texts_that_say_the_same() -> None:
    assert normal("Booking the BIKES!") == normal("booked bike") != normal("book")
    assert normal("order 3") != normal("order 4")


EXAMPLE = "I have a meadow to mow on 14 May 2026, and wet hay is no use to my cows. WS-118 is just up the road."


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        (EXAMPLE, True),
        (EXAMPLE.replace("14 May 2026", "5 October 2023").replace("WS-118", "BK-20417"), True),
        ("I have a meadow to mow on 5 October 2023, and wet hay is no use to my cows", True),
        ("I have a bicycle to mend on 14 May 2026, and a flat tyre is no use to my children. BK-1 is the card.", False),
        ("Is WS-118 just up the road from here, or do I have to take the bus into the other town?", False),
        ("", False),
    ],
)
def test_what_repeats_the_example_with_other_values_is_refused(text: str, refused: bool) -> None:
    assert [one.gate for one in copied(text, ["Another example", EXAMPLE], "The query")] == ["example"] * refused


def calls(*made: tuple[str, str, str]) -> tuple[dict[str, ToolCall], dict[str, dict[str, Json]]]:
    """By substep a call of a tool with a day, and what it returns."""
    found = {step: ToolCall(tool, {"day": day}) for step, tool, day in made}
    return found, {step: {"code": f"R-{place}"} for place, step in enumerate(found)}


@pytest.mark.parametrize(
    ("made", "contradict"),
    [
        ([("1.1", "find", "2024-06-01"), ("1.2", "find", "2024-06-02")], False),
        ([("1.1", "find", "2024-06-01"), ("1.2", "book", "2024-06-01")], False),
        ([("1.1", "find", "2024-06-01"), ("1.2", "find", "2024-06-01")], True),
        ([("1.1", "find", "2024-06-01"), ("1.2", "find", "June 1, 2024")], True),
    ],
)
def test_calls_that_mean_the_same_return_the_same(made: list[tuple[str, str, str]], contradict: bool) -> None:
    given_calls, returned = calls(*made)
    found = {one.gate for one in _contradictions(given_calls, returned)}
    assert found == ({"contradiction"} if contradict else set())
    same = {step: {"code": "R"} for step in returned}
    assert not list(_contradictions(given_calls, cast(Any, same)))


def test_what_a_later_call_takes_is_not_given_away() -> None:
    item, right = WRITTEN.items["outcomes"][0]
    query = next(section for section in item.sections if section.kind == "task").entries[0]
    stated = query.partition("BK-")[2][:6]
    first, field = "1.1", next(iter(cast(dict[str, Json], right["1.1"])))
    assert gates("outcomes", **{first: {field: f"BK-{stated}"}}) == {"given away"}


@pytest.mark.parametrize(
    ("value", "resolves"), [(True, True), (0, True), ("Booked", True), (False, False), ("Booking failed", False)]
)
def test_the_last_result_resolves_the_query(value: Json, resolves: bool) -> None:
    _, right = WRITTEN.items["outcomes"][0]
    last = [*right][-1]
    field = next(iter(cast(dict[str, Json], right[last])))
    assert gates("outcomes", **{last: {field: value}}) == (set() if resolves else {"resolves"})


@pytest.mark.parametrize("complexity", [*SHAPES])
def test_drawn_shapes_are_of_their_complexity(complexity: Complexity) -> None:
    only: Any = {kind: float(kind == complexity) for kind in SHAPES}
    steps, per_step, substeps, calls = SHAPES[complexity]
    found = config.drawn(0, "Repairs", ["a", "b"], only, 300)
    assert {shape.complexity for shape in found} == {complexity}
    numbers = [[one for one, _ in shape.numbered()] for shape in found]
    assert {len(shape.steps) for shape in found} == {*steps}
    assert {len(part) for shape in found for part in shape.steps} == {*per_step}
    assert {len(one) for one in numbers} == {*substeps}
    assert {sum(made for _, made in shape.numbered()) for shape in found} == {*calls}
    assert numbers[0][0] == "1.1"
    assert numbers[0] == sorted(numbers[0])
    assert not {number for one in numbers for number in one} & {*_EXAMPLE}, "models may copy an example"


def test_the_place_of_a_substep_does_not_tell_whether_it_calls_a_tool() -> None:
    only: Any = {kind: float(kind == "complex") for kind in SHAPES}
    found = [[made for _, made in shape.numbered()] for shape in config.drawn(0, "Hire", ["a"], only, 2000)]
    share = sum(map(sum, found)) / sum(map(len, found))
    error = (share * (1 - share) / len(found)) ** 0.5
    for place in range(12):
        assert abs(sum(made[place] for made in found) / len(found) - share) < 4 * error
    assert abs(sum(made[-1] for made in found) / len(found) - share) < 4 * error


def test_drawn_workflows() -> None:
    shares: Any = dict.fromkeys(SHAPES, 1.0)
    few, many = (config.drawn(0, "Repairs", ["a", "b"], shares, count) for count in (5, 50))
    assert many[:5] == few, "more workflows change none"
    assert [shape.user for shape in few] == ["a", "b", "a", "b", "a"]
    assert {shape.complexity for shape in many} == set(SHAPES)
    assert config.drawn(1, "Repairs", ["a", "b"], shares, 50) != many


def test_of_several_attempts_the_fullest_counts_and_of_equals_the_first() -> None:
    item: Any = None

    def best(*kept: int) -> int:
        return Settled(item, [(line("x"), Checked(tuple(range(count)), ())) for count in kept]).best

    assert [best(1), best(1, 2), best(2, 1), best(2, 2), best(0, 0, 1)] == [0, 1, 0, 0, 2]


@pytest.mark.parametrize(("kept", "ended"), [([0, 0], "1"), ([1, 0], "0"), ([0, 1], "1")])
def test_the_rules_broken_in_the_end_are_those_of_what_was_kept_or_of_the_last_answer(
    kept: list[int], ended: str
) -> None:
    tries = [
        (line("x"), Checked(tuple(range(count)), (Broken(gate=gate, text=""),)))
        for count, gate in zip(kept, ["first", "last"], strict=True)
    ]
    journal: Any = None
    table = table_of_gates([Stage("plans", journal, [Settled(cast(Any, None), tries)])])
    _, gates_of, _, _, counts = (list(column.cells) for column in table.columns)
    assert dict(zip(gates_of, counts, strict=True)) == {"first": str(1 - int(ended)), "last": ended}


@given(st.lists(st.tuples(st.text(max_size=9), st.text(max_size=20)), max_size=3, unique_by=lambda pair: pair[0]))
@settings(max_examples=5, deadline=None)
def test_a_stage_file_keeps_what_is_written_wherever_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("stage") / "plans.jsonl"
    journal, said = Journal(path, lambda text: None), list[str]()
    written = [line(item, 0, answer) for item, answer in pairs]
    for one in written:
        journal.add(one)
    data = path.read_bytes() if pairs else b""
    ends = [place + 1 for place, byte in enumerate(data) if byte == ord("\n")]
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        said.clear()
        again = Journal(path, said.append)
        whole = sum(end <= cut for end in ends)
        assert [*again.lines.values()] == written[:whole]
        assert bool(said) is (cut not in (0, *ends))
        assert path.stat().st_size == ([0, *ends])[whole]
