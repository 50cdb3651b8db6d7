"""In which order options stand: alike for all planners and trials, saying nothing, and known to the tables."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from grid.cells.run import Stamp, episode_of, run_chunk, solve
from grid.core.engine import Engine
from grid.core.errors import ConfigError
from grid.core.types import FINISH, NO_TOOL, ToolSpec
from grid.episode import asking, planning, prompts
from grid.episode.options import Options, in_order
from grid.settings.build import Built, build
from grid.settings.check import check_sweep
from grid.settings.config import BudgetConfig
from grid.settings.setting import Cell, Setting, cells
from grid.text.words import stems
from tests.studies.lexical_needs import sayings
from tests.support.configs import FOLDERS, job, setting_of
from tests.support.engines import AtPlace, UniformRandom

BUDGET = BudgetConfig()
CASES = 60


def ordered(setting: Setting, order: str) -> Setting:
    return replace(setting, config={**setting.config, "options": {"order": order}})


def built_of(setting: Setting, engine: Engine | None = None, trials: int = 1) -> tuple[Built, list[Cell]]:
    built = build(setting, BUDGET)
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), trials))
    return replace(built, engine=engine or built.engine), chunk


def shown(setting: Setting) -> dict[tuple[str, str], set[tuple[str, ...]]]:
    """The lists of tools in all prompts of two trials, by case and decision point."""
    built, chunk = built_of(setting, trials=2)
    found = defaultdict(set)
    for cell in chunk:
        episode = episode_of(built, built.problem(cell.case_id, cell.disturbance_seed), cell.seed)
        asyncio.run(solve(built, episode))
        for message in episode.messages:
            for section in message.prompt.sections:
                if section.kind == "tools" and section.options:
                    request = message.prompt.entries("request")
                    found[cell.case_id, request[-1] if request else ""].add(section.options)
    return found


@pytest.mark.long
@pytest.mark.parametrize("outline", ["given", "hidden"])
def test_the_order_is_one_for_all_planners_and_trials_and_another_at_every_step_and_case(outline: str) -> None:
    values: dict[str, Any] = {"limit": 2, "outline": outline}
    together: dict[tuple[str, str], set[tuple[str, ...]]] = defaultdict(set)
    for planner in ("baseline_llm", "react", "egb_logits"):
        for place, lists in shown(setting_of(dataset="slate", planner=planner, dataset_values=values)).items():
            together[place] |= lists
    assert all(len(lists) == 1 for lists in together.values())
    orders = [next(iter(lists)) for lists in together.values()]
    assert len(set(orders)) == len(orders) > 1
    last = [place for lists in orders for place, text in enumerate(lists) if text.startswith((NO_TOOL, f"{FINISH}("))]
    assert len(last) == len(orders)
    assert len(set(last)) > 1, "it takes part"


@pytest.mark.parametrize("outline", ["given", "hidden"])
def test_the_whole_querys_tools_have_one_order_a_case(outline: str) -> None:
    values: dict[str, Any] = {"limit": 2, "outline": outline}
    by_case: defaultdict[str, set[tuple[str, ...]]] = defaultdict(set)
    for planner in ("fh", "sh"):
        for (case, _), lists in shown(setting_of(dataset="slate", planner=planner, dataset_values=values)).items():
            by_case[case] |= lists
    assert [len(lists) for lists in by_case.values()] == [1, 1]
    assert len(set.union(*by_case.values())) == 2


def test_ranked_is_the_retrievers_order_and_no_tool_last() -> None:
    setting = ordered(setting_of(dataset="slate", dataset_values={"limit": 2}), "ranked")
    built, chunk = built_of(setting)
    for cell in chunk:
        problem = built.problem(cell.case_id, cell.disturbance_seed)
        episode = episode_of(built, problem, cell.seed)
        for substep in problem.case.plan.substeps:
            options = episode.options(substep)
            assert options.tools == problem.candidates(problem.case, substep)
            assert prompts.offer(options, may_finish=False).options[-1] == NO_TOOL
            assert prompts.offer(options, may_finish=True).options[-1] == FINISH
            few = episode.options(substep, most=10)
            assert (few.tools, few.place) == (options.tools[:9], 9)


TOOLS = tuple(ToolSpec(f"tool_{number}", "", ()) for number in range(12))


@given(count=st.integers(0, 12), left_out=st.sets(st.integers(0, 11)), seed=st.integers(0, 2**63 - 1))
def test_tools_that_come_or_go_leave_the_others_as_they_stand(count: int, left_out: set[int], seed: int) -> None:
    whole = in_order(TOOLS, seed, "case", "1.1")
    assert sorted(whole.tools, key=TOOLS.index) == list(TOOLS)
    kept = tuple(tool for place, tool in enumerate(TOOLS[:count]) if place not in left_out)
    fewer = in_order(kept, seed, "case", "1.1")
    assert fewer.tools == tuple(tool for tool in whole.tools if tool in kept)
    assert set(fewer.tools[: fewer.place]) == set(whole.tools[: whole.place]) & set(kept)
    best = in_order(TOOLS, seed, "case", "1.1", 5)
    assert set(best.tools) == set(TOOLS[:4]), "of more tools than may be shown the best are"


def test_every_place_is_as_likely_as_every_other() -> None:
    orders = [in_order(TOOLS[:4], 0, f"case {number}", "1.1") for number in range(2000)]
    for tool in TOOLS[:4]:
        counts = np.bincount([options.tools.index(tool) for options in orders], minlength=4)
        assert ((counts - 500) ** 2 / 500).sum() < 16.27, "chi squared at 99.9%"
    counts = np.bincount([options.place for options in orders], minlength=5)
    assert ((counts - 400) ** 2 / 400).sum() < 18.47


def taken(setting: Setting, engine: Engine, trials: int) -> tuple[int, int, int]:
    """Hits, decisions in which the reference's tool was an option, and how many options each had."""
    built, chunk = built_of(setting, engine, trials)
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()
    if built.dataset.outline == "given":
        found = [(row["tool_matches"], row) for row in rows["steps"] if row["reference_rank"] is not None]
    else:  # all the tools there are stand to choose at every step, so that the reference's next one is among them
        case_of = {cell.cell_id: cell.case_id for cell in chunk}
        calls = {case: list(built.problem(case, 0).reference.calls.values()) for case in set(case_of.values())}
        found = [
            (row["chosen_tool"] == call.tool, row)
            for row in rows["steps"]
            for call in calls[case_of[row["cell_id"]]][row["step"] : row["step"] + 1]
            if call
        ]
    (options,) = {row["n_options"] for _, row in found}
    return sum(hit for hit, _ in found), len(found), options


def setting_for(planner: str, dataset: str, path: str | None = None, **values: Any) -> Setting:
    """Nine tools are retrieved for a substep, and all there are without one."""
    of_data: dict[str, Any] = {"limit": CASES} | ({"path": path} if path else {})
    setting = setting_of(dataset=dataset, planner=planner, dataset_values=of_data, planner_values=values)
    retriever = setting.config["retriever"] | {"top_k": {"kqa_synthetic": 27, "restbench": 12}.get(dataset, 9)}
    return replace(setting, config={**setting.config, "retriever": retriever})


@pytest.mark.parametrize("dataset", ["slate", "ultratool", "kqa_synthetic", "restbench", "traject_bench", "gta"])
def test_a_uniform_policy_is_at_chance(request: pytest.FixtureRequest, dataset: str) -> None:
    path = request.getfixturevalue(FOLDERS[dataset]) if dataset in FOLDERS else None
    hits, decisions, options = taken(setting_for("react", dataset, path), UniformRandom(), trials=2)
    assert options == {"kqa_synthetic": 28, "restbench": 13, "traject_bench": 9}.get(dataset, 10)
    low, high = stats.binom.interval(0.999, decisions, 1 / options)
    assert low <= hits <= high


@pytest.mark.long
@pytest.mark.parametrize("place", [0, 4, -1])
@pytest.mark.parametrize("dataset", ["slate", "ultratool"])
def test_always_the_same_place_is_at_chance(request: pytest.FixtureRequest, dataset: str, place: int) -> None:
    path = request.getfixturevalue("released_ultratool") if dataset == "ultratool" else None
    setting = setting_for("egb_logits", dataset, path, trajectories=1)
    hits, decisions, options = taken(setting, AtPlace(place), trials=1)
    low, high = stats.binom.interval(0.999, decisions, 1 / options)
    assert low <= hits <= high


def test_ranked_the_first_place_is_a_policy() -> None:
    setting = ordered(setting_for("egb_logits", "slate", trajectories=1), "ranked")
    hits, decisions, options = taken(setting, AtPlace(0), trials=1)
    assert hits > 5 * decisions / options


@pytest.mark.long
@pytest.mark.parametrize("planner", ["egb_logits", "fh", "sh"])
def test_the_tables_know_where_the_retriever_had_the_reference(planner: str) -> None:
    ranks: dict[str, list[Any]] = {}
    for order in ("ranked", "shuffled"):
        setting = ordered(setting_of(dataset="slate", planner=planner, dataset_values={"limit": 8}), order)
        built, chunk = built_of(setting)
        steps = [
            s for s in asyncio.run(run_chunk(built, setting, chunk, Stamp("t", None))).take()["steps"] if s["on_path"]
        ]
        ranks[order] = [[step["substep_id"], step["n_options"], step["reference_rank"]] for step in steps]
        for step in steps:
            assert step["n_options"] == 51
            assert step["tool_required"] or step["reference_rank"] is None
        case_of = {cell.cell_id: cell.case_id for cell in chunk}
        for step in [] if planner != "egb_logits" else steps:
            problem = built.problem(case_of[step["cell_id"]], 0)
            substep = next(one for one in problem.case.plan.substeps if one.id == step["substep_id"])
            retrieved = [tool.name for tool in problem.candidates(problem.case, substep)]
            wanted = step["reference_tool"]
            assert step["reference_rank"] == (retrieved.index(wanted) if wanted in retrieved else None)
    assert ranks["ranked"] == ranks["shuffled"]
    assert {type(rank) for _, _, rank in ranks["ranked"]} == {int, type(None)}


def test_the_first_of_the_ranked_options_matches_where_the_rank_is_0_and_what_is_cut_off_has_none() -> None:
    values = {"trajectories": 1, "max_candidates": 4}
    setting = ordered(setting_of(dataset="slate", planner="egb_logits", dataset_values={"limit": 20},
                                 planner_values=values), "ranked")  # fmt: skip
    built, chunk = built_of(setting, AtPlace(0))
    rows = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None))).take()["steps"]
    needing = [row for row in rows if row["tool_required"]]
    assert [row["tool_matches"] for row in needing] == [row["reference_rank"] == 0 for row in needing]
    assert {row["n_options"] for row in rows} == {4}
    assert {row["reference_rank"] for row in needing} == {0, 1, 2, None}


@pytest.mark.parametrize(
    ("options", "key", "allowed"),
    [
        ({"order": "best"}, "options.order", "'shuffled' or 'ranked'"),
        ({"order": None}, "options.order", "'shuffled' or 'ranked'"),
        ({"ordr": "ranked"}, "options.ordr", "did you mean order?"),
        (None, "options", "options.order=shuffled or options.order=ranked"),
        ("ranked", "options", "options.order=shuffled or options.order=ranked"),
    ],
)
def test_values_that_are_no_order_are_refused(tmp_path: Path, options: Any, key: str, allowed: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check_sweep([job(tmp_path, options=options)])
    assert refused.value.key == key
    assert allowed in str(refused.value)


def test_the_order_is_part_of_the_id_and_disturbances_are_the_same_for_both(tmp_path: Path) -> None:
    jobs = [job(tmp_path, options={"order": order}) for order in ("shuffled", "ranked")]
    settings: Sequence[Setting] = check_sweep([*jobs, job(tmp_path)]).plan.settings
    assert len(settings) == 2, "shuffled is the default"
    one, other = (next(cells(setting, "v", ["a"], 1)) for setting in settings)
    assert one.cell_id != other.cell_id
    assert one.disturbance_seed == other.disturbance_seed


def test_what_is_said_of_no_tool_fits_no_benchmarks_labels() -> None:
    texts = (prompts.NO_TOOL_TEXT, asking.ASK_SUBSTEP, asking.ASK_NEXT, planning.ASK_SUBSTEPS, planning.ASK_LAST)
    words = {stem for text in texts for stem in stems(text)}
    every = [pair for half in sayings().values() for pair in half]
    of_kind = ([found[:1] for found, none in every if none is kind] for kind in (True, False))
    shares = [np.mean([bool(words.intersection(first)) for first in firsts]) for firsts in of_kind]
    assert abs(shares[0] - shares[1]) <= 0.01


@given(st.sets(st.sampled_from("abcdef")), st.integers(0, 99))
def test_without_some_tools_the_others_stay_in_their_order_around_no_tool(gone: set[str], seed: int) -> None:
    tools = tuple(ToolSpec(name, "", (), ()) for name in "abcdef")
    whole = in_order(tools, seed, "case", "step", None, "sought")
    rest = whole.without(*gone)

    def names(options: Options) -> list[str]:
        found = [tool.name for tool in options.tools]
        return [*found[: options.place], NO_TOOL, *found[options.place :]]

    assert names(rest) == [name for name in names(whole) if name not in gone]
    assert rest.sought == "sought"
