"""The engine `huggingface` on small random models: token counts, batches, structured answers, bad input."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from grid.core.engine import CHOOSE, SAMPLE, ChoiceAnswer, Prompt, Section, TextAnswer, ToolCallAnswer
from grid.core.errors import ConfigError, ContextError, EngineError, ModelError
from grid.core.types import NO_TOOL, Parameter, ToolSpec, Usage
from grid.engines.hosted import Occupancy
from grid.engines.transformers.engine import HuggingFace
from grid.text.answers import read_call
from grid.text.objects import UnreadableError, whole
from tests.support.extras import needs
from tests.support.models import PAIRS, make_model

pytestmark = needs("torch", "transformers")

TOOLS = (
    ToolSpec("refund_order", "", (Parameter("order", "string", ""), Parameter("reason", "string", ""))),
    ToolSpec("track_parcel", "", (Parameter("code", "string", ""),)),
)
TEXT = Prompt((Section("role", ("You agree.",)), Section("request", ("Request: book the flight",))), TextAnswer())
LONGER = Prompt((Section("request", ("Request: book the hotel room and send the ticket to my phone",)),), TextAnswer())
CALL = Prompt((Section("request", ("Request: refund it",)),), ToolCallAnswer(TOOLS, may_decline=True, thought=40))


def choice(options: int, words: str = "Request: pay the bill") -> Prompt:
    names = tuple(f"tool {index}" for index in range(options))
    return Prompt((Section("tools", (), names), Section("request", (words,))), ChoiceAnswer(names))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


def engine(folder: Path, **config: Any) -> HuggingFace:
    return HuggingFace(path=str(folder), dtype="float32", **config)


def together(*asked: Coroutine[Any, Any, Any]) -> list[Any]:
    async def gather() -> list[Any]:
        return await asyncio.gather(*asked, return_exceptions=True)

    return asyncio.run(gather())


def size(folder: Path, prompt: Prompt) -> int:
    own = engine(folder)
    return len(own.renderer(folder).encode(prompt))


def test_it_says_what_it_is_and_loads_nothing_until_asked(folder: Path) -> None:
    made = engine(folder / "absent")
    assert (made.name, made.home, made.gpus) == ("huggingface", "replica", 0)
    assert made.provides == {SAMPLE, CHOOSE}
    assert made.version.startswith("transformers-")
    assert made.occupancy() == Occupancy(0, 0)
    asyncio.run(made.check())
    assert HuggingFace(path="x", device="cuda").gpus == 1


def test_a_choice_counts_every_pass_and_computes_its_prompt_once(folder: Path) -> None:
    prompt = choice(100)
    length = size(folder, prompt)
    (found,) = together(engine(folder, mass_bound=0.0).choose(prompt, seed=0))
    assert found.usage == Usage(
        forward_passes=11, input_tokens=length + 10 * (length + 1), cached_input_tokens=10 * length
    )
    prompt = choice(10)
    (found,) = together(engine(folder, labels="padded").choose(prompt, seed=0))
    assert found.usage == Usage(forward_passes=1, input_tokens=size(folder, prompt))


def test_a_choice_counts_passes_behind_tokens_of_several_digits(tmp_path: Path) -> None:
    folder = make_model(tmp_path, PAIRS)
    prompt = choice(100)
    length = size(folder, prompt)
    (found,) = together(engine(folder, mass_bound=0.0).choose(prompt, seed=0))
    # 10 to 59 are single tokens: only 6 to 9 lead on, but 0 to 9 must end.
    assert found.usage == Usage(
        forward_passes=11, input_tokens=length + 10 * (length + 1), cached_input_tokens=10 * length
    )
    (found,) = together(engine(folder, mass_bound=0.0, printed_form=True).choose(prompt, seed=0))
    assert found.usage == Usage(
        forward_passes=5, input_tokens=length + 4 * (length + 1), cached_input_tokens=4 * length
    )


def test_samples_count_their_prompt_each_and_compute_it_once(folder: Path) -> None:
    length = size(folder, TEXT)
    (found,) = together(engine(folder).sample(TEXT, n=4, temperature=1.0, max_tokens=9, seed=1))
    assert len(found.completions) == 4
    assert found.usage.output_tokens <= 36
    assert found.usage == Usage(
        llm_calls=4,
        input_tokens=4 * length,
        cached_input_tokens=3 * length,
        output_tokens=found.usage.output_tokens,
        cut_answers=len(found.cut),
    )
    (short,) = together(engine(folder, max_tokens=2).sample(TEXT, n=1, temperature=1.0, max_tokens=9, seed=1))
    assert short.usage.output_tokens == 2, "no more than the engine's own limit"


def test_a_completion_depends_on_its_own_seed_and_on_nothing_else(folder: Path) -> None:
    asked: dict[str, Any] = {"n": 3, "temperature": 1.0, "max_tokens": 12}
    made = engine(folder)
    one, other, same, longer = together(
        made.sample(TEXT, **asked, seed=1),
        made.sample(TEXT, **asked, seed=2),
        made.sample(TEXT, **asked, seed=1),
        made.sample(LONGER, **asked, seed=1),
    )
    assert one.completions == same.completions
    assert len({*one.completions, *other.completions}) == 6
    (alone,) = together(engine(folder, serving={"max_batch": 1}).sample(LONGER, **asked, seed=1))
    assert alone.completions == longer.completions
    (fewer,) = together(engine(folder).sample(TEXT, **asked | {"n": 2}, seed=1))
    assert fewer.completions == one.completions[:2]
    (greedy,) = together(made.sample(TEXT, **asked | {"temperature": 0.0}, seed=1))
    assert len(set(greedy.completions)) == 1


@pytest.mark.long
def test_tool_calls_are_sampled_under_their_schema_and_texts_are_not(folder: Path) -> None:
    pytest.importorskip("xgrammar")
    made = engine(folder)
    called, text = together(
        made.sample(CALL, n=20, temperature=1.0, max_tokens=600, seed=3),
        made.sample(TEXT, n=5, temperature=1.0, max_tokens=40, seed=3),
    )
    arguments = {tool.name: {parameter.name for parameter in tool.parameters} for tool in TOOLS} | {NO_TOOL: set()}
    tools, whole = set(), 0
    for completion in called.completions:
        begun = re.match(r'\{"thought": "[^"]*", "action": \{"tool": "(\w+)", "arguments": \{', completion)
        assert begun
        tools.add(begun[1])
        if not completion.endswith("}"):  # this model seldom ends a text, and `max_tokens` does
            continue
        whole += 1
        answer = json.loads(completion)
        assert list(answer) == ["thought", "action"]
        action = answer["action"]
        assert action["arguments"].keys() <= arguments[action["tool"]]
        call = read_call(completion)
        assert [call.tool, call.arguments, call.thought] == [action["tool"], action["arguments"], answer["thought"]]
    assert whole > 3
    assert tools == arguments.keys()
    assert not any(completion.startswith("{") for completion in text.completions)
    (free,) = together(engine(folder, structured=False).sample(CALL, n=5, temperature=1.0, max_tokens=40, seed=3))
    for completion in free.completions:
        with pytest.raises(UnreadableError):
            read_call(completion)


def test_a_choice_is_never_under_a_grammar(folder: Path) -> None:
    one, other = together(*(engine(folder, structured=flag).choose(choice(11), seed=0) for flag in (True, False)))
    assert one == other
    assert one.unassigned > 0.01


@pytest.mark.parametrize(
    ("text", "noticed"),
    [
        ('{"tool": "a", "arguments": {}}', True),
        ('Well: {"tool": "a"}\n', False),
        ('```{"tool": "a"}```', True),
        ("{'tool': 'a', 'arguments': {},}", True),
        ('Not {this}: {"tool": "a"}', False),
        ('{"tool": "a"} and words', True),
        ('[{"tool": "a"}]', True),
        ('<tool_call>\n{"tool": "a"}', True),
        ('{"tool": "a"} {"tool": ', False),
        ('<think>{"tool": "a"}', False),
        ('<think>{"tool": "a"}</think>{"tool": "b"}', True),
        ('{"tool": "a", "arguments": {"b": 1}', False),
        ('{"tool": "}', False),
        ("no object }", False),
        ("{" * 100_000, False),
    ],
)
def test_a_whole_object_is_noticed(text: str, noticed: bool) -> None:
    assert whole(text) == noticed


def test_a_prompt_that_does_not_fit_is_a_context_error(folder: Path) -> None:
    length = size(folder, TEXT)
    fits, long = together(
        engine(folder, context=length + 5).sample(TEXT, n=1, temperature=1.0, max_tokens=5, seed=0),
        engine(folder, context=length + 4).sample(TEXT, n=1, temperature=1.0, max_tokens=5, seed=0),
    )
    assert len(fits.completions) == 1
    assert isinstance(long, ContextError)
    assert f"{length} prompt tokens" in str(long)
    length = size(folder, choice(100))
    fits, long = together(*(engine(folder, context=length + room).choose(choice(100), seed=0) for room in (2, 1)))
    assert sum(fits.probabilities) == pytest.approx(1)
    assert isinstance(long, ContextError)


def test_the_models_own_context_is_the_most(tmp_path: Path) -> None:
    folder = make_model(tmp_path, context=64)
    (found,) = together(engine(folder).choose(choice(37), seed=0))
    assert isinstance(found, ContextError)
    assert "exceed the context of 64" in str(found)
    with pytest.raises(ConfigError, match=r"model.context=100: at most 64"):
        asyncio.run(engine(folder, context=100).load())


def test_numbers_that_are_none_fail_their_own_request_only(folder: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    broken = shutil.copytree(folder, tmp_path / "broken")
    model = AutoModelForCausalLM.from_pretrained(folder)
    (token,) = engine(folder).renderer(folder).tokenizer(" zone")["input_ids"]
    with torch.no_grad():
        model.get_input_embeddings().weight[token] = float("nan")
    model.save_pretrained(broken)
    made = engine(broken)
    one, other, drawn, nothing = together(
        made.choose(choice(11), seed=0),
        made.choose(choice(11, "Request: the zone"), seed=0),
        made.sample(TEXT, n=2, temperature=1.0, max_tokens=3, seed=0),
        made.sample(choice(2, "Request: the zone"), n=2, temperature=1.0, max_tokens=3, seed=0),
    )
    assert sum(one.probabilities) == pytest.approx(1)
    assert isinstance(other, ModelError)
    assert len(drawn.completions) == 2
    assert isinstance(nothing, ModelError)
    assert "NaN" in str(other)
    assert "NaN" in str(nothing)


def test_a_batch_that_breaks_is_tried_one_by_one(folder: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder)
    rows = torch.nn.Parameter(model.get_input_embeddings().weight[:-2].clone())  # no room for the control tokens
    broken = shutil.copytree(folder, tmp_path / "broken")
    model.get_input_embeddings().weight = rows
    model.config.vocab_size -= 2
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight[:-2].clone())
    model.save_pretrained(broken)
    found = together(*(engine(broken).choose(choice(2), seed=0) for _ in range(3)))
    assert [type(error) for error in found] == [EngineError] * 3
    assert "IndexError" in str(found[0])


def test_models_that_cannot_be_loaded_say_what_is_missing(folder: Path, tmp_path: Path) -> None:
    import torch

    def message(**changes: Any) -> str:
        with pytest.raises(ConfigError) as caught:
            asyncio.run(engine(**{"folder": tmp_path / "model"} | changes).load())
        return str(caught.value)

    assert "config.json is missing" in message()
    model = shutil.copytree(folder, tmp_path / "model")
    (model / "model.safetensors").unlink()
    assert "a folder with a model that transformers loads" in message()
    (model / "chat_template.jinja").unlink()
    assert "whose tokenizer has a chat template" in message()
    (model / "tokenizer.json").write_text("{}")
    assert "a folder with a tokenizer" in message()
    (model / "tokenizer_config.json").unlink()
    assert "tokenizer_config.json is missing" in message()
    if not torch.cuda.is_available():
        assert message(folder=folder, device="cuda") == (
            f"model.device='cuda': cpu, because torch {torch.__version__} finds no CUDA device"
        )


def test_without_its_libraries_it_says_how_to_install_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ConfigError, match=r"pip install 'agent-grid\[huggingface\]'"):
        asyncio.run(engine(folder).load())
