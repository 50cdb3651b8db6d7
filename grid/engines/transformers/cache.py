"""Keys and values that many short steps are appended to: a cache with spare room, and attention that copies nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, Cache
from transformers.cache_utils import DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

GROUPED = "grouped_sdpa"
_ROOM = 8, 64  # columns to spare: one for every so many that are filled, and so many more


class RoomyLayer(DynamicLayer):  # type: ignore[misc]  # untyped
    """A layer's keys and values in a buffer with columns to spare, where DynamicLayer copies all of them every step."""

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Begin with nothing, in the shape of what comes."""
        super().lazy_initialization(key_states, value_states)
        self._hold((key_states, value_states), 0)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append columns; returns all keys and all values, as views of the buffer."""
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
        """Keep these rows."""
        self._hold((self.keys[indices], self.values[indices]), self.keys.shape[2])

    def widen(self, rows: int, parts: Sequence[tuple[Sequence[int], DynamicLayer]], columns: int) -> None:
        """Hold the parts, each with rows of its own, zeros behind the shorter ones, and room for these columns."""
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
    """An empty cache of such layers, full attention's; a mask must hide what a sliding window would drop."""
    return Cache(layer_class_to_replicate=RoomyLayer)


def stack(rows: int, parts: Sequence[tuple[Sequence[int], Cache]]) -> Cache:
    """One cache of so many rows from parts that hold some each, which are emptied; zeros behind the shorter ones."""
    whole, parts = roomy_cache(), [(own, cache) for own, cache in parts if cache.layers]
    while parts and parts[0][1].layers:
        layers = [(own, cache.layers.pop(0)) for own, cache in parts]
        whole.layers.append(RoomyLayer())
        whole.layers[-1].widen(rows, layers, max(layer.keys.shape[2] for _, layer in layers))
    return whole


def group_heads(model: Any) -> None:
    """Have a model that uses torch's attention use `grouped_attention`; others keep their own (sinks, soft caps)."""
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
    """Attention of appended tokens: the heads that share keys become further queries to them.

    transformers repeats the keys and values of grouped heads wherever there is a mask, at every step and layer.
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
