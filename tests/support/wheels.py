"""A small random model as a GGUF file inside a wheel, as a package registry may offer one."""

from __future__ import annotations

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

from grid.engines.wheels import Wheels

MEMBER = "tiny_model/tiny.gguf"
_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def make_gguf(model: Path, file: Path) -> None:
    """Write a folder that tests.support.models.make_model made as one GGUF file."""
    import gguf
    from transformers import AutoModelForCausalLM, AutoTokenizer

    llama: Any = AutoModelForCausalLM.from_pretrained(model)
    config, tokenizer = llama.config, AutoTokenizer.from_pretrained(model)
    writer = gguf.GGUFWriter(str(file), "llama")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_vocab_size(config.vocab_size)
    bpe = json.loads((model / "tokenizer.json").read_text())["model"]
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in tokenizer.all_special_tokens else 1 for token in tokens])
    writer.add_token_merges([" ".join(merge) for merge in bpe["merges"]])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_chat_template(tokenizer.chat_template)
    for name, tensor in llama.state_dict().items():
        writer.add_tensor(_gguf_name(name), _permuted(name, tensor.numpy(), config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_wheel(folder: Path, content: bytes, member: str = MEMBER, name: str = "tiny_model") -> str:
    """Write `<name>-0.1.0-py3-none-any.whl`, which needs a package that does not exist; returns its SHA-256."""
    file = folder / f"{name}-0.1.0-py3-none-any.whl"
    info = f"{name}-0.1.0.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\nRequires-Dist: no-such-one\n"
    kind = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(member, content)
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(f"{info}/WHEEL", kind)
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(file.read_bytes()).hexdigest()


def make_parts(folder: Path, content: bytes, parts: int) -> Wheels:
    """The file cut into so many wheels in the folder."""
    size = -(-len(content) // parts)
    digests = [
        make_wheel(folder, content[(part - 1) * size : part * size], f"parts/part{part:02}.bin", f"tiny_part{part}")
        for part in range(1, parts + 1)
    ]
    return Wheels(
        requirement="tiny-part{part}==0.1.0",
        member="parts/part{part:02}.bin",
        sha256=digests,
        joined=hashlib.sha256(content).hexdigest(),
    )


def _gguf_name(name: str) -> str:
    if name.startswith("model.layers."):
        _, _, layer, *rest = name.split(".")
        return f"blk.{layer}.{_NAMES['.'.join(rest[:-1])]}.weight"
    return {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }[name]


def _permuted(name: str, weights: Any, config: Any) -> Any:
    """Queries and keys in the order in which GGUF has the rotary pairs."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
    if heads is None:
        return weights
    halves = weights.reshape(heads, 2, weights.shape[0] // heads // 2, weights.shape[1])
    return halves.swapaxes(1, 2).reshape(weights.shape).copy()
