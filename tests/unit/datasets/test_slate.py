"""SLATE: the generator's contract (egb_slate table 2, §3, appendix D), its stock, and files that are malformed."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from grid.core.errors import ConfigError, DataError
from grid.core.types import Observation, ToolCall
from grid.datasets.slate.dataset import Slate, generate, generated
from grid.datasets.slate.drafts import CASES, TOOLS, CaseRecord
from grid.datasets.slate.shop import QUERY_CATEGORIES, load_all, shop
from grid.datasets.slate.stats import categories, contradictions, problems, repeated, statistics
from grid.metrics.scores import solvable
from grid.text import references
from tests.support.walks import Walk

REPOSITORY = Path(__file__).parents[3]
SEEDS = (0, 1, 2)
Record = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty cache, so that the tests generate SLATE themselves."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def slates(cache: Path) -> dict[int, Slate]:
    return {seed: Slate(library_seed=seed) for seed in SEEDS}


@pytest.fixture(scope="module")
def cases(slates: dict[int, Slate]) -> list[CaseRecord]:
    return [case for slate in slates.values() for case in slate.records.values()]


@pytest.fixture
def small(slates: dict[int, Slate], tmp_path: Path) -> Path:
    """A folder with three cases and the tools that they call."""
    lines = (slates[0].root / CASES).read_text(encoding="utf-8").splitlines()[:3]
    used = {s["call"]["tool"] for line in lines for s in substeps(json.loads(line)) if s["call"]}
    library = (slates[0].root / TOOLS).read_text(encoding="utf-8").splitlines()
    write(tmp_path / TOOLS, [line for line in library if json.loads(line)["name"] in used])
    write(tmp_path / CASES, lines)
    return tmp_path


def write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def substeps(record: Record) -> list[Record]:
    return [substep for step in record["plan"] for substep in step["substeps"]]


def calls(case: CaseRecord) -> dict[str, ToolCall]:
    return {step: call for step, call in case.reference().calls.items() if call}


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
def test_every_published_statistic_holds(slates: dict[int, Slate], seed: int) -> None:
    found = statistics(slates[seed])
    assert [item for item in found if not item.holds] == []
    assert len(found) >= 10


def test_the_library_by_category_is_what_its_files_hold(slates: dict[int, Slate], small: Path) -> None:
    for slate in (slates[0], Slate(path=str(small))):
        tools = [json.loads(line) for line in (slate.root / TOOLS).read_text(encoding="utf-8").splitlines()]
        cases = [json.loads(line) for line in (slate.root / CASES).read_text(encoding="utf-8").splitlines()]
        used = {sub["call"]["tool"] for case in cases for sub in substeps(case) if sub["call"]}
        found = categories(slate)
        assert sum(one.share for one in found) == pytest.approx(1)
        assert [one.tools for one in found] == sorted((one.tools for one in found), reverse=True)
        for one in found:
            own = {tool["name"] for tool in tools if tool["category"] == one.name}
            assert (one.tools, one.used) == (len(own), len(own & used))
            assert one.share == len(own) / len(tools)


def test_the_cache_is_where_the_user_wants_it(slates: dict[int, Slate], cache: Path) -> None:
    roots = {slate.root for slate in slates.values()}
    assert len(roots) == len(SEEDS)
    assert all(cache in root.parents for root in roots)
    assert not list(cache.rglob(".draft-*"))


@pytest.mark.long
def test_the_same_seed_gives_the_same_bytes_in_every_process(slates: dict[int, Slate], tmp_path: Path) -> None:
    code = "import pathlib, sys; from grid.datasets.slate.dataset import generate; "
    code += "generate(pathlib.Path(sys.argv[1]), 0, 300)"
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, env=environment, cwd=REPOSITORY)
    for name in (TOOLS, CASES):
        assert (tmp_path / name).read_bytes() == (slates[0].root / name).read_bytes()


def test_another_seed_gives_other_cases(slates: dict[int, Slate]) -> None:
    queries = [{case.query for case in slate.records.values()} for slate in slates.values()]
    assert not queries[0] & queries[1]
    assert len({slate.version for slate in slates.values()}) == len(SEEDS)
    assert slates[0].tools.keys() != slates[1].tools.keys()


@pytest.mark.long
def test_the_stock_breaks_no_rule() -> None:
    parts = load_all()
    assert [line for part in parts for line in problems(part, shop(0))] == []
    assert repeated(parts) == []
    assert sorted(part.query_category for part in parts) == sorted(QUERY_CATEGORIES)


@pytest.mark.long
def test_every_outcome_and_query_follows_from_the_seeds_shop(slates: dict[int, Slate]) -> None:
    for seed, slate in slates.items():
        assert contradictions(list(slate.records.values()), load_all(), shop(seed)) == []
    assert contradictions(list(slates[0].records.values()), load_all(), shop(1)) != []


def written_forms(value: object) -> list[str]:
    """How a value may stand in a query: verbatim, a date also in long form, money with its sign."""
    forms = [f"${value:,.2f}", f"{value:g}"] if isinstance(value, float) else [str(value)]
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d\d-\d\d", value):
        day = dt.date.fromisoformat(value)
        forms += [f"{day:%B} {day.day}, {day.year}", f"{day.day} {day:%B} {day.year}"]
    return forms


def findable(value: object, query: str) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(form)}(?!\w)", query) for form in written_forms(value))


def test_every_argument_is_in_the_query_or_an_earlier_output(cases: list[CaseRecord]) -> None:
    lost = [
        (case.case_id, step, name, value)
        for case in cases
        for step, call in calls(case).items()
        for name, value in call.arguments.items()
        if not references.PATTERN.fullmatch(str(value)) and not findable(value, case.query)
    ]
    assert lost == []


def test_a_resolution_depends_on_at_least_half_of_the_other_calls(cases: list[CaseRecord]) -> None:
    for case in cases:
        made = calls(case)
        needed: set[str] = set()
        pending = list(case.resolution)
        while pending:
            producers = {producer for producer, _ in references.found_in(made[pending.pop()])} - needed
            needed |= producers
            pending += producers
        others = made.keys() - set(case.resolution)
        assert len(others & needed) >= len(others) / 2, case.case_id


def test_a_cluster_is_the_workflow_that_its_cases_were_drawn_from(slates: dict[int, Slate]) -> None:
    workflows = {name: workflow for part in load_all() for name, workflow in part.workflows.items()}
    for slate in slates.values():
        clusters = Counter(map(slate.cluster, slate.case_ids()))
        assert clusters.keys() == workflows.keys()
        assert len(clusters) >= 200
        assert max(clusters.values()) <= 3
        for name, case in slate.records.items():
            tools = [substep.call.tool for substep in case.substeps() if substep.call]
            assert tools == [substep.call for _, substep in workflows[slate.cluster(name)].calls()]


def test_users_alternate(slates: dict[int, Slate]) -> None:
    for slate in slates.values():
        users = [case.user for case in slate.records.values()]
        assert users == ["buyer", "seller"] * 150


def test_no_tool_is_called_in_two_consecutive_substeps(cases: list[CaseRecord]) -> None:
    for case in cases:
        for one, other in pairwise(case.substeps()):
            assert not (one.call and other.call and one.call.tool == other.call.tool), (case.case_id, one.id)


def test_calls_and_outcomes_are_as_the_tool_declares(slates: dict[int, Slate]) -> None:
    for slate in slates.values():
        for case in slate.records.values():
            for substep in case.substeps():
                if substep.call:
                    tool = slate.tool_records[substep.call.tool]
                    assert list(substep.call.outcome) == tool.results
                    assert substep.call.arguments.keys() == {argument.name for argument in tool.arguments}


def test_the_reference_calls_resolve_every_case(slates: dict[int, Slate]) -> None:
    for slate in slates.values():
        for case_id in slate.case_ids():
            problem = slate.problem(case_id)
            walk, outputs = Walk(problem.world), dict[str, Any]()
            for step, call in problem.reference.calls.items():
                if call:
                    assert not walk.resolved
                    outcome = walk.make(references.resolve(call, outputs))
                    assert outcome == Observation(slate.records[case_id].outcomes()[step])
                    outputs[step] = outcome.content
            assert walk.resolved


def test_functional_equivalents_resolve_a_case_too(slates: dict[int, Slate]) -> None:
    by_host = {same.same_function.tool: same for same in slates[0].tool_records.values() if same.same_function}
    replaced = 0
    for case_id in slates[0].case_ids():
        problem = slates[0].problem(case_id)
        outcomes = slates[0].records[case_id].outcomes()
        for call in problem.reference.calls.values():
            if call and (same := by_host.get(call.tool)) and same.same_function:
                assert problem.same_function[same.name] == call.tool
                own_names = {host: own for own, host in same.same_function.arguments.items()}
                concrete = references.resolve(call, outcomes)
                other = ToolCall(same.name, {own_names[name]: value for name, value in concrete.arguments.items()})
                assert Walk(problem.world).make(other) == Walk(problem.world).make(concrete)
                replaced += 1
    assert replaced > 0


def test_the_case_a_planner_sees_holds_no_reference_call(slates: dict[int, Slate]) -> None:
    problem = slates[0].problem("slate-0000")
    assert not any(call.tool in repr(problem.case) for call in problem.reference.calls.values() if call)
    assert len(problem.candidates(problem.case, problem.case.plan.substeps[0])) == 1000


def test_limit_draws_a_sample_that_longer_ones_begin_with(slates: dict[int, Slate]) -> None:
    whole = slates[0].case_ids()
    assert sorted(whole) == list(Slate(order="file").case_ids())
    assert whole != sorted(whole)
    categories = Counter(case.category for case in slates[0].records.values())
    for limit in (20, 40, 100):
        chosen = Slate(limit=limit).case_ids()
        assert chosen == whole[:limit]
        drawn = Counter(slates[0].records[name].category for name in chosen)
        assert all(abs(drawn[name] - count * limit / 300) <= 1.5 for name, count in categories.items())
    assert len({*map(slates[0].cluster, whole[:50])}) == 50, "by lot it would be 46"


def test_all_calls_resolve_where_that_is_asked(slates: dict[int, Slate]) -> None:
    all_calls = Slate(resolution="all")
    both = [(slates[0].problem(name), all_calls.problem(name)) for name in slates[0].case_ids()[:100]]
    assert any(len(whole.reference.resolution) > len(last.reference.resolution) == 1 for last, whole in both)
    assert any(len(last.reference.resolution) > 1 for last, _ in both), "some queries have several aims"
    for last, whole in both:
        calls = {step: call for step, call in whole.reference.calls.items() if call}
        assert last.reference.resolution[-1] == list(calls)[-1]
        assert set(whole.reference.resolution) == set(references.final_steps(calls)) >= {*last.reference.resolution}
        assert whole.world.resolution == frozenset(whole.reference.resolution)  # type: ignore[attr-defined]


def test_every_case_is_solvable(slates: dict[int, Slate]) -> None:
    assert all(solvable(slates[0].problem(case_id)) for case_id in slates[0].case_ids())


def test_wrong_values_are_refused() -> None:
    for wrong in (
        {"order": "best"},
        {"resolution": "first"},
        {"limit": 0},
        {"cases": 0},
        {"library_seed": -1},
        {"limit": "3"},
        {"unknown": 1},
    ):
        with pytest.raises(ValidationError):
            Slate(**wrong)


@pytest.mark.long
@pytest.mark.parametrize("lost", [TOOLS, CASES])
def test_an_incomplete_cache_is_made_again(lost: str) -> None:
    root = generated(5, 20)
    before = {name: (root / name).read_bytes() for name in (TOOLS, CASES)}
    (root / lost).unlink()
    assert generated(5, 20) == root
    assert {path.name: path.read_bytes() for path in root.iterdir()} == before


@pytest.mark.long
def test_a_folder_is_read_as_what_was_generated(slates: dict[int, Slate], tmp_path: Path) -> None:
    generate(tmp_path, 1, 300)
    assert Slate(path=str(tmp_path)).version == slates[1].version


def test_a_small_folder_is_sound(small: Path) -> None:
    slate = Slate(path=str(small))
    assert sorted(slate.case_ids()) == ["slate-0000", "slate-0001", "slate-0002"]
    assert slate.skipped == ()


def first_reference(record: Record) -> tuple[Record, str, str]:
    """A substep with a reference, the argument that holds it, and the step that it names."""
    for substep in substeps(record):
        for name, value in (substep["call"] or {"arguments": {}})["arguments"].items():
            match = references.PATTERN.fullmatch(str(value))
            if match:
                return substep, name, match[1]
    raise AssertionError("the case has no reference")


def refer_to_nothing(record: Record) -> str:
    substep, name, _ = first_reference(record)
    substep["call"]["arguments"][name] = "OUTPUT_FROM_STEP_9.9.token"
    return f"step {substep['id']} refers to the output of step 9.9"


def refer_to_an_unknown_field(record: Record) -> str:
    substep, name, producer = first_reference(record)
    substep["call"]["arguments"][name] = references.reference(producer, "nonsense")
    return f"step {substep['id']} refers to {producer}.nonsense"


def refer_to_a_later_step(record: Record) -> str:
    record["plan"].reverse()
    return "which comes after it"


def refer_in_a_circle(record: Record) -> str:
    substep, _, producer = first_reference(record)
    source = next(each for each in substeps(record) if each["id"] == producer)
    argument = next(iter(source["call"]["arguments"]))
    field = next(iter(substep["call"]["outcome"]))
    source["call"]["arguments"][argument] = references.reference(substep["id"], field)
    return "references run in a circle among steps"


def call_an_unknown_tool(record: Record) -> str:
    first_reference(record)[0]["call"]["tool"] = "no_such_tool"
    return "'no_such_tool'"


def give_an_unknown_argument(record: Record) -> str:
    first_reference(record)[0]["call"]["arguments"]["shoe_size"] = 43
    return "unknown argument 'shoe_size'"


def add_a_key(record: Record) -> str:
    record["colour"] = "red"
    return "colour="


def repeat_a_case_id(record: Record) -> str:
    record["case_id"] = "slate-0000"
    return "case 'slate-0000' comes twice"


def repeat_a_substep_id(record: Record) -> str:
    substeps(record)[1]["id"] = substeps(record)[0]["id"]
    return "a substep id comes twice"


def resolve_by_nothing(record: Record) -> str:
    record["resolution"] = ["9.9"]
    return "the resolution names step '9.9'"


def make_the_plan_a_word(record: Record) -> str:
    record["plan"] = "improvise"
    return "plan='improvise'"


def drop_the_query(record: Record) -> str:
    del record["query"]
    return "query="


def drop_the_workflow(record: Record) -> str:
    del record["workflow"]
    return "workflow="


def leave_the_workflow_blank(record: Record) -> str:
    record["workflow"] = " "
    return "workflow=' '"


@pytest.mark.parametrize(
    "damage",
    [
        refer_to_nothing,
        refer_to_an_unknown_field,
        refer_to_a_later_step,
        refer_in_a_circle,
        call_an_unknown_tool,
        give_an_unknown_argument,
        add_a_key,
        repeat_a_case_id,
        repeat_a_substep_id,
        resolve_by_nothing,
        make_the_plan_a_word,
        drop_the_query,
        drop_the_workflow,
        leave_the_workflow_blank,
    ],
)
def test_a_malformed_case_is_refused_with_file_and_line(small: Path, damage: Callable[[Record], str]) -> None:
    lines = (small / CASES).read_text(encoding="utf-8").splitlines()
    record = json.loads(lines[1])
    said = damage(record)
    lines[1] = json.dumps(record)
    write(small / CASES, lines)
    refused(small / CASES, 2, said)


@pytest.mark.parametrize("name", [TOOLS, CASES])
def test_broken_json_is_refused_with_file_and_line(small: Path, name: str) -> None:
    lines = (small / name).read_text(encoding="utf-8").splitlines()
    lines[1] = lines[1][:-10]
    write(small / name, lines)
    refused(small / name, 2, "broken JSON")


def test_a_tool_defined_twice_with_different_arguments_is_refused(small: Path) -> None:
    lines = (small / TOOLS).read_text(encoding="utf-8").splitlines()
    tool = json.loads(lines[0])
    names = [argument["name"] for argument in tool["arguments"]]
    tool["arguments"].pop()
    write(small / TOOLS, [*lines, json.dumps(tool)])
    refused(small / TOOLS, len(lines) + 1, f"tool {tool['name']!r} is defined twice with different arguments: {names}")


def test_a_tool_defined_twice_alike_is_one_tool(small: Path) -> None:
    lines = (small / TOOLS).read_text(encoding="utf-8").splitlines()
    write(small / TOOLS, [*lines, lines[0]])
    assert len(Slate(path=str(small)).tools) == len(lines)


def refused(path: Path, line: int, said: str) -> None:
    with pytest.raises(DataError) as caught:
        assert Slate(path=str(path.parent)).records
    assert (caught.value.path, caught.value.line) == (path, line)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert said in str(caught.value)


def lose_the_folder(root: Path) -> Path:
    return root / "nowhere"


def lose_the_tools(root: Path) -> Path:
    (root / TOOLS).unlink()
    return root


def lose_the_cases(root: Path) -> Path:
    (root / CASES).unlink()
    return root


def empty_the_cases(root: Path) -> Path:
    (root / CASES).write_text("")
    return root


@pytest.mark.parametrize("damage", [lose_the_folder, lose_the_tools, lose_the_cases, empty_the_cases])
def test_a_folder_that_cannot_be_used_is_a_config_error(small: Path, damage: Callable[[Path], Path]) -> None:
    root = damage(small)
    with pytest.raises(ConfigError, match=re.escape(str(root))) as caught:
        assert Slate(path=str(root)).tools
    assert caught.value.key == "dataset.path"


def test_a_file_of_blank_lines_only_is_refused(small: Path) -> None:
    (small / CASES).write_text("\n\n")
    with pytest.raises((ConfigError, DataError)):
        Slate(path=str(small)).case_ids()


def test_equal_calls_that_expect_different_outcomes_are_refused(small: Path) -> None:
    lines = (small / CASES).read_text(encoding="utf-8").splitlines()
    record = json.loads(lines[1])
    call = next(substep["call"] for substep in substeps(record) if substep["call"])
    other = call | {"outcome": dict.fromkeys(call["outcome"], "something else")}
    record["plan"][-1]["substeps"].append({"id": "9.9", "text": "Once more", "call": other})
    lines[1] = json.dumps(record)
    write(small / CASES, lines)
    with pytest.raises(DataError, match=r"cases\.jsonl:2: .*another outcome"):
        Slate(path=str(small)).problem("slate-0001")


@pytest.mark.parametrize("name", [TOOLS, CASES])
@pytest.mark.parametrize(("text", "said"), [('"\\ud800"', "half a surrogate pair"), ("1e999", "not a finite number")])
def test_what_no_table_can_hold_is_refused_at_load(small: Path, name: str, text: str, said: str) -> None:
    lines = (small / name).read_text(encoding="utf-8").splitlines()
    write(small / name, [lines[0], f'{{"description": {text}}}', *lines[1:]])
    with pytest.raises(DataError, match=rf"{name}:2: .*{said}"):
        Slate(str(small)).case_ids()
