"""A causal language model of transformers, driven by hand: exact choices and samples of several prompts at once.

Both are trees (`forest.py`), so that neither the branches of a choice nor the completions of one prompt compute the
prompt twice or store it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from grid.core.errors import ConfigError, ModelError
from grid.engines.choice import ChoiceSearch, Prefix
from grid.engines.transformers.batches import Ongoing
from grid.engines.transformers.cache import group_heads
from grid.engines.transformers.forest import FULL, SLIDING, Forest, Node, attention_kinds, lineage
from grid.engines.transformers.grammar import forbid

NOT_NUMBERS = "the model's logits are not numbers (NaN)"


@dataclass(frozen=True)
class Drawing:
    """Completions wanted of one prompt: one for each seed, each of `max_tokens` at most.

    Each obeys a matcher of its own where `matcher` makes one (`grammar.py`), and ends where `finished` says so
    of its text, which is asked when a token that closes a brace has come.
    """

    tokens: Sequence[int]
    seeds: Sequence[int]
    temperature: float
    max_tokens: int
    matcher: Callable[[], Any] | None = None
    finished: Callable[[str], bool] | None = None


@dataclass
class _Branch:
    """One completion on its way."""

    row: int
    random: np.random.Generator
    matcher: Any
    drawn: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)


class TorchModel:
    """Model and tokenizer on one device.

    Raises:
        ConfigError: a model with another kind of attention than full and sliding, whose trees could not be masked.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        group_heads(model)
        self._model, self._tokenizer = model.eval(), tokenizer
        self.config = model.config.get_text_config()
        self.vocabulary: int = self.config.vocab_size
        ends = getattr(model.generation_config, "eos_token_id", None)
        found = {tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])}
        self.ends = frozenset(token for token in found if token is not None)
        others = attention_kinds(self.config) - {FULL, SLIDING}
        if others:
            raise ConfigError("model", model.config.name_or_path, f"full or sliding attention, not {min(others)}")

    def choose(
        self, prompts: Sequence[Sequence[int]], searches: Sequence[ChoiceSearch], batch: Ongoing | None = None
    ) -> list[list[Prefix] | ModelError]:
        """Run the searches to their ends, level by level; returns the nodes that each had computed behind its prompt.

        A search that cannot go on gets its error in place of them, and the others are not concerned. Raises
        AbandonedError where nobody waits for any of the batch.
        """
        forest = Forest(self._model, prompts, (batch or Ongoing()).step)
        grown: list[dict[Prefix, Node]] = [{} for _ in prompts]
        failed: dict[int, ModelError] = {}
        logits, wanted = forest.logits, {row: [row] for row in range(len(prompts))}  # rows to places in the logits
        while wanted:
            level: list[Node] = []
            following: dict[int, list[int]] = {}
            for row, places in wanted.items():
                search = searches[row]
                try:
                    search.feed(_logs(logits[places], search.tokens))
                except ValueError as error:
                    failed[row] = ModelError(str(error))
                    continue
                for prefix in search.wanted:
                    level += lineage(grown[row], row, prefix)
                    following.setdefault(row, []).append(len(level) - 1)
            wanted = following
            logits = forest.grow(level) if level else logits
        return [failed[row] if row in failed else list(nodes) for row, nodes in enumerate(grown)]

    def sample(self, drawings: Sequence[Drawing], batch: Ongoing | None = None) -> list[list[list[int]] | ModelError]:
        """Draw all completions together; returns for each drawing one list of tokens for each seed.

        An end token, where one was drawn, is the last of its list. A drawing whose logits are no numbers gets an
        error instead; one that nobody wants any more is left as it is. Raises AbandonedError where that is all.
        """
        batch = batch or Ongoing()
        forest = Forest(self._model, [drawing.tokens for drawing in drawings], batch.step)
        branches = [
            _Branch(row, np.random.default_rng(seed), drawing.matcher() if drawing.matcher else None)
            for row, drawing in enumerate(drawings)
            for seed in drawing.seeds
        ]
        live, broken = branches, set[int]()
        logits = forest.logits[[branch.row for branch in branches]]
        while live:
            tokens = _draw(logits, [drawings[branch.row].temperature for branch in live], live)
            broken |= {branch.row for branch, token in zip(live, tokens, strict=True) if token is None}
            for branch, token in zip(live, tokens, strict=True):
                branch.drawn.append(token or 0)
            unended = [b for b in live if b.row not in broken and not self._ended(b, drawings[b.row])]
            live = [branch for branch in unended if batch.wanted(branch.row)]
            nodes = [Node(branch.row, branch.drawn[-1], branch.columns) for branch in live]
            logits = forest.grow(nodes) if nodes else logits
        return [
            ModelError(NOT_NUMBERS) if row in broken else [b.drawn for b in branches if b.row == row]
            for row in range(len(drawings))
        ]

    def cut(self, drawn: Sequence[int], drawing: Drawing) -> bool:
        """Whether a completion came to the limit on tokens, and to no end token."""
        return len(drawn) >= drawing.max_tokens and drawn[-1] not in self.ends

    def text(self, drawn: Sequence[int]) -> str:
        """A completion as text, without its end token."""
        text: str = self._tokenizer.decode([token for token in drawn if token not in self.ends])
        return text

    def _ended(self, branch: _Branch, drawing: Drawing) -> bool:
        """Whether a completion ends with the token just drawn."""
        token = branch.drawn[-1]
        if branch.matcher is not None and token not in self.ends:
            branch.matcher.accept_token(token)
        if token in self.ends or len(branch.drawn) >= drawing.max_tokens:
            return True
        if branch.matcher is not None:
            return bool(branch.matcher.is_terminated())
        if drawing.finished is None or "}" not in self._tokenizer.decode([token]):
            return False
        return drawing.finished(self._tokenizer.decode(branch.drawn))


def _logs(logits: torch.Tensor, tokens: list[int]) -> np.ndarray:
    """Full-vocabulary log-probabilities of `tokens`, float64 (rows, tokens), of logits (rows, vocabulary)."""
    exact = logits.double()
    result: np.ndarray = (exact[:, tokens] - exact.logsumexp(dim=-1, keepdim=True)).cpu().numpy()
    return result


def _draw(logits: torch.Tensor, temperatures: list[float], branches: Sequence[_Branch]) -> list[int | None]:
    """A token for each branch of softmax(logits / temperature), the likeliest at temperature 0; None for no numbers.

    One random number of the branch's own decides, so that nothing depends on who else is in the batch.
    """
    scores = logits.double()
    forbid(scores, [branch.matcher for branch in branches])
    heat = torch.tensor(temperatures, dtype=torch.float64, device=scores.device)[:, None]
    likely = scores.argmax(dim=-1)
    mass = (scores / torch.where(heat > 0, heat, 1.0)).softmax(dim=-1).cumsum(dim=-1)
    drawn = torch.tensor([[branch.random.random()] for branch in branches], dtype=torch.float64, device=scores.device)
    found = torch.searchsorted(mass, drawn * mass[:, -1:], right=True)[:, 0]
    tokens = torch.where(heat[:, 0] > 0, found, likely)
    return [
        token if whole else None for token, whole in zip(tokens.tolist(), mass[:, -1].isfinite().tolist(), strict=True)
    ]
