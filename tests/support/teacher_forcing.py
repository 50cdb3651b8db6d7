"""Brute force for exact choices: every label of every option scored by itself with transformers' own forward pass.

Nothing of the engines' computing is used here, only how they render a prompt and what tokens a label has.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grid.core.engine import ChoiceAnswer, Prompt, Section
from grid.engines.language_model import Renderer
from tests.support.models import WORDS

COUNTS = (2, 9, 10, 11, 37, 100)
AT_ONCE = 10  # copies of a cache: few enough that they stay small


def varied_prompts(count: int = 200, seed: int = 0, options: Sequence[int] = COUNTS) -> list[Prompt]:
    """Choices among 2, 9, 10, 11, 37 and 100 options in turn, of some 50 to 600 tokens, no two alike."""
    rng = random.Random(seed)
    return [_prompt(options[index % len(options)], rng) for index in range(count)]


def _prompt(options: int, rng: random.Random) -> Prompt:
    names = tuple("_".join(rng.choices(WORDS, k=rng.randint(1, 2 if options < 50 else 1))) for _ in range(options))
    query = " ".join(rng.choices(WORDS, k=rng.randint(3, 120 if options < 50 else 40)))
    sections = (
        Section("role", ("You choose the tool that a request needs.",)),
        Section("tools", ("Tools:",), names),
        Section("request", (f"Request: {query} {rng.randint(0, 999)}.",)),
        Section("instruction", ("Answer with the number of one tool, and nothing else.",)),
    )
    return Prompt(sections, ChoiceAnswer(names))


def named_prompts(count: int, seed: int = 0, options: Sequence[int] = COUNTS) -> list[Prompt]:
    """The same by names of one to three words, of which many share a beginning and some begin another."""
    rng = random.Random(seed)
    found = []
    for index, prompt in enumerate(varied_prompts(count, seed, options)):
        words = rng.sample(WORDS, 12)
        names: dict[str, None] = {}
        while len(names) < options[index % len(options)]:
            names["_".join(rng.choices(words, k=rng.randint(1, 3)))] = None
        tools = Section("tools", ("Tools:",), tuple(names))
        ask = Section("instruction", ('Answer with one JSON object: {"tool": name, "arguments": {name: value}}.',))
        sections = (prompt.sections[0], tools, prompt.sections[2], ask)
        found.append(Prompt(sections, ChoiceAnswer(tuple(names), tuple(names))))
    return found


def teacher_forced_names(folder: Path, prompts: Sequence[Prompt], *, cached: bool = True) -> list[np.ndarray]:
    """Each prompt's distribution over its options' names, as `teacher_forced`.

    A name scores, for each of its labels, the product over its tokens of the token's share of all that go on a label.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    renderer = Renderer(AutoTokenizer.from_pretrained(folder))
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    found = []
    for prompt in prompts:
        assert isinstance(prompt.answer, ChoiceAnswer)
        labels = renderer.names(prompt.answer.names)
        fed = list(dict.fromkeys(label[:-1] for ways in labels for label in ways))
        following: dict[tuple[int, ...], set[int]] = {}
        for label in (label for ways in labels for label in ways):
            for depth, token in enumerate(label):
                following.setdefault(label[:depth], set()).add(token)
        with torch.inference_mode():
            rows = dict(zip(fed, (_continued if cached else _whole)(model, renderer.encode(prompt), fed), strict=True))
        scores = np.zeros(len(labels))
        for index, ways in enumerate(labels):
            for label in ways:
                logs = rows[label[:-1]]
                shares = [
                    float(logs[depth, token] - logs[depth, sorted(following[label[:depth]])].logsumexp(-1))
                    for depth, token in enumerate(label)
                ]
                scores[index] += np.exp(sum(shares))
        found.append(scores)
    return found


def teacher_forced(
    folder: Path,
    prompts: Sequence[Prompt],
    answer_prefix: str = "",
    *,
    cached: bool = True,
    form: str = "natural",
) -> list[np.ndarray]:
    """Each prompt's distribution over its options, float64, shape (options,), from float32 forward passes.

    An option scores the probability of its label's tokens; where it must end, times the probability that the next
    token does not begin with a digit: where the labels' `form` is `natural` a number of one digit, of more than 100
    options also of two; where it is `terminated` every number. `cached`: the prompt is computed once and the labels
    go on from its keys and values, copied for each; else every label is one whole sequence with nothing reused.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    renderer = Renderer(tokenizer, answer_prefix, padded=form == "padded")
    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    digits = [token for text, token in tokenizer.get_vocab().items() if text[0] in "0123456789"]
    found = []
    for prompt in prompts:
        assert isinstance(prompt.answer, ChoiceAnswer)
        labels = renderer.labels(len(prompt.answer.options))
        first = {"natural": 10 if len(labels) <= 100 else 100, "terminated": len(labels), "padded": 0}[form]
        ends = [number < first for number in range(len(labels))]
        fed = [label if end else label[:-1] for label, end in zip(labels, ends, strict=True)]
        with torch.inference_mode():
            behind = (_continued if cached else _whole)(model, renderer.encode(prompt), fed)
        scores = np.zeros(len(labels))
        for index, (label, end) in enumerate(zip(labels, ends, strict=True)):
            logs = behind[index]
            scores[index] = np.exp(sum(float(logs[place, token]) for place, token in enumerate(label)))
            if end:
                scores[index] *= 1.0 - float(logs[len(label), digits].exp().sum())
        found.append(scores / scores.sum())
    return found


def _whole(model: Any, prompt: list[int], fed: Sequence[tuple[int, ...]]) -> list[Any]:
    """Prompt and label as a sequence of their own, one forward pass for each label, no cache.

    Returns for each the log-probabilities behind the prompt and behind each token fed, float64 (1 + fed, vocabulary).
    """
    import torch

    rows = []
    for tokens in fed:
        logits = model(input_ids=torch.tensor([[*prompt, *tokens]]), use_cache=False).logits[0]
        rows.append(logits[len(prompt) - 1 :].double().log_softmax(-1))
    return rows


def _continued(model: Any, prompt: list[int], fed: Sequence[tuple[int, ...]]) -> list[Any]:
    """The same from the prompt computed once: labels of one length are a batch behind copies of its cache."""
    import torch

    first = model(input_ids=torch.tensor([prompt]), use_cache=True, logits_to_keep=1)
    rows = [first.logits[0, -1:].double().log_softmax(-1)] * len(fed)
    for length in {len(tokens) for tokens in fed} - {0}:
        places = [place for place, tokens in enumerate(fed) if len(tokens) == length]
        for start in range(0, len(places), AT_ONCE):
            part = places[start : start + AT_ONCE]
            cache = copy.deepcopy(first.past_key_values)
            cache.batch_repeat_interleave(len(part))
            logits = model(input_ids=torch.tensor([fed[place] for place in part]), past_key_values=cache).logits
            for place, row in zip(part, logits, strict=True):
                rows[place] = torch.cat([rows[place], row.double().log_softmax(-1)])
    return rows
