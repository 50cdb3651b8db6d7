"""Small language models with random weights, with tokenizers of their own, for tests of the engines.

Their weights are wide enough that attention is sharp and answers are far from uniform, so that a wrong position, mask
or token shows. They speak no language: whoever needs one takes SmolLM2.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

_TEXT = (
    "account address agent amount answer archive balance bank bill book call cancel card change charge check city "
    "claim close code confirm contact coupon create credit customer date delay delete deliver detail device email "
    "fee file find flight fraud gift goal hotel inform invoice issue item late limit list loan lock login look "
    "meeting message money month name notify number offer open option order pack parcel password pay person phone "
    "plan points policy price product profile question quote rate reason refund region report request reset return "
    "review room route sale schedule search seat send service ship stock store street subscribe support tax ticket "
    "time tool track transfer travel update user verify visit voucher wallet warranty week year zone"
)
WORDS = _TEXT.split()
PAIRS = tuple(str(number) for number in (*range(10, 60), *range(100, 130)))
"""Numbers that a tokenizer with tokens of several digits knows: 60 to 99 it writes with two tokens, and 7 begins 70."""

CONTROL = ("<|im_start|>", "<|im_end|>")
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_tokenizer(folder: Path, numbers: Sequence[str] = (), template: bool = True, most: int = 2000) -> int:
    """Save a byte-level BPE tokenizer with a token per digit and one for each of `numbers`; returns its size.

    It has `most` tokens at most; with 256, one a byte, there is one way only to write a text.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\d{1,3}"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=most, min_frequency=2, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    corpus = [" ".join(WORDS), " " + " ".join(WORDS), *(f"x\n{number}" for number in numbers)]
    tokenizer.train_from_iterator(corpus * 4, trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in CONTROL])
    begin, end = CONTROL
    saved = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=begin, eos_token=end)
    if template:
        saved.chat_template = _TEMPLATE
    saved.save_pretrained(folder)
    return len(saved)


def make_model(
    folder: Path,
    numbers: Sequence[str] = (),
    *,
    seed: int = 0,
    context: int = 8192,
    template: bool = True,
    most: int = 2000,
) -> Path:
    """Save a Llama of two layers and its tokenizer to `folder`, the same bytes for the same arguments; returns it."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    size = make_tokenizer(folder, numbers, template, most)
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=64,
        max_position_embeddings=context,
        initializer_range=0.15,
        tie_word_embeddings=False,
        bos_token_id=size - 2,
        eos_token_id=size - 1,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    save(model, folder)
    return folder


def save(model: object, folder: Path) -> None:
    """Save weights whose answers are numbers more often than by chance, so that numbers that go on are common too."""
    import torch
    from transformers import AutoTokenizer, PreTrainedModel

    assert isinstance(model, PreTrainedModel)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    digits = [token for text, token in tokenizer.get_vocab().items() if text[0].isdigit()]
    head = model.get_output_embeddings()
    assert head is not None
    with torch.no_grad():
        head.weight[digits] *= 2.0
    model.save_pretrained(folder)
