"""Trees of continuations against transformers' own forward pass and generation, on small random models."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grid.core.errors import ConfigError, ModelError
from grid.engines.choice import NumberSearch
from grid.engines.transformers.engine import Ongoing
from tests.support.extras import needs
from tests.support.models import make_model, make_tokenizer, save

pytestmark = needs("torch", "transformers")

PROMPTS = [[5, 9, 301, 44, 17], [400, 3], list(range(100, 131)), [222] * 12, [7]]
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 64,
    "initializer_range": 0.15,
    "sliding_window": 6,
}


def weights(folder: Path) -> Any:
    import torch
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def tokenizer_of(folder: Path) -> Any:
    import transformers

    return transformers.AutoTokenizer.from_pretrained(folder)


def architecture(folder: Path, name: str) -> Path:
    """A random model of four layers whose attention is full, or in a window of six tokens, or both in turn."""
    import torch
    import transformers

    size = make_tokenizer(folder)
    if name == "full":
        return make_model(folder)
    if name == "sliding":
        config = transformers.MistralConfig(vocab_size=size, **SIZES)
    else:
        kinds = ["full_attention", "sliding_attention"] * 2
        config = transformers.Qwen2Config(vocab_size=size, use_sliding_window=True, layer_types=kinds, **SIZES)
    torch.manual_seed(1)
    save(transformers.AutoModelForCausalLM.from_config(config), folder)
    return folder


@pytest.fixture(scope="module", params=["full", "sliding", "both"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return architecture(tmp_path_factory.mktemp("model"), request.param)


def behind(model: Any, tokens: Sequence[int]) -> Any:
    """The logits behind a sequence of its own, nothing cached."""
    import torch

    with torch.inference_mode():
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1]


def close(left: Any, right: Any) -> bool:
    import torch

    return bool(torch.allclose(left, right, rtol=0, atol=5e-4))


@pytest.mark.long
@pytest.mark.parametrize("at_once", [2048, 20, 1])
def test_a_tree_sees_its_prompt_and_its_ancestors_and_no_more(
    folder: Path, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from grid.engines.transformers.model import Forest, Node, group_heads

    monkeypatch.setattr("grid.engines.transformers.model._TOKENS_AT_ONCE", at_once)
    model = weights(folder)
    group_heads(model)
    forest = Forest(model, PROMPTS, Ongoing().step)
    for prompt, logits in zip(PROMPTS, forest.logits, strict=True):
        assert close(logits, behind(model, prompt))
    first = [Node(0, 7, []), Node(0, 8, []), Node(1, 7, []), Node(2, 450, []), Node(3, 30, []), Node(3, 31, [])]
    for node, logits in zip(first, forest.grow(first), strict=True):
        assert close(logits, behind(model, [*PROMPTS[node.row], node.token]))
    # Rows 1, 2 and 4 have come to their ends.
    second = [Node(0, 99, first[1].columns.copy()), Node(3, 98, first[4].columns.copy()), Node(3, 98, first[5].columns)]
    front = [[8], [30], [31]]
    for node, before, logits in zip(second, front, forest.grow(second), strict=True):
        assert close(logits, behind(model, [*PROMPTS[node.row], *before, node.token]))
    third = [Node(3, 3, second[1].columns), Node(3, 3, second[2].columns)]
    for before, logits in zip([[30, 98], [31, 98]], forest.grow(third), strict=True):
        assert close(logits, behind(model, [*PROMPTS[3], *before, 3]))


@pytest.mark.long
def test_greedy_completions_are_those_of_transformers(folder: Path) -> None:
    import torch

    from grid.engines.transformers.model import Drawing, TorchModel

    model, tokenizer = weights(folder), tokenizer_of(folder)
    drawn = TorchModel(model, tokenizer).sample([Drawing(prompt, [0, 1], 0.0, 24) for prompt in PROMPTS])
    for prompt, found in zip(PROMPTS, drawn, strict=True):
        expected = model.generate(
            torch.tensor([prompt]), max_new_tokens=24, do_sample=False, eos_token_id=tokenizer.eos_token_id
        )[0, len(prompt) :].tolist()
        assert found == [expected, expected]
        assert TorchModel(model, tokenizer).sample([Drawing(prompt, [0], 0.0, 24)]) == [[expected]], "a chain alone"


@pytest.mark.long
def test_every_token_is_drawn_from_the_models_own_distribution(folder: Path) -> None:
    from grid.engines.transformers.model import Drawing, TorchModel

    model, tokenizer = weights(folder), tokenizer_of(folder)
    drawings = [Drawing(prompt, [10 * row, 10 * row + 1, 10 * row + 2], 0.7, 12) for row, prompt in enumerate(PROMPTS)]
    for drawing, found in zip(drawings, TorchModel(model, tokenizer).sample(drawings), strict=True):
        assert not isinstance(found, ModelError)
        assert len({tuple(tokens) for tokens in found}) == 3
        for seed, tokens in zip(drawing.seeds, found, strict=True):
            random, front = np.random.default_rng(seed), list(drawing.tokens)
            for token in tokens:
                mass = (behind(model, front).double() / 0.7).softmax(-1).cumsum(-1)
                below = (
                    mass[token - 1] if token else 0.0
                )  # where it lies is known as exactly as the machine computes logits
                assert below - 1e-5 <= random.random() * mass[-1] <= mass[token] + 1e-5
                front.append(token)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("model"))


def test_samples_follow_the_probabilities(small: Path) -> None:
    from grid.engines.transformers.model import Drawing, TorchModel

    model, tokenizer = weights(small), tokenizer_of(small)
    (found,) = TorchModel(model, tokenizer).sample([Drawing(PROMPTS[0], range(4000), 1.5, 1)])
    assert not isinstance(found, ModelError)
    counts = np.bincount([tokens[0] for tokens in found], minlength=model.config.vocab_size) / 4000
    expected = (behind(model, PROMPTS[0]).double() / 1.5).softmax(-1).numpy()
    likely = expected > 0.01
    assert likely.sum() >= 5
    assert np.abs(counts - expected)[likely].max() < 4 * np.sqrt(expected.max() / 4000)


def test_a_completion_ends_with_its_end_token_its_length_or_its_text(small: Path) -> None:
    import torch

    from grid.engines.transformers.model import Drawing, TorchModel

    model, tokenizer = weights(small), tokenizer_of(small)
    torch_model = TorchModel(model, tokenizer)
    brace = tokenizer.convert_tokens_to_ids("}")
    with torch.no_grad():  # tokens that end something often enough
        model.lm_head.weight[[tokenizer.eos_token_id, brace]] *= 4.0
    drawings = [Drawing(prompt, range(20), 1.0, 40, None, lambda text: "}" in text) for prompt in PROMPTS]
    free = [Drawing(prompt, range(20), 1.0, 40) for prompt in PROMPTS]
    reasons = set()
    for row in torch_model.sample([*drawings, *free]):
        assert not isinstance(row, ModelError)
        for tokens in row:
            assert tokenizer.eos_token_id not in tokens[:-1]
            reasons.add("end" if tokens[-1] == tokenizer.eos_token_id else "text" if tokens[-1] == brace else "length")
            assert tokens[-1] in (brace, tokenizer.eos_token_id) or len(tokens) == 40
            assert not torch_model.text(tokens).endswith("<|im_end|>")
    assert reasons == {"end", "text", "length"}
    for row in torch_model.sample(drawings):
        assert not isinstance(row, ModelError)
        assert all(brace not in tokens[:-1] for tokens in row)


def test_logits_that_are_no_numbers_fail_their_own_request_only(small: Path) -> None:
    import torch

    from grid.engines.transformers.model import Drawing, TorchModel

    model, tokenizer = weights(small), tokenizer_of(small)
    with torch.no_grad():
        model.get_input_embeddings().weight[44] = float("nan")
    torch_model = TorchModel(model, tokenizer)
    labels = [(16,), (17,), (17, 18)]
    found = torch_model.choose(PROMPTS, [NumberSearch(labels, [16, 17, 18], ends=[(17,)]) for _ in PROMPTS])
    assert isinstance(found[0], ModelError)
    assert found[1:] == [[(17,)]] * (len(PROMPTS) - 1)
    drawn = torch_model.sample([Drawing(prompt, [1], 1.0, 3) for prompt in PROMPTS])
    assert isinstance(drawn[0], ModelError)
    assert drawn[1:] == torch_model.sample([Drawing(prompt, [1], 1.0, 3) for prompt in PROMPTS[1:]])


def test_attention_that_no_tree_could_be_masked_for_is_refused(small: Path) -> None:
    from grid.engines.transformers.model import TorchModel

    model = weights(small)
    model.config.layer_types = ["full_attention", "chunked_attention"]
    with pytest.raises(ConfigError, match="chunked_attention"):
        TorchModel(model, tokenizer_of(small))
