"""Scoring again, by data set: what was stored of any is equal, or what is not stored of it is said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest

from grid import store
from grid.cells.rescoring import SAID
from grid.cells.run import Stamp, run_chunk
from grid.core.engine import JUDGE, SIMULATOR, USER, Engine, Prompt, Sampled
from grid.core.types import FINISH, to_json
from grid.datasets.kqa.dataset import KqaSynthetic
from grid.datasets.kqa.program import KB, TEST, TRAIN
from grid.settings.build import Built, build, code_of
from grid.settings.config import BudgetConfig
from grid.settings.parts import dataset_of, pooled
from grid.settings.roles import with_roles
from grid.settings.setting import Keep, Setting, cells
from grid.sweeps.rescore import UNKNOWN, Rescored
from tests.support import apibench, freebase, gta, hotpotqa, mnms_files, restbench, stabletoolbench, workbench
from tests.support.configs import setting_of, yaml
from tests.support.oracle import oracle_of
from tests.support.plans import Says
from tests.support.tau2 import airline_files, mock_files, mock_task
from tests.unit.roles.test_grounding import Scripted, Shouting
from tests.unit.sweeps.test_rescore import again, altered, differing, run, whole

PLANNERS = ("react", "egb_names", "plan_first")
PLAYED = "the answers of the simulator are not stored (store.transcripts)"
HEARD = "the answers of the user are not stored (store.transcripts)"


class Stored(NamedTuple):
    """A data set: what makes its files, its keys, the roles that it asks, and what is not known without transcripts."""

    write: Callable[[Path], Any] = lambda path: None
    values: Mapping[str, Any] = {}
    asked: Mapping[str, str] = {}
    lacking: str | None = None


def kqapro(root: Path) -> str:
    """A folder in the released form."""
    made = KqaSynthetic()
    (root / KB).write_bytes((made.root / KB).read_bytes())
    for name, count in ((TEST, 6), (TRAIN, 10)):
        (root / name).write_text(json.dumps(json.loads((made.root / name).read_text("utf-8"))[:count]), "utf-8")
    return str(root)


WEBQSP, GRAPHS = "WebQSP.test.expr.json", "graphquestions_v1_fb15_test_091420.json"
BM25, SIMULATED = {"demonstrations_by": "bm25"}, {"simulator": "lexical"}
DATA: Mapping[str, Stored] = {
    "kqa_synthetic": Stored(),
    "kqapro": Stored(kqapro, {"cases": 6, "demonstrations_from": 10, **BM25}),
    "grailqa": Stored(freebase.write, BM25),
    "agentbench_kg": Stored(lambda path: freebase.write(path, "train.json", freebase.agentbench), BM25),
    "webqsp": Stored(lambda path: freebase.write(path, WEBQSP, freebase.webqsp), BM25),
    "graphquestions": Stored(lambda path: freebase.write(path, GRAPHS), BM25),
    "hotpotqa_multi": Stored(hotpotqa.write, {"cases": 2, "objectives": "1..2"}, SIMULATED, PLAYED),
    "workbench": Stored(workbench.write),
    "gta": Stored(gta.write),
    "restbench": Stored(restbench.write),
    "mnms": Stored(mnms_files.write),
    "apibench": Stored(apibench.write),
    "gta_generated": Stored(),
    "stabletoolbench": Stored(stabletoolbench.write_queries, {}, SIMULATED, PLAYED),
}


def swept(root: Path, name: str, keep: str, limit: int = 4) -> Rescored:
    """Rescored: two engines with three planners each."""
    own = DATA[name]
    (files := root / "files").mkdir(exist_ok=True)
    path = own.write(files)
    values = {**({"path": path} if path else {}), **own.values}
    for model in ("simulated", "lexical"):
        asked = {} if model == "simulated" and name == "hotpotqa_multi" else own.asked
        for planner in PLANNERS:
            setting = whole(model=model, planner=planner, dataset=name, dataset_values=values, **asked)
            run(root / keep, setting, limit, keep=keep)
    return again(root / keep)


@pytest.mark.long
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("name", DATA)
def test_every_stored_value_of_a_data_set_comes_out_again_or_says_what_is_not_stored(tmp_path: Path, name: str) -> None:
    found = swept(tmp_path, name, "none")
    lacking = DATA[name].lacking
    expected = {("success", UNKNOWN, lacking)} if lacking else set()
    assert {(one.metric, one.state, one.why) for one in differing(found)} == expected
    rows = store.read(tmp_path / "none", "episodes").to_pylist()
    assert {row["status"] for row in rows} == {"ok"}
    assert name == "stabletoolbench" or {row["success"] for row in rows} == {True, False}
    assert {one.cell_id for one in found.compared if one.metric == "success"} == {row["cell_id"] for row in rows}


def test_a_file_that_changed_under_a_folder_is_told_and_scores_nothing(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    setting = whole(
        model="simulated", planner="react", dataset="gta", dataset_values={"path": gta.write(tmp_path / "files")}
    )
    run(tmp_path / "results", setting)
    (file,) = (tmp_path / "files").rglob("*.json")
    file.write_text(file.read_text("utf-8").replace("three teas", "three cups"), "utf-8")
    found = later(tmp_path / "results")
    assert {one.state for one in found.compared} == {UNKNOWN}
    assert {one.why.partition(" version")[0] for one in found.compared} == {"the data set had"}
    file.unlink()
    assert all("the setting cannot be built" in one.why for one in later(tmp_path / "results").compared)


def later(root: Path) -> Rescored:
    """In a process that has read no files yet."""
    for read in (dataset_of, pooled):
        read.cache_clear()
    return again(root)


def response(value: str) -> str:
    return to_json({"error": "", "response": value})


@pytest.mark.long
@pytest.mark.parametrize(
    "says", [["no object", response("one"), response("two")], ["no object"]], ids=["read", "never"]
)
def test_who_played_tools_says_again_what_transcripts_have(tmp_path: Path, says: list[str]) -> None:
    """Of each call what the last try said; also where none could be read."""
    labels = {"model": "simulated", "planner": "react", "dataset": "stabletoolbench", "simulator": "lexical"}
    (tmp_path / "files").mkdir()
    path = stabletoolbench.write_queries(tmp_path / "files")
    setting = whole(dataset_values={"path": path, "limit": 3}, **labels)
    built = replace(build(setting, BudgetConfig()), roles={SIMULATOR: Says(says)})
    stored(tmp_path / "results", built, setting, "all")
    assert differing(again(tmp_path / "results")) == []
    rows = store.read(tmp_path / "results", "episodes").to_pylist()
    assert {row["success"] for row in rows} == {len(says) > 1}, "it hangs on who plays"


@pytest.mark.long
@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("answer", ['{"best": 0}', '{"best": 99}'], ids=["a name", "nonsense"])
def test_a_judge_that_chose_names_for_a_call_chooses_them_again(tmp_path: Path, answer: str) -> None:
    """Forgiving tools go by the name that it chose, so that what calls return hangs on it."""
    made = setting_of({"limit": 6}, dataset="kqa_synthetic", planner="sh", robustness="tools_forgiving")
    forgiving = {"tools_forgiving": made.config["robustness"]["tools_forgiving"] | {"judge": True}}
    config = with_roles({**made.config, "robustness": forgiving, JUDGE: yaml("model", "lexical")})
    setting = Setting(config, {**made.labels, JUDGE: "lexical"}, 0, BudgetConfig().identity, code_of(config))
    built = build(setting, BudgetConfig())
    actor = cast(Engine, Shouting(oracle_of(built.dataset, built.dataset.case_ids())))
    built = replace(built, engine=actor, roles={**built.roles, JUDGE: cast(Engine, Scripted(answer))})
    for keep in ("all", "none"):
        stored(tmp_path / keep, built, setting, keep)
    assert any(row["judge_calls"] for row in store.read(tmp_path / "all", "episodes", wide=True).to_pylist())
    assert {one.why for one in differing(again(tmp_path / "all"))} <= {SAID}, "what an evaluator said alone"
    why = "the answers of the judge are not stored (store.transcripts)"
    lost = {one.metric for one in differing(again(tmp_path / "none")) if one.why.startswith(why)}
    hangs = {"success", "accuracy", "verdict"} if "0" in answer else set()
    assert lost == hangs, "where nobody could be read the call failed, whoever was asked"


def stored(root: Path, built: Built, setting: Setting, keep: str) -> None:
    """All cells of a setting, run by who is built."""
    chunk = list(cells(setting, built.version, built.dataset.case_ids(), 1))
    result = asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None), keep=Keep.of(keep)))
    store.write(root, result.take_all())


# τ²-bench: databases, and a user who is a model.


FIRST, THANKS = "I want AAA111 cancelled.", "Thank you. ###STOP###"


def act(tool: str, **arguments: Any) -> str:
    return to_json({"action": {"tool": tool, "arguments": arguments}})


def talked(root: Path, path: Path, acts: Sequence[str], says: Says, keep: str = "all") -> dict[str, Any]:
    """The row of a cell whose acting model and whose user say these, which is stored."""
    values = {"path": str(path), "domain": "airline"}
    setting = whole(
        model="lexical", planner="direct", dataset="tau2", retriever="none", user="lexical", dataset_values=values
    )
    built = replace(build(setting, BudgetConfig()), engine=Says(acts), roles={USER: says})
    stored(root, built, setting, keep)
    (row,) = store.read(root, "episodes", wide=True).to_pylist()
    return dict(row)


TALKS: Mapping[str, tuple[list[str], list[str], str, float]] = {
    "a user who leaves": (
        [
            act("message_user", message="Shall I?"),
            act("cancel_reservation", reservation_id="AAA111"),
            act("message_user", message="Done."),
        ],
        [FIRST, "Yes.", THANKS],
        "user_stop",
        1.0,
    ),
    "an agent who ends it": (
        [act("cancel_reservation", reservation_id="AAA111"), act(FINISH, answer="Done.")],
        [FIRST],
        "agent_stop",
        1.0,
    ),
    "a user who says the same twice": (
        [act("message_user", message="Shall I?"), act("message_user", message="Shall I?"), act(FINISH, answer="No.")],
        [FIRST, "Yes.", "I said yes."],
        "agent_stop",
        0.0,
    ),
    "a user who leaves at once": ([act(FINISH, answer="Bye.")], [THANKS], "user_stop", 0.0),
    "a user whom nobody can read": (
        [act("message_user", message="Shall I?"), act(FINISH, answer="Bye.")],
        [FIRST, ""],
        "user_error",
        0.0,
    ),
}
"""What the agent and the user say, and how the run ends with which reward."""


@pytest.mark.parametrize("name", TALKS)
def test_a_user_says_again_what_transcripts_have(tmp_path: Path, name: str) -> None:
    pytest.importorskip("tau2", reason="the extra tau2 is not installed")
    acts, says, ended, reward = TALKS[name]
    row = talked(tmp_path / "results", airline_files(tmp_path), acts, Says(says))
    assert (row["termination"], row["reward"]) == (ended, reward)
    found = again(tmp_path / "results")
    assert differing(found) == []
    assert {("termination", ended), ("reward", reward), ("success", reward)} <= {
        (one.metric, one.now) for one in found.compared
    }


def test_without_transcripts_nothing_is_known_of_a_conversation_with_a_user(tmp_path: Path) -> None:
    pytest.importorskip("tau2", reason="the extra tau2 is not installed")
    acts, says, *_ = TALKS["a user who leaves"]
    talked(tmp_path / "results", airline_files(tmp_path), acts, Says(says), keep="none")
    assert {(one.state, one.why) for one in again(tmp_path / "results").compared} == {(UNKNOWN, HEARD)}


class BreaksOff(Says):
    """Whose second message and all later ones the limit on tokens cuts off."""

    async def sample(self, prompt: Prompt, *, n: int, temperature: float, max_tokens: int, seed: int) -> Sampled:
        found = await super().sample(prompt, n=n, temperature=temperature, max_tokens=max_tokens, seed=seed)
        return replace(found, cut=frozenset({0})) if len(self.prompts) > 1 else found


def test_what_a_user_could_not_say_to_the_end_is_not_heard_the_second_time(tmp_path: Path) -> None:
    pytest.importorskip("tau2", reason="the extra tau2 is not installed")
    acts, *_ = TALKS["a user whom nobody can read"]
    row = talked(tmp_path / "results", airline_files(tmp_path), acts, BreaksOff([FIRST, "Yes, I wa"]))
    assert row["termination"] == "user_error"
    assert differing(again(tmp_path / "results")) == []


def test_what_a_user_said_and_is_not_stored_verbatim_is_not_known(tmp_path: Path) -> None:
    pytest.importorskip("tau2", reason="the extra tau2 is not installed")
    acts, says, *_ = TALKS["an agent who ends it"]
    talked(tmp_path / "first", airline_files(tmp_path), acts, Says(says))
    cut = altered(tmp_path / "second", tmp_path / "first", "messages", lambda row: row | {"altered": "cut"})
    assert {(one.state, one.why) for one in again(cut).compared} == {(UNKNOWN, HEARD)}


def test_databases_behind_a_ticket_are_made_again(tmp_path: Path) -> None:
    pytest.importorskip("tau2", reason="the extra tau2 is not installed")
    path = str(
        mock_files(
            tmp_path,
            [
                mock_task(),
                mock_task(
                    "other",
                    actions=[
                        {"action_id": "b", "name": "create_task", "arguments": {"user_id": "user_1", "title": "Sow"}}
                    ],
                ),
            ],
        )
    )
    for model in ("simulated", "lexical"):
        for planner in PLANNERS:
            values = {"path": path, "domain": "mock"}
            run(
                tmp_path / "results",
                whole(model=model, planner=planner, dataset="tau2", dataset_values=values),
                keep="none",
            )
    found = again(tmp_path / "results")
    assert differing(found) == []
    assert {one.now for one in found.compared if one.metric == "reward"} == {0.0, 1.0}
