"""What was asked and answered: rebuilt from the tables alone, of the cells that it is kept of, whatever is damaged."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from omegaconf import OmegaConf

from grid import store
from grid.cells.rows import ChunkResult, Outcome, Room, transcript_rows
from grid.cells.run import Stamp, run_cell, run_chunk
from grid.cluster.batch import Report
from grid.core.engine import Choice, ChoiceAnswer, Engine, Prompt, Sampled, Section, TextAnswer, ToolCallAnswer
from grid.core.errors import ConfigError, StoreError, ToolError
from grid.core.types import Usage
from grid.episode.progress import Budget
from grid.episode.requests import Message
from grid.planners.react import ReAct
from grid.pools.whole import Whole
from grid.settings.build import Built, build
from grid.settings.check import check_sweep
from grid.settings.config import BudgetConfig, sweep_config
from grid.settings.parts import Pooled
from grid.settings.setting import KEEP_NONE, REST_SHARE, Cell, Keep, Setting, cells
from grid.store.__main__ import main
from grid.store.schema import TIMES
from grid.store.transcripts import lines
from grid.sweeps.session import TranscriptTally
from tests.support.configs import SHARED, job, solvers
from tests.support.engines import Scripted
from tests.support.world import TOOLS, certain, right_arguments
from tests.unit.cells.test_run import LABELS, Breaking, SmallDataset, SmallIndex
from tests.unit.store.test_store import episode, message, section
from tests.unit.store.test_store_damage import flipped

CONF = Path(__file__).parents[3] / "conf"
PLANNERS = solvers()  # who refuses everything asks nothing
BUDGET = BudgetConfig()
KEEP_ALL = Keep()


class Sent(NamedTuple):
    """A request as the engine got it, and what it answered."""

    prompt: Prompt
    how: dict[str, Any]
    answer: Sampled | Choice


@dataclass
class Recording:
    """An engine that keeps the very objects that it gets and gives."""

    engine: Engine
    sent: list[Sent] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.engine, name)

    async def sample(self, prompt: Prompt, **how: Any) -> Sampled:
        answer = await self.engine.sample(prompt, **how)
        self.sent.append(Sent(prompt, how, answer))
        return answer

    async def choose(self, prompt: Prompt, *, seed: int) -> Choice:
        answer = await self.engine.choose(prompt, seed=seed)
        self.sent.append(Sent(prompt, {"seed": seed}, answer))
        return answer


def setting_of(planner: str, dataset: str = "slate", **values: Any) -> Setting:
    """A planner's YAML with the lexical engine on the first cases of a dataset."""
    labels = {
        "model": "lexical",
        "planner": planner,
        "dataset": dataset,
        "robustness": "none",
        "retriever": "bm25",
        "pool": "all",
    }
    files = {group: OmegaConf.load(CONF / group / f"{name}.yaml") for group, name in labels.items()}
    config = {group: cast(dict[str, Any], OmegaConf.to_container(file, resolve=True)) for group, file in files.items()}
    config["dataset"] |= {"limit": 2} | values
    return Setting(config, labels, seed=0)


def written(root: Path, setting: Setting, built: Built, keep: Keep = KEEP_ALL, count: int = 1) -> list[Cell]:
    """Run and write the setting's first cells; what `written` wrote before in a folder is not known."""
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 1))[:count]
    store.write(root, taken(asyncio.run(run_chunk(built, setting, chunk, Stamp("test", None), keep=keep))))
    return chunk


def taken(result: ChunkResult) -> dict[str, Any]:
    """All that a worker writes."""
    return result.take_all()


@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("outline", ["given", "hidden", "drafted"])
def test_an_episode_rebuilt_from_the_tables_is_what_the_engine_was_sent_and_answered(
    tmp_path: Path, planner: str, outline: str
) -> None:
    setting = setting_of(planner, outline=outline)
    built = build(setting, BUDGET)
    recording = Recording(built.engine)
    (cell,) = written(tmp_path, setting, replace(built, engine=cast(Engine, recording)))
    requests = store.transcript(tmp_path, cell.cell_id)
    assert len(requests) == len(recording.sent) > 0
    for request, (prompt, how, answer) in zip(requests, recording.sent, strict=True):
        assert request is not None
        assert request.sections == prompt.sections
        assert request.text().encode() == prompt.text().encode()
        kinds = {"ToolCallAnswer": "tool_call", "PlanAnswer": "plan", "OutlineAnswer": "outline", "TextAnswer": "text"}
        kinds |= {"ChainAnswer": "chain", "MessagesAnswer": "messages"}
        assert request.wanted == (kinds | {"ChoiceAnswer": "choice"})[type(prompt.answer).__name__]
        own = {"seed": request.seed, "n": request.n, "temperature": request.temperature}
        assert {
            name: value for name, value in {**own, "max_tokens": request.max_tokens}.items() if value is not None
        } == how
        assert request.altered is None
        if isinstance(answer, Sampled):
            assert (request.request, request.answers, request.probabilities) == ("sample", answer.completions, None)
        else:
            assert isinstance(prompt.answer, ChoiceAnswer)
            assert request.sections[-1] is not None
            assert prompt.answer.options in [part.options for part in request.sections if part]
            assert (request.request, request.answers, request.probabilities) == ("choose", (), answer.probabilities)


def test_steps_have_the_thought_and_the_call_as_it_was_written() -> None:
    text = '{"thought": "it must be  there", "tool": "find", "arguments": {"order": "OUTPUT_FROM_STEP_1.1.order"}}'

    class Thinking(Scripted):
        def _call(self, substep: str, tool: str) -> str:
            return text

    steps = small(Thinking(certain()), ReAct(thought=400)).rows["steps"]
    assert {step["thought"] for step in steps} == {"it must be there"}
    assert {step["written"] for step in steps} == {
        '{"tool": "find", "arguments": {"order": "OUTPUT_FROM_STEP_1.1.order"}}'
    }


def small(engine: Any, planner: Any, keep: Keep = KEEP_ALL, key: str = "0" * 16) -> Outcome:
    """What comes of the small case."""
    dataset: Any = SmallDataset()
    index: Any = SmallIndex()
    built = Built(engine, planner, dataset, Pooled(dataset, Whole(), dict(TOOLS), index), (), Budget())
    setting = Setting({group: {} for group in LABELS}, LABELS, 0)
    return asyncio.run(run_cell(built, setting, Cell("small", 0, "c", key, "d"), Stamp("s", None), "a", keep=keep))


def test_of_which_cells_it_is_kept() -> None:
    right, wrong = Scripted(certain(), right_arguments), Scripted(certain(s2_2="other"), right_arguments)
    broken = Breaking(ToolError("broke"))
    last = "f" * 16  # of all keys
    for keep, kept in (("all", (1, 1, 1)), ("failed", (0, 1, 1)), ("none", (0, 0, 0)), ("sample:0.5", (0, 0, 0))):
        outcomes = [
            small(right, ReAct(), Keep.of(keep), last),
            small(wrong, ReAct(), Keep.of(keep), last),
            small(right, broken, Keep.of(keep), last),
        ]
        assert [one.episode["success"] for one in outcomes] == [True, False, None]
        assert tuple(bool(one.messages) for one in outcomes) == kept, keep
        assert [one.episode["n_messages"] for one in outcomes] == [4 if one else None for one in kept]


def test_samples_are_by_key_and_as_large_as_they_should_be() -> None:
    keys = [hashlib.sha256(str(number).encode()).hexdigest()[:16] for number in range(20_000)]
    rows = [{"cell_key": key, "status": "ok", "success": True} for key in keys]
    sampled = {share: [Keep.of(f"sample:{share}").keeps(row) for row in rows] for share in ("0.05", "0.2", "1")}
    for share, kept in sampled.items():
        error = (float(share) * (1 - float(share)) / len(rows)) ** 0.5
        assert abs(sum(kept) / len(rows) - float(share)) <= 4 * error
    assert all(wide for narrow, wide in zip(sampled["0.05"], sampled["0.2"], strict=True) if narrow)
    assert Keep().rest() == Keep("all", REST_SHARE)
    assert Keep("failed", 0.01).rest() == Keep("failed", 0.01)


@pytest.mark.parametrize("value", ["some", "", "sample", "sample:0", "sample:1.5", "sample:x", "sample:-1", "All"])
def test_other_values_are_refused_by_key(value: str) -> None:
    for key, given in (
        ("store.transcripts", {"transcripts": value}),
        ("store.transcripts_gib", {"transcripts_gib": 0.0}),
    ):
        with pytest.raises(ConfigError) as caught:
            sweep_config(SHARED | {"store": {"root": "x"} | given})
        assert caught.value.key == key
    with pytest.raises(ConfigError, match=r"store.transcripts='some'.*all, failed, none, or sample:SHARE"):
        sweep_config(SHARED | {"store": {"root": "x", "transcripts": "some"}})


def test_what_is_kept_changes_no_id_and_no_result(tmp_path: Path) -> None:
    plans = [
        check_sweep([job(tmp_path, store={"root": str(tmp_path), "transcripts": keep, "transcripts_gib": gib})]).plan
        for keep, gib in (("all", 2.0), ("none", 0.5))
    ]
    ids = [[cell.cell_id for setting in plan.settings for cell in plan.cells_of(setting)] for plan in plans]
    assert ids[0] == ids[1]
    assert (plans[0].keep, plans[0].transcripts_bytes) == (KEEP_ALL, 2**31)
    setting = plans[0].settings[0]
    for name, keep in (("all", KEEP_ALL), ("none", KEEP_NONE)):
        written(tmp_path / name, setting, build(setting, BUDGET), keep, count=2)
    tables: tuple[store.Table, ...] = ("episodes", "steps")
    for table in tables:
        rows = [store.read(tmp_path / name, table).to_pylist() for name in ("all", "none")]
        lasting = [[{k: v for k, v in row.items() if k not in TIMES} for row in one] for one in rows]
        assert lasting[0] == lasting[1]
    assert not (tmp_path / "none" / "messages").exists()


def test_once_there_is_no_room_further_cells_are_sampled(tmp_path: Path) -> None:
    store.write(tmp_path, {"messages": [message("a")], "sections": [section("a")]})
    held = store.size(tmp_path, ["messages", "sections"])
    assert held == sum(path.stat().st_size for path in tmp_path.glob("*/*.parquet"))
    room = Room(tmp_path, Keep("failed"), held + 100)
    room.took(5, 99)
    assert (room.keep, room.since) == (Keep("failed"), None)
    room.took(5, 1)
    room.took(5, 1)
    assert room.keep == Keep("failed", REST_SHARE)
    assert room.since is not None
    assert room.since[1] == 10
    assert Room(tmp_path, KEEP_ALL, held).keep.share == REST_SHARE, "a sweep that was resumed"
    assert Room(tmp_path, Keep.of("sample:0.01"), 1).since is None


def test_a_section_is_written_once_by_a_process_and_its_rows_name_what_they_hold() -> None:
    known: set[str] = set()
    first, second = ChunkResult(sections=known), ChunkResult(sections=known)
    engine = Scripted(certain(), right_arguments)
    for result in (first, first, second):
        result.add(small(engine, ReAct()))
    rows, again = (taken(result) for result in (first, second))
    digests = [digest for digest, *_ in rows["sections"]]
    assert len(digests) == len(set(digests))
    assert {*digests, rows["cases"][0][0]} == known
    assert (len(rows["cases"]), again["cases"]) == (1, [])
    assert again["sections"] == []
    assert len(again["messages"]) == 4
    prompts = [dict(zip(store.schema.MESSAGES.names, row, strict=True))["prompt"] for row in rows["messages"]]
    prompts += [dict(zip(store.schema.MESSAGES.names, row, strict=True))["prompt"] for row in again["messages"]]
    assert {digest for prompt in prompts for digest in prompt} == set(digests)
    assert [Section(*part).digest for _, *part, _ in rows["sections"]] == digests


def test_digests_tell_sections_apart() -> None:
    texts = ["", "a", "a\0b", "\0", "é", "\ud800", "x" * 2000]
    parts = [
        Section(kind, entries, options)
        for kind in ("task", "tools")
        for entries in [(), *((one,) for one in texts), *((one, other) for one in texts for other in texts)]
        for options in [(), *((one,) for one in texts), ("a", "b\0")]
    ]
    assert len({part.digest for part in parts}) == len(parts)


def test_what_a_table_cannot_hold_is_altered_and_the_row_says_so(tmp_path: Path) -> None:
    prompt = Prompt((Section("lessons", ("one", "half \ud83d")),), TextAnswer())
    asked = Message(
        "actor",
        "try0",
        prompt,
        1,
        n=3,
        answers=("x" * 1_000_001, "\udc00!", "whole \ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")),
    )
    rows = transcript_rows("c", "a", [asked], set())
    store.write(tmp_path, {**rows, "episodes": [episode("c", "a", n_messages=1)]})
    (request,) = store.transcript(tmp_path, "c")
    assert request is not None
    assert [len(answer) for answer in request.answers] == [1_000_000, 2, 7]
    assert request.answers[1:] == ("?!", "whole \U0001f600")
    assert request.altered == (
        "answer 0 is cut after 1,000,000 of 1,000,001 characters; unpaired surrogates in answer 1 are written as ?"
    )
    (row,) = store.read(tmp_path, "sections").to_pylist()
    assert row["entries"] == ["one", "half ?"]
    assert row["altered"] == "unpaired surrogates in entry 1 are written as ?"
    assert any("not verbatim" in line for line in lines([request]))


def test_a_request_without_an_answer_and_answers_that_cannot_be_read(tmp_path: Path) -> None:
    prompt = Prompt((Section("task", ("Go on.",)),), ToolCallAnswer((), may_decline=True))
    messages = [
        Message("actor", "pass0/1", prompt, 1, n=2, answers=("", "no"), unreadable={1: "no JSON object with a tool"}),
        Message("judge", "pass0/2", prompt, 2, n=1),
    ]
    rows = transcript_rows("c", "a", messages, set())
    store.write(tmp_path, {**rows, "episodes": [episode("c", "a", n_messages=2)]})
    first, second = store.transcript(tmp_path, "c")
    assert first is not None
    assert second is not None
    assert (first.answers, first.unreadable) == (("", "no"), {1: "no JSON object with a tool"})
    assert (second.role, second.answers, second.probabilities, second.unreadable) == ("judge", (), None, {})


@pytest.fixture
def folder(tmp_path: Path) -> tuple[Path, list[Cell], list[Sequence[store.Request | None]]]:
    """Three cells, each with files of its own, and their transcripts."""
    setting = setting_of("egb_logits", limit=3)
    built = build(setting, BUDGET)
    chunk = list(cells(setting, built.dataset.version, built.dataset.case_ids(), 1))
    for cell in chunk:
        result = asyncio.run(run_chunk(built, setting, [cell], Stamp("test", None), keep=KEEP_ALL))
        store.write(tmp_path, taken(result))
    return tmp_path, chunk, [store.transcript(tmp_path, cell.cell_id) for cell in chunk]


Folder = tuple[Path, list[Cell], list[Sequence[store.Request | None]]]


@pytest.mark.long
def test_compaction_changes_no_transcript_and_drops_repeats(folder: Folder) -> None:
    root, chunk, before = folder
    rows = store.read(root, "sections").num_rows
    assert rows < sum(row_count(path) for path in (root / "sections").iterdir())
    assert store.compact(root)["sections"] == (3, 1)
    assert [store.transcript(root, cell.cell_id) for cell in chunk] == before
    assert rows == sum(row_count(path) for path in (root / "sections").iterdir())


def row_count(path: Path) -> int:
    import pyarrow.parquet as pq

    return int(pq.read_metadata(path).num_rows)


@pytest.mark.long
@pytest.mark.parametrize("table", ["messages", "sections"])
def test_damage_loses_parts_of_transcripts_and_no_result(folder: Folder, table: str) -> None:
    root, chunk, before = folder
    done = set(store.finished(root))
    flipped(next((root / table).iterdir()), 4000)
    with pytest.raises(StoreError, match=rf"{table}/.*: damaged"):
        store.transcript(root, chunk[0].cell_id)
    (line,) = store.put_aside(root)
    assert ("but not their results" in line) == (table == "messages")
    assert set(store.finished(root)) == done, "no cell runs again for it"
    after = [store.transcript(root, cell.cell_id) for cell in chunk]
    assert [len(requests) for requests in after] == [len(requests) for requests in before]
    if table == "messages":
        assert sorted(requests == tuple([None] * len(requests)) for requests in after) == [False, False, True]
        assert [new for new, old in zip(after, before, strict=True) if new == old] == [
            r for r in after if None not in r
        ]
    else:
        lost = 0
        for new, old in ((n, o) for a, b in zip(after, before, strict=True) for n, o in zip(a, b, strict=True)):
            assert new is not None
            assert old is not None
            assert all(part in (None, was) for part, was in zip(new.sections, old.sections, strict=True))
            assert replace(new, sections=()) == replace(old, sections=())
            lost += None in new.sections
        assert lost > 0
    assert list(lines(after[0]))


def test_messages_of_a_try_that_was_killed_count_for_nothing(tmp_path: Path) -> None:
    setting = setting_of("react")
    built = build(setting, BUDGET)
    (cell, *_) = cells(setting, built.dataset.version, built.dataset.case_ids(), 1)
    for attempt in ("killed", "whole"):
        result = asyncio.run(run_chunk(built, setting, [cell], Stamp("t", None), attempt_id=attempt, keep=KEEP_ALL))
        rows = taken(result)
        if attempt == "killed":  # behind its messages: episodes are written last
            del rows["episodes"]
        store.write(tmp_path, rows)
        if attempt == "killed":
            assert store.read(tmp_path, "messages").num_rows == 0
    requests = store.transcript(tmp_path, cell.cell_id)
    assert store.read(tmp_path, "messages").num_rows == len(requests) > 0
    assert None not in requests


def test_a_cell_of_which_nothing_is_kept_is_told_from_one_that_is_not_there(tmp_path: Path) -> None:
    store.write(tmp_path, {"episodes": [episode("a"), episode("b", n_messages=0)]})
    with pytest.raises(StoreError, match=r"the requests of cell a were not kept .store.transcripts"):
        store.transcript(tmp_path, "a")
    with pytest.raises(StoreError, match="no cell c"):
        store.transcript(tmp_path, "c")
    assert store.transcript(tmp_path, "b") == ()


def test_the_command_prints_a_transcript(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root, chunk, before = folder
    monkeypatch.setattr("sys.argv", ["store", "transcript", str(root), chunk[0].cell_id])
    assert main() == 0
    printed = capsys.readouterr().out
    for request in before[0]:
        assert request is not None
        assert request.text() in printed
        assert all(answer in printed for answer in request.answers)
    monkeypatch.setattr("sys.argv", ["store", "transcript", str(root), "0" * 16])
    assert main() == 2
    assert "no cell" in capsys.readouterr().err


def test_bytes_a_cell_are_told() -> None:
    tally = TranscriptTally()
    assert tally.line(0) == ""
    for kept, size in ((2, 1500), (1, 600), (0, 0)):
        tally.count(Report("a", 5, usage=Usage(), kept=kept, transcripts=size))
    told = tally.line(123_456)
    assert all(part in told for part in ("3 cells", "2,100 bytes", "700 per cell", "123,456 bytes"))
