"""Runs a causal language model from transformers step by step: exact choices and samples for several prompts at once.

Choices and samples are computed as trees (`Forest`), so that a prompt is computed and stored only once for all branches
of a choice, or for several completions.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, Cache
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from grid.core.engine import JsonAnswer
from grid.core.errors import ConfigError, ModelError
from grid.engines.answer_schema import SEPARATORS, answer_schema
from grid.engines.choice import ChoiceSearch, Prefix
from grid.engines.transformers.engine import Ongoing

NOT_NUMBERS = "the model's logits are not numbers (NaN)"


@dataclass(frozen=True)
class Drawing:
    """The completions to draw for one prompt: one for each seed, each with at most `max_tokens`.

    If `matcher` is given, it creates a matcher for each completion, which restricts the completion (`Grammars`). If
    `finished` is given, it is called with the text after each token that has a closing brace, and the completion ends
    when it returns true.
    """

    tokens: Sequence[int]
    seeds: Sequence[int]
    temperature: float
    max_tokens: int
    matcher: Callable[[], Any] | None = None
    finished: Callable[[str], bool] | None = None


@dataclass
class _Branch:
    """A completion that is being drawn."""

    row: int
    random: np.random.Generator
    matcher: Any
    drawn: list[int] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)


class TorchModel:
    """A model and its tokenizer on one device.

    Raises:
        ConfigError: the model has attention that is neither full nor sliding, for which trees cannot be masked.
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
            raise ConfigError(
                "model", model.config.name_or_path, f"a model with full or sliding attention, not {min(others)}"
            )

    def choose(
        self, prompts: Sequence[Sequence[int]], searches: Sequence[ChoiceSearch], batch: Ongoing | None = None
    ) -> list[list[Prefix] | ModelError]:
        """Complete the searches, level by level; returns, for each search, the nodes computed after the prompt.

        If a search fails, its error is returned instead of nodes, and the other searches continue. Raises
        AbandonedError if all requests of the batch were cancelled.
        """
        forest = Forest(self._model, prompts, (batch or Ongoing()).step)
        grown: list[dict[Prefix, Node]] = [{} for _ in prompts]
        failed: dict[int, ModelError] = {}
        logits, wanted = forest.logits, {row: [row] for row in range(len(prompts))}  # rows to indices in the logits
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
        """Draw all completions together; returns, for each drawing, a list of tokens for each seed.

        If an end token was drawn, it is the last token of its list. If a drawing's logits are not numbers, an error is
        returned for that drawing instead. If a drawing's request was cancelled, it gets no further tokens. Raises
        AbandonedError if all requests were cancelled.
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
        """Whether a completion reached the token limit without an end token."""
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
    """Full-vocabulary log-probabilities of `tokens`, float64 (rows, tokens), from logits (rows, vocabulary)."""
    exact = logits.double()
    result: np.ndarray = (exact[:, tokens] - exact.logsumexp(dim=-1, keepdim=True)).cpu().numpy()
    return result


def _draw(logits: torch.Tensor, temperatures: list[float], branches: Sequence[_Branch]) -> list[int | None]:
    """A token for each branch, drawn from softmax(logits / temperature); at temperature 0, the most probable token.

    The token is None if the logits are not numbers. Each branch uses one random number from its own generator, so its
    token does not depend on the rest of the batch.
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


# Trees of tokens after prompts, in one key-value cache.
#
# Prompts are computed once, padded at the end. Every further token is a node, appended to its prompt's row of the
# cache; a mask lets the node see only the prompt and its own ancestors.


FULL, SLIDING = "full_attention", "sliding_attention"
_TOKENS_AT_ONCE = 2048  # prompt tokens: more would not be faster, would be slower on a CPU, and would use more memory


@dataclass
class Node:
    """One token after a prompt, with the prompt's row and the cache columns of the token's ancestors.

    Once the node is computed, `columns` also has the node's own column.

    A `parent` may be a node of the same level that precedes this node; then this node gets the parent's columns when
    the level is computed.
    """

    row: int
    token: int
    columns: list[int]
    parent: Node | None = None


class Forest:
    """A batch of prompts, each of which is the root of a tree of continuations.

    `logits`, shape (rows, vocabulary), are the logits after the prompts.

    `step` is called before every forward pass.
    """

    def __init__(self, model: Any, prompts: Sequence[Sequence[int]], step: Callable[[], None]) -> None:
        self._model, self._step = model, step
        self._rows = list(range(len(prompts)))
        self._lengths = [len(prompt) - 1 for prompt in prompts]  # a prompt's last token is the root of its tree
        self._longest = max(self._lengths)
        self._positions = np.full((len(prompts), self._longest), -1)  # for every column of the cache; -1 is padding
        for row, length in enumerate(self._lengths):
            self._positions[row, :length] = range(length)
        self._cache = stack(
            len(prompts), [(rows, self._computed([prompts[row] for row in rows])) for rows in self._shares()]
        )
        self.logits = self.grow([Node(row, prompt[-1], []) for row, prompt in enumerate(prompts)])
        self._longest, self._lengths = self._longest + 1, list(map(len, prompts))

    def grow(self, nodes: Sequence[Node]) -> torch.Tensor:
        """Append a level of nodes; returns the logits after each node, shape (nodes, vocabulary).

        A node's ancestors must have been appended earlier or must precede the node in `nodes`. A row that gets no node
        is dropped, and cannot get nodes later.
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
        """The rows in groups of similar length; a group of several rows has at most _TOKENS_AT_ONCE tokens."""
        shares: list[list[int]] = []
        for row in sorted(self._rows, key=lambda row: -self._lengths[row]):
            longest = self._lengths[shares[-1][0]] if shares else 0
            if shares and longest * (len(shares[-1]) + 1) <= _TOKENS_AT_ONCE:
                shares[-1].append(row)
            else:
                shares.append([row])
        return shares

    def _computed(self, prompts: Sequence[Sequence[int]]) -> Cache:
        """The keys and values of all tokens of each prompt except its last token, padded at the end."""
        longest = max(map(len, prompts)) - 1
        cache = roomy_cache()
        if longest:  # a token sees only earlier tokens, so padding at the end needs no mask
            ids = np.array([[*prompt[:-1], *[0] * (longest + 1 - len(prompt))] for prompt in prompts])
            self._forward(cache, ids, np.tile(np.arange(longest), (len(prompts), 1)), None, logits_to_keep=1)
        return cache

    def _keep(self, rows: list[int]) -> None:
        if rows != self._rows:
            kept = [self._rows.index(row) for row in rows]
            self._cache.batch_select_indices(torch.tensor(kept, device=self._model.device))
            self._positions, self._rows = self._positions[kept], rows

    def _mask(self, seen: np.ndarray, positions: np.ndarray) -> Any:
        """The additive mask for each kind of attention in the model; `seen` has the shape (rows, queries, columns).

        None if every row is one unpadded chain, because transformers computes chains faster without a mask.
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
    """Add the missing nodes of a prefix to `grown`, the tree of its prompt; return them, the prefix's own node last."""
    fresh: list[Node] = []
    for depth in range(1, len(prefix) + 1):
        if prefix[:depth] not in grown:
            node = Node(row, prefix[depth - 1], [], grown.get(prefix[: depth - 1]))
            grown[prefix[:depth]] = node
            fresh.append(node)
    return fresh


def attention_kinds(config: Any) -> set[str]:
    """The kinds of attention in the layers of a model with this text config."""
    kinds = getattr(config, "layer_types", None)
    return set(kinds) if kinds else {SLIDING if getattr(config, "sliding_window", None) else FULL}


# For appending many short steps to keys and values: a cache with spare columns, and attention that copies nothing.


GROUPED = "grouped_sdpa"
_ROOM = 8, 64  # spare columns: one for every 8 filled columns, and 64 more


class RoomyLayer(DynamicLayer):  # type: ignore[misc]  # untyped
    """A buffer with spare columns for a layer's keys and values; DynamicLayer would copy them all at every step."""

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Take these states as the buffer, with no column filled."""
        super().lazy_initialization(key_states, value_states)
        self._hold((key_states, value_states), 0)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append columns; returns all keys and all values so far, as views of the buffer."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        before = self.keys.shape[2]
        filled = before + key_states.shape[2]
        if filled > self._buffers[0].shape[2]:
            self.widen(len(key_states), [(range(len(key_states)), self)], filled)
        self._hold(self._buffers, filled)
        if before:
            self.keys[:, :, before:], self.values[:, :, before:] = key_states, value_states
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep the rows with these indices."""
        self._hold((self.keys[indices], self.values[indices]), self.keys.shape[2])

    def widen(self, rows: int, parts: Sequence[tuple[Sequence[int], DynamicLayer]], columns: int) -> None:
        """Copy the parts into a buffer with room for `columns` columns; shorter parts are padded with zeros.

        Each part is given with the indices of its rows in the buffer.
        """
        share, more = _ROOM
        buffers = []
        for name in ("keys", "values"):
            _, heads, _, size = getattr(parts[0][1], name).shape
            shape = rows, heads, columns + columns // share + more, size
            buffers.append(getattr(parts[0][1], name).new_zeros(shape))
            for own, layer in parts:
                held = getattr(layer, name)
                buffers[-1][list(own), :, : held.shape[2]] = held
        if not self.is_initialized:
            self.lazy_initialization(*buffers)
        self._hold(buffers, max(layer.keys.shape[2] for _, layer in parts))

    def _hold(self, buffers: Sequence[torch.Tensor], filled: int) -> None:
        self._buffers = buffers
        self.keys, self.values = (buffer[:, :, :filled] for buffer in buffers)


def roomy_cache() -> Cache:
    """An empty cache of `RoomyLayer`s, which keep all columns; a mask must hide columns outside a sliding window."""
    return Cache(layer_class_to_replicate=RoomyLayer)


def stack(rows: int, parts: Sequence[tuple[Sequence[int], Cache]]) -> Cache:
    """Join caches, each with some of the rows, into one cache with all rows.

    The parts are emptied, and shorter rows are padded with zeros.
    """
    whole, parts = roomy_cache(), [(own, cache) for own, cache in parts if cache.layers]
    while parts and parts[0][1].layers:
        layers = [(own, cache.layers.pop(0)) for own, cache in parts]
        whole.layers.append(RoomyLayer())
        whole.layers[-1].widen(rows, layers, max(layer.keys.shape[2] for _, layer in layers))
    return whole


def group_heads(model: Any) -> None:
    """Set `grouped_attention` in a model with torch's attention; other attention (sinks, soft caps) stays."""
    if model.config._attn_implementation == "sdpa":
        AttentionInterface.register(GROUPED, grouped_attention)
        AttentionMaskInterface.register(GROUPED, sdpa_mask)
        model.set_attn_implementation(GROUPED)


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    position_bias: torch.Tensor | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """Attention of appended tokens; heads that share keys are computed as additional queries to these keys.

    With a mask, transformers would instead copy the keys and values of grouped heads at every step and layer.
    """
    groups = query.shape[1] // key.shape[1]
    if groups == 1 or attention_mask is None or position_bias is not None or query.shape[2] == key.shape[2]:
        result: tuple[torch.Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, position_bias=position_bias, **others
        )
        return result
    rows, heads, width, size = query.shape
    folded = query.reshape(rows, heads // groups, groups * width, size)
    mask = attention_mask.repeat(1, 1, groups, 1)
    answer = scaled_dot_product_attention(folded, key, value, attn_mask=mask, scale=scaling)
    return answer.reshape(rows, heads, width, size).transpose(1, 2).contiguous(), None


# JSON schemas compiled to grammars over one tokenizer's tokens (xgrammar), for samples that must be tool calls.


_CACHE_BYTES = 256 * 1024**2


class Grammars:
    """Grammars for the schemas of answers; each schema is compiled once.

    Compiling the first schema takes most of a second, since texts of bounded length are compiled over the whole
    vocabulary; a later schema with 20 tools takes 0.04 s.

    Args:
        tokenizer: a tokenizer from transformers.
        vocabulary: the number of columns in the model's logits, which may exceed the tokenizer's size.
        ends: the tokens that end a completion.

    Raises:
        ConfigError: xgrammar is not installed.
    """

    def __init__(self, tokenizer: Any, vocabulary: int, ends: Collection[int]) -> None:
        if find_spec("xgrammar") is None:
            allowed = "false, or install xgrammar: pip install 'agent-grid[huggingface]'"
            raise ConfigError("model.structured", True, allowed)
        import xgrammar

        info = xgrammar.TokenizerInfo.from_huggingface(
            tokenizer, vocab_size=vocabulary, stop_token_ids=sorted(ends) or None
        )
        self._compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_limit_bytes=_CACHE_BYTES)
        self._lock = threading.Lock()

    def matcher(self, answer: JsonAnswer) -> Callable[[], Any]:
        """A function that creates a new matcher for a completion; matchers terminate at the object's closing brace."""
        import xgrammar

        schema = json.dumps(answer_schema(answer))
        with self._lock:
            compiled = self._compiler.compile_json_schema(schema, any_whitespace=False, separators=SEPARATORS)
        return lambda: xgrammar.GrammarMatcher(compiled, terminate_without_stop_token=True)


def forbid(logits: torch.Tensor, matchers: Sequence[Any]) -> None:
    """Set `logits` (rows, vocabulary) in place to -inf for tokens that a row's matcher forbids.

    A matcher that is None allows all tokens.
    """
    import xgrammar

    ruled = [row for row, matcher in enumerate(matchers) if matcher is not None]
    if not ruled:
        return
    bits = xgrammar.allocate_token_bitmask(len(ruled), logits.shape[1])
    for place, row in enumerate(ruled):
        matchers[row].fill_next_token_bitmask(bits, place)
    allowed = np.unpackbits(bits.numpy().view(np.uint8), axis=1, count=logits.shape[1], bitorder="little")
    logits[ruled] = logits[ruled].masked_fill(torch.from_numpy(allowed == 0).to(logits.device), -torch.inf)
