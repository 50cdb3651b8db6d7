"""The engine on SmolLM2 in float32: exact choices, samples, seeds, structured answers, counters, the prefix cache."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from omegaconf import OmegaConf

from grid.core.engine import ChoiceAnswer, Prompt, Section, ToolCallAnswer
from grid.core.types import NO_TOOL, Parameter, ToolSpec
from grid.engines.vllm.engine import VLLM
from grid.settings.make import make
from grid.text.answers import read_call
from tests.support.teacher_forcing import COUNTS, teacher_forced, varied_prompts
from tests.vllm.running import SERVING, Running, needs_vllm, running, text_prompt, unseeded

pytestmark = needs_vllm
YAML = Path(__file__).parents[2] / "conf" / "model" / "smollm2-135m-vllm.yaml"
PROMPTS = varied_prompts(2 * len(COUNTS), seed=3)
BLOCK = 32  # tokens that the prefix cache shares as a whole
ASK = 'Answer with one JSON object: {"thought": why, "tool": name or "no_tool", "arguments": {name: value}}.'
TOOLS = (
    ToolSpec("track_order", "Find where a parcel is.", (Parameter("order_id", "string", "the order's number"),)),
    ToolSpec("refund", "Pay money back.", (Parameter("amount", "number", "how much"), Parameter("to", "string", ""))),
)


@pytest.fixture(scope="module")
def smol() -> Iterator[Running]:
    config = cast(dict[str, Any], OmegaConf.to_container(OmegaConf.load(YAML)))
    changes = {"dtype": "float32", "max_tokens": 512, "serving": SERVING.model_dump()}
    with running(cast(VLLM, make("model", config | changes))) as started:
        yield started


@pytest.fixture(scope="module")
def expected(smol: Running) -> list[np.ndarray]:
    return teacher_forced(smol.engine.folder(), PROMPTS)


def variation(first: Any, second: Any) -> float:
    """Total variation distance of two distributions."""
    return float(np.abs(np.array(first) - np.array(second)).sum()) / 2


def options(prompt: Prompt) -> int:
    assert isinstance(prompt.answer, ChoiceAnswer)
    return len(prompt.answer.options)


def tool_call(*words: str) -> Prompt:
    sections = (Section("role", ("You call tools.",)), Section("request", words))
    return Prompt(sections, ToolCallAnswer(TOOLS, may_decline=True, thought=120))


def test_choices_equal_brute_force(smol: Running, expected: list[np.ndarray]) -> None:
    chosen = smol.together(*(smol.engine.choose(prompt, seed=0) for prompt in PROMPTS))
    for prompt, choice, forced in zip(PROMPTS, chosen, expected, strict=True):
        assert variation(choice.probabilities, forced) < 1e-3
        assert math.fsum(choice.probabilities) == pytest.approx(1)
        assert 0 < choice.unassigned < 1
        assert choice.usage.forward_passes <= 1 + min(options(prompt), 10)
    assert max(float(forced.max()) for forced in expected) > 0.5  # not all alike


def test_choices_are_exact_among_samples(smol: Running, expected: list[np.ndarray]) -> None:
    async def ask() -> tuple[list[Any], int]:
        calls = [
            smol.engine.sample(tool_call(f"Order {i}"), n=2, temperature=1.0, max_tokens=40, seed=i) for i in (1, 2)
        ]
        texts = [
            smol.engine.sample(text_prompt(f"Fox {i}"), n=3, temperature=1.0, max_tokens=30, seed=i) for i in (1, 2)
        ]
        samples = [asyncio.create_task(sample) for sample in (*calls, *texts)]
        chosen = []
        for start in range(0, len(PROMPTS), 3):  # some before, some between, some after the samples
            chosen += await asyncio.gather(*(smol.engine.choose(p, seed=0) for p in PROMPTS[start : start + 3]))
            samples.append(
                asyncio.create_task(
                    smol.engine.sample(text_prompt(f"{start}"), n=1, temperature=0.0, max_tokens=8, seed=0)
                )
            )
        return chosen, sum(len(sampled.completions) for sampled in await asyncio.gather(*samples))

    chosen, completions = smol.run(ask())
    assert completions == 2 * 2 + 2 * 3 + len(PROMPTS) // 3
    for choice, forced in zip(chosen, expected, strict=True):
        assert variation(choice.probabilities, forced) < 1e-3


def test_the_bound_on_what_is_left_out_holds(smol: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = [prompt for prompt in PROMPTS if options(prompt) == 100]
    bounded = smol.together(*(smol.engine.choose(prompt, seed=0) for prompt in prompts))
    monkeypatch.setattr(smol.engine, "mass_bound", 0.0)
    exact = smol.together(*(smol.engine.choose(prompt, seed=0) for prompt in prompts))
    for rough, fine in zip(bounded, exact, strict=True):
        assert fine.error_bound == 0
        assert fine.usage.forward_passes == 11  # the first digit, and behind each of 0 to 9
        assert rough.error_bound <= 1e-5
        assert variation(rough.probabilities, fine.probabilities) <= rough.error_bound + 1e-5


def test_a_level_of_a_choice_is_asked_at_once_and_reads_the_prompt_from_the_cache(
    smol: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, at_once, score = 0, list[int](), smol.engine._scores

    async def watched(*what: Any) -> Any:
        nonlocal asked
        asked += 1
        at_once.append(asked)
        try:
            return await score(*what)
        finally:
            asked -= 1

    monkeypatch.setattr(smol.engine, "_scores", watched)
    prompt = varied_prompts(len(COUNTS), seed=77)[-1]
    tokens = len(smol.engine.renderer(smol.engine.folder()).encode(prompt))
    usage = smol.run(smol.engine.choose(prompt, seed=0)).usage
    passes = usage.forward_passes
    assert passes > 5
    assert at_once == [1, *range(1, passes)]
    assert usage.input_tokens == tokens + (passes - 1) * (tokens + 1)
    assert usage.cached_input_tokens >= (passes - 1) * (tokens // BLOCK) * BLOCK


def test_samples_follow_their_schema(smol: Running) -> None:
    prompts = [tool_call(f"Where is my order {number}? " + ASK) for number in (17, 5)]
    sampled = smol.together(
        smol.engine.sample(prompts[0], n=3, temperature=1.0, max_tokens=400, seed=1),
        smol.engine.sample(prompts[1], n=1, temperature=0.0, max_tokens=400, seed=1),
    )
    named = {tool.name: {parameter.name for parameter in tool.parameters} for tool in TOOLS} | {NO_TOOL: set()}
    for text in (*sampled[0].completions, *sampled[1].completions):
        call = read_call(text)
        assert text.startswith('{"thought"')
        assert call.arguments.keys() <= named[call.tool]


@unseeded
def test_seeds_make_the_samples(smol: Running) -> None:
    def draw(n: int, seed: int, temperature: float = 1.0) -> Any:
        return smol.engine.sample(text_prompt("A fox and"), n=n, temperature=temperature, max_tokens=16, seed=seed)

    one, two, cold = (sampled.completions for sampled in smol.together(draw(4, 1), draw(4, 2), draw(2, 3, 0.0)))
    assert len({*one, *two}) == 8
    assert len(set(cold)) == 1
    assert smol.run(draw(2, 1)).completions == one[:2]
    assert smol.run(draw(1, 4, 0.0)).completions == cold[:1]


def test_usage_equals_what_vllm_counts(smol: Running) -> None:
    with smol.counting() as counted:
        answers = smol.together(
            smol.engine.sample(text_prompt("The rain. " * 20), n=3, temperature=1.0, max_tokens=12, seed=4),
            smol.engine.choose(varied_prompts(5, seed=8)[4], seed=0),
            smol.engine.sample(tool_call("The rain. " * 20), n=2, temperature=1.0, max_tokens=12, seed=4),
            smol.engine.choose(varied_prompts(6, seed=9)[5], seed=0),
        )
    usage = answers[0].usage + answers[1].usage + answers[2].usage + answers[3].usage
    assert usage.llm_calls == 5
    assert counted.prompt == usage.input_tokens
    assert counted.cached == usage.cached_input_tokens > 0
    assert counted.generated == usage.output_tokens + usage.forward_passes
    assert sum(counted.finished_in_step) == usage.llm_calls + usage.forward_passes


def test_the_second_request_reads_the_prompt_from_the_cache(smol: Running) -> None:
    prompt = text_prompt("Once there was a hedgehog that nobody had asked. " * 12)

    def ask() -> Any:
        return smol.run(smol.engine.sample(prompt, n=1, temperature=0.0, max_tokens=4, seed=0)).usage

    first, second = ask(), ask()
    assert first.cached_input_tokens == 0
    assert second.cached_input_tokens == (first.input_tokens - 1) // BLOCK * BLOCK > 0


def test_occupancy_is_what_vllm_has_in_hand(smol: Running) -> None:
    async def ask() -> list[tuple[int, int, float]]:
        engine = smol.engine
        long = engine.sample(text_prompt("A very long story."), n=3, temperature=1.0, max_tokens=60, seed=0)
        sampling = asyncio.create_task(long)
        choosing = asyncio.create_task(engine.choose(PROMPTS[0], seed=0))
        seen = []
        while not sampling.done():
            await asyncio.sleep(0.02)
            now = engine.occupancy()
            seen.append((now.running, now.waiting, now.kv_cache or 0.0))
        await choosing
        return seen

    seen = smol.run(ask())
    assert max(running for running, _, _ in seen) >= 3
    assert max(share for _, _, share in seen) > 0
    assert smol.engine.occupancy().running == 0
