"""Tests that run every planner on every dataset.

For a plugin's files, every outline and every engine that costs nothing is tested at each point. For our own files,
outlines, robustness settings and engines take turns: each of these is combined with every planner, every dataset, and
each value of the other two. With `-m slow`, our files are also tested with every outline and every engine. All files
are read from conf/, or from a plugin's folder, so that a new file is found automatically.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import pytest

from grid.cells.run import Stamp, episode_of, run_chunk
from grid.contracts.subject import setting_of, subject_of, yaml
from grid.core.problem import DRAFTED, GIVEN
from grid.core.types import FINISH, NO_TOOL, Substep
from grid.planners.egb import EntropyGuidedBranching
from grid.planners.search import TreeSearch
from grid.plugins import allowed, plugin_of
from grid.settings.build import Built, build
from grid.settings.check import invalid_reason
from grid.settings.config import BudgetConfig
from grid.settings.make import make
from grid.settings.setting import Cell, Setting, cells
from grid.store.schema import TABLES, TIMES
from grid.store.writing import as_table

BUDGET = BudgetConfig(llm_calls=150)  # no contract covers anything that would cost more
COUNTERS = [
    "n_steps",
    "tool_calls",
    "resolved_checks",
    "replans",
    "branches",
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "llm_calls",
    "forward_passes",
    "wall_seconds",
    "depth",
    "plan_nodes",
]
RATES = ("tool_match_rate", "action_accuracy")
READABLE = {"simulated": {"malformed": 0.0}}
"""Values with which all answers of an engine are readable. An unreadable answer leads to a decision without a chosen
option, which the contract does not cover."""
OF_ALL_OPTIONS = ("self_consistency", "egb_sampling")
"""The planners whose entropy is computed over all options in the table, not only over options above a threshold."""
TOOL_FIRST = (TreeSearch, EntropyGuidedBranching)
"""The planners that choose a tool before its arguments. Such a planner may choose a tool that needs an earlier result
although there is no earlier result."""


MOST = {"max_calls": 8, "max_failed_calls": 40}
"""The limits of a path without an outline. In these tests, cases only have to run, not to be solved. No planner gives
up before it reaches these limits."""


class Where(NamedTuple):
    """The setting of a check, as named in messages."""

    planner: str
    dataset: str
    outline: str
    model: str
    robustness: str

    def __str__(self) -> str:
        """The setting in words."""
        named = f"model {self.model}, robustness {self.robustness}"
        return f"{self.planner} on {self.dataset}, outline {self.outline}, {named}"

    def command(self, case: str) -> str:
        """The command that shows the prompts and answers of a case."""
        outline = f" dataset.outline={self.outline}" if "outline" in yaml("dataset", self.dataset) else ""
        given = f"{self.robustness}{''.join(f' --plugin {name}' for name in allowed())}{outline}"
        return (
            f"agent-grid show {self.dataset} {case} --planner {self.planner} --model {self.model} --robustness {given}"
        )


def fitting(dataset: str, values: dict[str, Any]) -> dict[str, Any]:
    """Those of the given values whose keys occur in a dataset's file."""
    return {key: value for key, value in values.items() if key in yaml("dataset", dataset)}


@lru_cache(maxsize=64)
def shortest(dataset: str, path: str | None) -> tuple[str, ...]:
    """The id of the case with the fewest reference calls (at least one, if possible) among the first 20 cases."""
    found = make(
        "dataset", yaml("dataset", dataset) | fitting(dataset, {"limit": 20}) | ({"path": path} if path else {})
    )
    data: Any = found
    sizes = {case_id: len(data.problem(case_id).reference.calls) for case_id in data.case_ids()}
    return (min(sizes, key=lambda case_id: (not sizes[case_id], sizes[case_id])),)


def run(built: Built, setting: Setting, chunk: list[Cell]) -> dict[str, list[dict[str, Any]]]:
    """Run a chunk in this process and return its rows."""
    return asyncio.run(run_chunk(built, setting, chunk, Stamp("contract", None))).take()


def lasting(rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """The rows without the columns that may differ between two runs."""
    return {
        table: [{name: value for name, value in row.items() if name not in TIMES} for row in part]
        for table, part in rows.items()
    }


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test for each point."""
    parametrize(metafunc, ())


def parametrize(metafunc: pytest.Metafunc, with_files: Sequence[str], may_lack: Collection[str] = ()) -> None:
    """Make a test for each point.

    `with_files` are the datasets whose files `folder_of` finds. For datasets in `may_lack`, the test is skipped if the
    machine lacks the files.
    """
    subject = subject_of(metafunc.config)
    if "robustness" in metafunc.fixturenames:
        metafunc.parametrize("robustness", subject.files["robustness"])
    if "disturbed" in metafunc.fixturenames:
        slow = [pytest.mark.slow] if subject.ours else []
        every = subject.points(with_files)
        points = [pytest.param(*point, True, id="-".join((*point, "all")), marks=slow) for point in every]
        if subject.ours:
            some = subject.paired(every, may_lack)
            points += [pytest.param(*point, False, id="-".join(point)) for point in some]
        names = ("dataset", "outline", "planner", "disturbed", "repeated", "every_engine")
        metafunc.parametrize(names, points)


def test_every_point_runs_and_repeats_itself(
    pytestconfig: pytest.Config,
    folder_of: Callable[[str], str | None],
    dataset: str,
    outline: str,
    planner: str,
    disturbed: str,
    repeated: str,
    every_engine: bool,
) -> None:
    path = folder_of(dataset)
    values = fitting(dataset, {"outline": outline, "limit": 20}) | ({"path": path} if path else {})
    left_out = list[str]()
    engines = subject_of(pytestconfig).cheap if every_engine else [repeated]
    for model, robustness in [*product(engines, ["none"]), ("lexical", disturbed)]:
        setting = setting_of(
            model=model,
            dataset=dataset,
            planner=planner,
            robustness=robustness,
            dataset_values=values,
            planner_values={key: most for key, most in MOST.items() if key in yaml("planner", planner)},
            model_values=READABLE.get(model, {}),
        )
        if reason := invalid_reason(setting):
            left_out.append(reason)
            continue
        built = build(setting, BUDGET)
        chunk = list(cells(setting, built.dataset.version, shortest(dataset, path), 1))
        rows = run(built, setting, chunk)
        where = Where(planner, dataset, outline, model, robustness)
        for table, part in rows.items():
            assert as_table(table, part).num_rows == len(part), f"{where}: the rows of `{table}` cannot be stored"
            more = {name for row in part for name in row}.difference(TABLES[table].names)
            assert not more, f"{where}: `{table}` has no columns {sorted(more)}"
        assert [row["cell_id"] for row in rows["episodes"]] == [cell.cell_id for cell in chunk], (
            f"{where}: each cell must have one row"
        )
        for row in rows["episodes"]:
            check_episode(row, outline, silent=not built.planner.needs and outline != DRAFTED, where=where)
        for cell in chunk:
            steps = [row for row in rows["steps"] if row["cell_id"] == cell.cell_id]
            check_steps(built, cell, steps, outline, where)
        if planner in OF_ALL_OPTIONS:
            first = [row for row in rows["steps"] if row["branch"] == 0]
            assert all(row["entropy"] is not None for row in first), f"{where}: each step must have an entropy"
            assert all(math.fsum(o["probability"] for o in row["options"]) == pytest.approx(1) for row in first), (
                f"{where}: the probabilities of all options must add up to 1"
            )
        if (model, robustness) == (repeated, "none"):
            assert lasting(run(built, setting, chunk)) == lasting(rows), (
                f"{where}: the same seed must give the same rows; a second run of the same cell gave others. Draw "
                "random numbers from derive_seed(episode.seed, ...), and keep nothing from one case to the next"
            )
    assert every_engine or not left_out, (
        "if a point is tested with one engine only, none of the point's settings may be left out"
    )
    if len(left_out) > len(engines):
        pytest.skip(left_out[0])


def test_a_seed_disturbs_alike(robustness: str) -> None:
    setting = setting_of(dataset="slate", robustness=robustness, dataset_values={"limit": 3})
    if reason := invalid_reason(setting):
        pytest.skip(reason)
    built = build(setting, BUDGET)
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 2))
    assert lasting(run(built, setting, chunk)) == lasting(run(build(setting, BUDGET), setting, chunk))


def check_episode(row: dict[str, Any], outline: str, silent: bool, where: Where) -> None:
    """Check that an episode ended, and that its row is complete.

    If `silent`, the planner must not have asked a model; otherwise it must have asked one.
    """
    assert (row["status"], row["error_kind"], row["error_message"]) == ("ok", None, None), (
        f"{where}: the cell must end without an error\n{row['error_traceback']}"
    )
    assert isinstance(row["success"], bool), f"{where}: it must be known whether the case is resolved"
    negative = [counter for counter in COUNTERS if not row[counter] >= 0]
    assert not negative, f"{where}: counts must be 0 or more: {negative}"
    asked = row["llm_calls"] + row["forward_passes"]
    assert (asked == 0) == silent, (
        f"{where}: the planner asked a model {asked} times; a planner whose `needs` name a verb of an engine "
        "must ask a model, and any other planner must not"
    )
    for rate in RATES:
        known = outline == GIVEN and row["unsolvable_kind"] is None  # if the case should be refused, no call is right
        assert 0 <= row[rate] <= 1 if known else row[rate] is None, f"{where}: {rate}={row[rate]}"
    rate = row["retrieval_rate"]
    assert rate is None or 0 <= rate <= 1, f"{where}: retrieval_rate={rate}"


def check_steps(built: Built, cell: Cell, rows: list[dict[str, Any]], outline: str, where: Where) -> None:
    """Check that the path's decisions are in order, choose offered tools, and have valid distributions, if any."""
    problem = built.problem(cell.case_id, cell.disturbance_seed)
    episode = episode_of(built, problem, cell.seed)
    path = [row["substep_id"] for row in rows if row["on_path"]]
    if outline == GIVEN:
        whole = [substep.id for substep in problem.case.plan.substeps]
        # A search may end before any of its paths ends, and somebody else's planner may give up at any time.
        ends_early = isinstance(built.planner, TreeSearch) or plugin_of(type(built.planner).__module__)
        expected = whole[: len(path)] if ends_early else whole
    else:
        first = len(problem.case.done) or (1 if outline == DRAFTED else 0)
        expected = [str(number) for number in range(first, first + len(path))]
    assert path == expected, f"{where}: the path's steps must be the substeps {expected} in this order, not {path}"
    known = {substep.id: substep for substep in problem.case.plan.substeps}
    for row in rows:
        at = f"{where}, case {cell.case_id}, step {row['substep_id']}"
        substep = known.get(row["substep_id"]) or Substep(row["substep_id"], row["substep"], "", drafted=True)
        tools = (*episode.options(None).tools, *(episode.options(substep).tools if row["substep"] else ()))
        offered = {tool.name for tool in tools} | {NO_TOOL if row["substep"] else FINISH}
        undone = row["chosen_tool"] is None and isinstance(built.planner, TOOL_FIRST)
        assert undone or row["chosen_tool"] is not None, (
            f"{at}: the step has an answer that could not be used, although this engine writes only calls of the tools "
            "that its prompt offers. Either the prompt offers other tools than view.options, or the planner's own "
            f"action is `unreadable`. Prompts and answers: {where.command(cell.case_id)}"
        )
        assert undone or row["chosen_tool"] in offered, (
            f"{at}: the tool {row['chosen_tool']!r} is not on offer; a decision must call a tool of view.options.tools "
            f"or {NO_TOOL if row['substep'] else FINISH}"
        )
        others = {option["tool"] for option in row["options"]} - offered
        assert not others, f"{at}: the `options` of the decision have tools that are not on offer: {sorted(others)}"
        if outline != GIVEN:
            of_reference = (row["tool_required"], row["reference_tool"], row["tool_matches"])
            assert of_reference == (None, None, None), f"{at}: only steps of a given outline have a reference"
        if row["entropy"] is not None:
            total = math.fsum(option["probability"] for option in row["options"])
            assert total <= 1 + 1e-9, f"{at}: the probabilities of the options add up to {total}; at most 1 is allowed"
            most = math.log(len(offered)) + 1e-9
            assert 0 <= row["entropy"] <= most, f"{at}: entropy={row['entropy']} nats; 0 to {most:.4f} are possible"
