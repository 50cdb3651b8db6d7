"""Trees of tokens behind prompts, in one key-value cache.

Prompts are computed once, padded behind, and every further token is a node appended to its prompt's row of the cache; a
mask lets it see the prompt and its own ancestors only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import Cache

from grid.engines.choice import Prefix
from grid.engines.transformers.cache import roomy_cache, stack

FULL, SLIDING = "full_attention", "sliding_attention"
_TOKENS_AT_ONCE = 2048  # of prompts: more is no faster, slower on a CPU, and takes memory


@dataclass
class Node:
    """One token behind a prompt: the prompt's row, and its ancestors' columns in the cache (its own comes to them).

    A `parent` may be of the same level, in front of it: its columns come when it is grown.
    """

    row: int
    token: int
    columns: list[int]
    parent: Node | None = None


class Forest:
    """A batch of prompts, each the root of a tree of continuations; `logits` (rows, vocabulary) stand behind them.

    `step` is called before every forward pass.
    """

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]], step: Callable[[], None]) -> None:
        self._model, self._step = model, step
        self._rows = list(range(len(prompts)))
        self._lengths = [len(prompt) - 1 for prompt in prompts]  # the last tokens are the trees' roots
        self._longest = max(self._lengths)
        self._positions = np.full((len(prompts), self._longest), -1)  # of every column of the cache; -1 is padding
        for row, length in enumerate(self._lengths):
            self._positions[row, :length] = range(length)
        self._cache = stack(
            len(prompts), [(rows, self._computed([prompts[row] for row in rows])) for rows in self._shares()]
        )
        self.logits = self.grow([Node(row, prompt[-1], []) for row, prompt in enumerate(prompts)])
        self._longest, self._lengths = self._longest + 1, list(map(len, prompts))

    def grow(self, nodes: Sequence[Node]) -> torch.Tensor:
        """Append a level of nodes; returns the logits behind each (nodes, vocabulary).

        Their ancestors were grown before or stand in front of them.
        A row that gets no node is dropped: it can get none any more.
        """
        self._keep(sorted({node.row for node in nodes}))
        row_of = {row: index for index, row in enumerate(self._rows)}
        filled: Counter[int] = Counter()
        places = [(row_of[node.row], filled.update([node.row]) or filled[node.row] - 1) for node in nodes]
        before, width = self._positions.shape[1], max(filled.values())
        ids = np.zeros((len(self._rows), width), dtype=np.int64)
        positions = np.zeros_like(ids)
        seen = np.zeros((len(self._rows), width, before + width), dtype=bool)
        seen[:, :, : self._longest] = self._positions[:, None, : self._longest] >= 0
        seen[:, :, before:] = np.eye(width, dtype=bool)
        for node, (row, place) in zip(nodes, places, strict=True):
            if node.parent:
                node.columns = [*node.parent.columns]
            ids[row, place] = node.token
            positions[row, place] = self._lengths[node.row] + len(node.columns)
            seen[row, place, node.columns] = True
            node.columns.append(before + place)
        self._positions = np.concatenate([self._positions, positions], axis=1)
        logits = self._forward(self._cache, ids, positions, self._mask(seen, positions))
        return logits[[row for row, _ in places], [place for _, place in places]]

    def _shares(self) -> list[list[int]]:
        """The rows in shares of similar length, none with more tokens than is computed at once (or a single row)."""
        shares: list[list[int]] = []
        for row in sorted(self._rows, key=lambda row: -self._lengths[row]):
            longest = self._lengths[shares[-1][0]] if shares else 0
            if shares and longest * (len(shares[-1]) + 1) <= _TOKENS_AT_ONCE:
                shares[-1].append(row)
            else:
                shares.append([row])
        return shares

    def _computed(self, prompts: Sequence[Sequence[int]]) -> Cache:
        """The keys and values of all tokens but the last, padded behind."""
        longest = max(map(len, prompts)) - 1
        cache = roomy_cache()
        if longest:  # what a token sees stands before it, so that padding behind needs no mask
            ids = np.array([[*prompt[:-1], *[0] * (longest + 1 - len(prompt))] for prompt in prompts])
            self._forward(cache, ids, np.tile(np.arange(longest), (len(prompts), 1)), None, logits_to_keep=1)
        return cache

    def _keep(self, rows: list[int]) -> None:
        if rows != self._rows:
            kept = [self._rows.index(row) for row in rows]
            self._cache.batch_select_indices(torch.tensor(kept, device=self._model.device))
            self._positions, self._rows = self._positions[kept], rows

    def _mask(self, seen: np.ndarray, positions: np.ndarray) -> Any:
        """The additive mask of each kind of attention in the model; `seen` is (rows, queries, columns).

        None where every row is one unpadded chain, for which transformers takes faster ways.
        """
        if seen.all():
            return None
        config = self._model.config.get_text_config()
        masks = {}
        for kind in attention_kinds(config):
            near = seen
            if kind == SLIDING:
                near = seen & (positions[:, :, None] - self._positions[:, None, :] < config.sliding_window)
            hidden = torch.from_numpy(~near[:, None]).to(self._model.device)
            mask = torch.zeros(hidden.shape, dtype=self._model.dtype, device=self._model.device)
            masks[kind] = mask.masked_fill_(hidden, torch.finfo(self._model.dtype).min)
        return masks if len(masks) > 1 else next(iter(masks.values()))

    def _forward(self, cache: Cache, ids: np.ndarray, positions: np.ndarray, mask: Any, **options: int) -> torch.Tensor:
        self._step()
        with torch.inference_mode():
            output = self._model(
                input_ids=torch.from_numpy(ids).to(self._model.device),
                position_ids=torch.from_numpy(positions).to(self._model.device),
                attention_mask=mask,
                past_key_values=cache,
                use_cache=True,
                **options,
            )
        logits: torch.Tensor = output.logits
        return logits


def lineage(grown: dict[Prefix, Node], row: int, prefix: Prefix) -> list[Node]:
    """The nodes that a prefix lacks in its prompt's tree, its own last; they are added to those `grown`."""
    fresh: list[Node] = []
    for depth in range(1, len(prefix) + 1):
        if prefix[:depth] not in grown:
            node = Node(row, prefix[depth - 1], [], grown.get(prefix[: depth - 1]))
            grown[prefix[:depth]] = node
            fresh.append(node)
    return fresh


def attention_kinds(config: Any) -> set[str]:
    """The kinds of attention that the layers of a model with this text config have."""
    kinds = getattr(config, "layer_types", None)
    return set(kinds) if kinds else {SLIDING if getattr(config, "sliding_window", None) else FULL}
