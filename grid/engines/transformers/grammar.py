"""JSON schemas as grammars over one tokenizer's tokens (xgrammar), for samples that must be tool calls."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from grid.core.engine import JsonAnswer
from grid.core.errors import ConfigError
from grid.engines.answer_schema import SEPARATORS, answer_schema

if TYPE_CHECKING:
    import torch

_CACHE_BYTES = 256 * 1024**2


class Grammars:
    """Schemas of answers, each compiled once.

    The first takes most of a second (texts of bounded length over the whole vocabulary), later ones of 20 tools 0.04 s.

    Args:
        tokenizer: of transformers.
        vocabulary: columns of the model's logits; may exceed the tokenizer's size.
        ends: the tokens that end a completion.

    Raises:
        ConfigError: xgrammar is not installed.
    """

    def __init__(self, tokenizer: Any, vocabulary: int, ends: Collection[int]) -> None:
        if find_spec("xgrammar") is None:
            allowed = "false, or xgrammar installed: pip install 'agent-grid[huggingface]'"
            raise ConfigError("model.structured", True, allowed)
        import xgrammar

        info = xgrammar.TokenizerInfo.from_huggingface(
            tokenizer, vocab_size=vocabulary, stop_token_ids=sorted(ends) or None
        )
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_limit_bytes=_CACHE_BYTES)
        self._lock = threading.Lock()

    def matcher(self, answer: JsonAnswer) -> Callable[[], Any]:
        """What makes a fresh matcher for each completion; it terminates with the object's closing brace."""
        import xgrammar

        schema = json.dumps(answer_schema(answer))
        with self._lock:
            compiled = self._compiler.compile_json_schema(schema, any_whitespace=False, separators=SEPARATORS)
        return lambda: xgrammar.GrammarMatcher(compiled, terminate_without_stop_token=True)


def forbid(logits: torch.Tensor, matchers: Sequence[Any]) -> None:
    """Set to -inf, in place, what each row's matcher does not allow next; `logits` (rows, vocabulary), None is free."""
    import torch
    import xgrammar

    ruled = [row for row, matcher in enumerate(matchers) if matcher is not None]
    if not ruled:
        return
    bits = xgrammar.allocate_token_bitmask(len(ruled), logits.shape[1])
    for place, row in enumerate(ruled):
        matchers[row].fill_next_token_bitmask(bits, place)
    allowed = np.unpackbits(bits.numpy().view(np.uint8), axis=1, count=logits.shape[1], bitorder="little")
    logits[ruled] = logits[ruled].masked_fill(torch.from_numpy(allowed == 0).to(logits.device), -torch.inf)
