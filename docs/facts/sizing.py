"""What fits on a GPU, calculated from each model's published config and each card's data sheet, and not measured."""

from __future__ import annotations

from typing import NamedTuple

from docs.facts.markdown import code, table

_GIB = 2**30
_SHARE = 0.9  # model.serving.gpu_memory_utilization
_BF16 = 2  # bytes
_REQUEST = 32_768  # tokens; model.context
_POWERS = (1, 2, 4, 8)  # GPUs per replica: they share the KV heads, of which there are eight here


class Sized(NamedTuple):
    """A model: parameters in total and parameters used per token, in billions; weights in bytes; keys and values."""

    name: str
    parameters: float
    active: float
    weights: float
    layers: int
    kv_heads: int
    head: int

    @property
    def per_token(self) -> int:
        """Bytes of keys and values per token: 2 x layers x KV heads x head dimension x 2 bytes."""
        return 2 * self.layers * self.kv_heads * self.head * _BF16


class Card(NamedTuple):
    """A GPU: memory in GiB, bandwidth in bytes per second, dense bf16 operations per second."""

    name: str
    memory: float
    bandwidth: float
    operations: float


def _dense(name: str, parameters: float, layers: int, kv_heads: int, head: int) -> Sized:
    return Sized(name, parameters, parameters, parameters * 1e9 * _BF16, layers, kv_heads, head)


MODELS = (
    _dense("qwen2.5-coder-1.5b", 1.54, 28, 2, 128),
    _dense("qwen3-4b-instruct", 4.02, 36, 8, 128),
    _dense("qwen2.5-7b-instruct", 7.62, 28, 4, 128),
    _dense("llama-3.1-8b-instruct", 8.03, 32, 8, 128),
    Sized("gpt-oss-120b", 116.8, 5.1, 65e9, 36, 8, 64),
)
LARGE = (  # from the hub; no file in conf/model has them
    _dense("Llama-3.1/3.3-70B, bf16", 70.6, 80, 8, 128),
    Sized("Llama-3.1/3.3-70B, fp8", 70.6, 70.6, 70.6e9, 80, 8, 128),
)
CARDS = (
    Card("L4, 24 GB", 24, 300e9, 121e12),
    Card("L40S, 48 GB", 48, 864e9, 362e12),
    Card("A100 SXM, 80 GB", 80, 2039e9, 312e12),
    Card("H100 SXM, 80 GB", 80, 3350e9, 989e12),
    Card("H200 SXM, 141 GB", 141, 4800e9, 989e12),
)


def render(what: str) -> str:
    """One of four tables: `models`, `room`, `gpus` or `speed`."""
    return {"models": _models, "room": _room, "gpus": _gpus, "speed": _speed}[what]()


def _called(model: Sized) -> str:
    return model.name if model in LARGE else code(model.name)


def _models() -> str:
    rows = [
        (_called(model), f"{model.parameters:g}", f"{model.weights / _GIB:.1f} GiB",
         f"2 × {model.layers} × {model.kv_heads} × {model.head} × {_BF16}", f"{model.per_token / 1024:.0f} KiB",
         f"{_REQUEST * model.per_token / _GIB:.1f} GiB")
        for model in (*MODELS, *LARGE)
    ]  # fmt: skip
    head = ["`model=`", "10⁹ parameters", "weights", "bytes of keys and values", "per token", "per 32,768 tokens"]
    return table(head, rows)


def _room() -> str:
    """Tokens whose keys and values fit beside the weights on one card."""
    rows = [(code(model.name), *(_tokens(model, card) for card in CARDS)) for model in MODELS]
    return table(["`model=`", *(card.name for card in CARDS)], rows)


def _tokens(model: Sized, card: Card) -> str:
    left = _left(model, card, 1)
    return f"{left / 1000:,.0f} thousand" if left > 0 else "weights do not fit"


def _left(model: Sized, card: Card, gpus: int) -> float:
    """Tokens whose keys and values fit on this many GPUs beside the weights; below 0 if the weights do not fit."""
    return (gpus * card.memory * _GIB * _SHARE - model.weights) / model.per_token


def _gpus() -> str:
    """The minimum number of GPUs, a power of two, for the weights and the longest request; then all tokens that fit."""
    rows = []
    for model in (*(one for one in MODELS if any(not _fits(one, card) for card in CARDS)), *LARGE):
        fewest = [next(n for n in _POWERS if _left(model, card, n) >= _REQUEST) for card in CARDS]
        tokens = [_left(model, card, n) / 1000 for card, n in zip(CARDS, fewest, strict=True)]
        rows.append((_called(model), *(f"{n}; {left:,.0f} thousand" for n, left in zip(fewest, tokens, strict=True))))
    return table(["model", *(card.name for card in CARDS)], rows)


def _speed() -> str:
    """The maximum that a card's data sheet allows: tokens per second for one sequence, and for prompts."""
    rows = []
    for model in MODELS:
        read = model.weights * model.active / model.parameters
        cells = [
            f"{card.bandwidth / read:,.0f}; {card.operations / (2 * model.active * 1e9) / 1000:,.0f} thousand"
            if _fits(model, card) else "–"
            for card in CARDS
        ]  # fmt: skip
        rows.append((code(model.name), *cells))
    return table(["`model=`", *(card.name for card in CARDS)], rows)


def _fits(model: Sized, card: Card) -> bool:
    return card.memory * _GIB * _SHARE > model.weights
