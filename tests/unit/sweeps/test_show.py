"""`python -m grid.show`: prompts as the engine gets them."""

from __future__ import annotations

import asyncio
import re

import pytest

from grid import show
from grid.core.engine import Prompt, Sampled
from grid.core.types import Usage
from grid.engines.lexical.engine import Lexical
from grid.worlds.lookup import Entry


def test_every_request_is_printed_as_the_engine_gets_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Prompt] = []
    answered: list[str] = []
    sample = Lexical.sample

    async def listening(self: Lexical, prompt: Prompt, **how: object) -> Sampled:
        found = await sample(self, prompt, **how)  # type: ignore[arg-type]
        asked.append(prompt)
        answered.extend(found.completions)
        return found

    monkeypatch.setattr(Lexical, "sample", listening)
    assert show.main(["slate", "0", "--planner", "react", "dataset.outline=drafted", "retriever.top_k=3"]) == 0
    printed = capsys.readouterr().out
    assert len(asked) > 2
    for prompt in asked:
        assert prompt.text() in printed
    for answer in answered:
        assert f"→ {answer}" in printed
    assert re.search(r"steps, (not )?resolved, answer:", printed)


def test_only_the_first_requests_are_printed_where_asked(capsys: pytest.CaptureFixture[str]) -> None:
    values = ["planner.trajectories=1", "dataset.limit=null"]
    assert show.main(["slate", "slate-0001", "--planner", "egb_logits", "--first", "2", *values]) == 0
    printed = capsys.readouterr().out
    assert printed.count("request ") >= 2
    assert "more requests" in printed


def test_a_case_that_fails_shows_what_it_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def mumbling(self: Lexical, prompt: Prompt, **how: object) -> Sampled:
        await asyncio.sleep(0)
        return Sampled(("well,",), Usage(llm_calls=1))

    monkeypatch.setattr(Lexical, "sample", mumbling)
    assert show.main(["slate", "0", "--planner", "sh", "planner.max_retries=1"]) == 1
    printed = capsys.readouterr().out
    assert printed.count("(unreadable: no JSON object with a tool)") == 2
    assert "failed: step 1.1" in printed


def test_what_the_evaluator_is_asked_is_printed_behind_the_rest(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Entry, "may_be_judged", lambda self, name, value: isinstance(value, str))
    values = ["dataset.equivalence=judge", "--evaluator", "lexical", "--model", "simulated", "model.argument_skill=0.0"]
    assert show.main(["slate", "0", *values]) == 0
    asked = re.findall(r"request \d+: (\w+), ", capsys.readouterr().out)
    assert asked == sorted(asked)
    assert set(asked) == {"actor", "evaluator"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["slate", "0", "dataset.equivalence=judge"], "model@evaluator=NAME"),
        (["slate", "0", "--evaluator", "nosuch"], "model@evaluator='nosuch': one of"),
        (
            ["slate", "0", "dataset.equivalence=judge", "--evaluator", "simulated"],
            "conf/model/simulated.yaml cannot answer this",
        ),
        (["slates", "0"], "dataset='slates': one of"),
        (["slate", "1000"], "case='1000'"),
        (["slate", "0", "--planner", "best"], "planner='best': one of"),
        (["slate", "0", "--planner", "raect"], "(did you mean react?)"),
        (["slate", "0", "planner=[react]"], "or one of its files, planner=NAME"),
        (["slate", "0", "planner=best"], "planner='best': one of"),
        (["slate", "0", "planer.samples=3"], "planer="),
        (["slate", "0", "planner.sampels=3"], "planner.sampels=3: no such key"),
        (["kqa_synthetic", "0", "dataset.outline=given"], "has no outline of its own"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert show.main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert told in printed.err


def test_files_are_named_as_in_a_sweep_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert show.main(["slate", "0", "planner=zero_shot", "robustness=unsolvable", "--first", "1"]) == 0
    named = capsys.readouterr().out
    assert show.main(["slate", "0", "--planner", "zero_shot", "--robustness", "unsolvable", "--first", "1"]) == 0
    assert named == capsys.readouterr().out
