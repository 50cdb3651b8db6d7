"""What sampling under a schema costs a CPU beside the GPU: compiling a grammar, and the mask of each token.

vLLM computes the masks of all running requests between two steps, one after another up to 128 requests. So at 120
requests a step takes 120 masks longer than its forward pass, whatever the GPU.
"""

from __future__ import annotations

import json
import time
from statistics import mean
from typing import TYPE_CHECKING, Any, cast

from grid.core.engine import ToolCallAnswer
from grid.datasets.slate.dataset import Slate
from grid.engines.answer_schema import answer_schema
from grid.engines.language_model import LanguageModel
from grid.engines.vllm.engine import _grammar
from grid.settings.build import build_engine

if TYPE_CHECKING:
    from launch.benchmarks.gpu import Bench

_THOUGHT = "I look for the order first, and then ask where its parcel is. The customer gave the order's number."
_TOOLS = 10


def masks(bench: Bench) -> None:
    """Milliseconds for calls with a thought of at most 400 characters, of any length, and without a thought."""
    import xgrammar
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(cast(LanguageModel, build_engine(bench.model)).folder())
    tools = list(Slate().tools.values())
    for form in ("at most 400 characters", "of any length", "none"):
        compiler = xgrammar.GrammarCompiler(xgrammar.TokenizerInfo.from_huggingface(tokenizer))
        compiled, filled = [], list[float]()
        for first in (0, _TOOLS, 2 * _TOOLS):
            answer = ToolCallAnswer(tuple(tools[first : first + _TOOLS]), True, 0 if form == "none" else 400)
            schema = answer_schema(answer)
            if form == "of any length":
                schema["properties"]["thought"] = {"type": "string"}
            began = time.perf_counter()
            grammar = compiler.compile_grammar(_grammar(json.dumps(schema)))
            compiled.append(time.perf_counter() - began)
            thought = "" if form == "none" else f'"thought": "{_THOUGHT}", '
            filled += _filled(grammar, tokenizer.encode(f'{{{thought}"action": {{"tool": "', add_special_tokens=False))
        bench.figures.add(
            "masks",
            thought=form,
            first_grammar_ms=1000 * compiled[0],
            further_grammars_ms=1000 * mean(compiled[1:]),
            mask_ms_per_token=1000 * mean(filled),
            vocabulary=len(tokenizer),
        )


def _filled(grammar: Any, tokens: list[int]) -> list[float]:
    """Seconds of each token's mask."""
    import xgrammar

    matcher = xgrammar.GrammarMatcher(grammar)
    mask, found = xgrammar.allocate_token_bitmask(1, grammar.tokenizer_info.vocab_size), []
    for token in tokens:
        began = time.perf_counter()
        matcher.fill_next_token_bitmask(mask)
        found.append(time.perf_counter() - began)
        if not matcher.accept_token(token):
            raise RuntimeError("the measured text does not fit its own schema")
    return found
