"""Dense and hybrid retrieval: exact cosines, embeddings kept by content, caches and models that cannot be trusted."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grid.core.errors import ConfigError, DataError
from grid.core.types import Case, Parameter, Plan, Substep, ToolSpec
from grid.engines.wheels import Hub
from grid.retrievers.scored import BM25, Dense, Embedder, EmbeddingModel, Hybrid, document, fused, read, write
from grid.retrievers.sources import Wheel, check_modules, fingerprint, model_folder
from grid.robustness.schema_matching import Embeddings

KNOWN = "book a hotel room flight weather city tell reserve pack documents call off number one two"
WORDS = KNOWN.split()
CASE = Case("c", "tell one number", Plan(()))
TOOLS = {
    f"{first}_{second}": ToolSpec(f"{first}_{second}", f"{first} a {second}", (Parameter("x", "string", third),))
    for first, second, third in zip(WORDS, WORDS[1:], WORDS[2:], strict=False)
}


@pytest.fixture(autouse=True, scope="module")
def package() -> None:
    """Imported where these tests run, not in every process that collects them: it takes seconds."""
    pytest.importorskip("sentence_transformers")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "agent-grid" / "embeddings"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT of random weights with mean pooling."""
    return tiny(tmp_path_factory.mktemp("model"), 0)


def tiny(target: Path, seed: int) -> Path:
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from transformers import BertConfig, BertModel, BertTokenizerFast

    torch.manual_seed(seed)
    plain = target / "plain"
    plain.mkdir(parents=True)
    (plain / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "_", *WORDS]))
    BertTokenizerFast(str(plain / "vocab.txt")).save_pretrained(plain)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=6 + len(WORDS), **sizes)).save_pretrained(plain)
    words = Transformer(str(plain), max_seq_length=64)
    pooling = Pooling(words.get_embedding_dimension())
    SentenceTransformer(modules=[words, pooling], device="cpu").save(str(target / "model"))
    return target / "model"


def by_hand(folder: Path, texts: Sequence[str]) -> np.ndarray:
    """Mean pooling and length 1, by transformers alone."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    rows = []
    for text in texts:
        given = tokenizer(text, return_tensors="pt", truncation=True, max_length=64)
        with torch.no_grad():
            row = model.eval()(**given).last_hidden_state[0].mean(0)
        rows.append((row / row.norm()).numpy())
    return np.array(rows)


def found(index: Any, text: str) -> list[str]:
    return [tool.name for tool in index.retrieve(Case("c", "", Plan(())), Substep("1", text, ""))]


def test_the_order_is_that_of_all_cosines_by_hand(folder: Path) -> None:
    index = Dense(path=str(folder), top_k=5).index(TOOLS)
    library = by_hand(folder, [document(tool) for tool in TOOLS.values()])
    for text in ("reserve a room", "the weather of a city", "call"):
        cosines = library @ by_hand(folder, [text])[0]
        order = [list(TOOLS)[place] for place in np.argsort(-cosines, kind="stable")]
        assert [tool.name for tool in index.nearest(text)] == order
        assert found(index, text) == order[:5]
        few = index.of(order[3:9])
        assert found(few, text) == order[3:8], "a pool's tools stand in the same order"
    assert len(found(Dense(path=str(folder), top_k=999).index(TOOLS), "call")) == len(TOOLS)


def test_goal_query_and_prefix_count(folder: Path) -> None:
    index = Dense(path=str(folder), top_k=3, goal_weight=0.5, query_weight=0.25).index(TOOLS)
    library = by_hand(folder, [document(tool) for tool in TOOLS.values()])
    asked = library @ (by_hand(folder, ["call", "pack", CASE.query]) * [[1], [0.5], [0.25]]).sum(0)
    first = list(TOOLS)[int(np.argmax(asked))]
    assert index.retrieve(CASE, Substep("1", "call", "pack"))[0].name == first
    prefixed = Dense(path=str(folder), query_prefix="tell a ").index(TOOLS)
    assert found(prefixed, "flight") == found(Dense(path=str(folder)).index(TOOLS), "tell a flight")


def test_hybrid_fuses_the_ranks_of_both_in_the_pool(folder: Path) -> None:
    text, some = "reserve a room and tell a number", list(TOOLS)[2:12]
    scores = []
    for index in (BM25().index(TOOLS), Dense(path=str(folder)).index(TOOLS)):
        order = [tool.name for tool in index.of(some).nearest(text)]
        scores.append(np.array([-order.index(name) for name in some], dtype=np.float32))
    expected = [some[place] for place in np.argsort(-fused(scores), kind="stable")]
    assert [tool.name for tool in Hybrid(path=str(folder)).index(TOOLS).of(some).nearest(text)] == expected


def test_a_library_is_embedded_once_by_all_processes(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["one room", "two rooms", "one room"]
    first = Embedder(folder).library(texts)
    assert first.shape == (3, 16)
    assert np.array_equal(first[0], first[2])
    assert len([file for file in cache.iterdir() if file.suffix != ".lock"]) == 1

    def fail(self: Embedder, texts: Sequence[str]) -> np.ndarray:
        raise AssertionError("embedded again")

    monkeypatch.setattr(Embedder, "texts", fail)
    assert np.array_equal(Embedder(folder).library(texts), first)
    with pytest.raises(AssertionError, match="embedded again"):
        Embedder(folder).library(["three rooms"])


def test_embeddings_of_another_model_are_never_used(folder: Path, cache: Path, tmp_path: Path) -> None:
    other, texts = tiny(tmp_path, 1), ["call off a flight"]
    assert fingerprint(other) != fingerprint(folder)
    first = Embedder(folder).library(texts)
    (kept,) = [file for file in cache.iterdir() if file.suffix != ".lock"]
    second = Embedder(other).library(texts)
    assert not np.allclose(first, second)
    (made,) = [file for file in cache.iterdir() if file.suffix != ".lock" and file != kept]
    made.write_bytes(kept.read_bytes())  # under the other's name
    assert np.array_equal(Embedder(other).library(texts), second)


def test_forgiving_tools_never_compare_by_embeddings_of_another_model(folder: Path, tmp_path: Path) -> None:
    other, names = tiny(tmp_path, 1), ("book a room", "flight_weather", "tellNumber")
    spaced = ["book a room", "flight weather", "tell Number"]
    found = []
    for model in (folder, other, folder):
        near = Embeddings(EmbeddingModel(path=str(model)), "robustness.tools_forgiving").scores("one room", names)
        wanted = Embedder(model).texts(spaced) @ Embedder(model).texts(["one room"])[0]
        assert near == pytest.approx(wanted, abs=1e-5)
        found.append(near)
    assert np.array_equal(found[0], found[2])
    assert not np.allclose(found[0], found[1])


@pytest.mark.parametrize(
    "damage",
    [
        lambda whole: whole[:-7],
        lambda whole: whole[:30],
        lambda whole: whole[:-1] + bytes([whole[-1] ^ 1]),
        lambda whole: b"",
        lambda whole: b'{"key": 1, "shape": [9e999, {}]}\n',
        lambda whole: b"[" * 5_000,
    ],
)
def test_a_damaged_file_is_embedded_anew(folder: Path, cache: Path, damage: Callable[[bytes], bytes]) -> None:
    first = Embedder(folder).library(["one", "two"])
    (file,) = [file for file in cache.iterdir() if file.suffix != ".lock"]
    file.write_bytes(damage(file.read_bytes()))
    assert np.array_equal(Embedder(folder).library(["one", "two"]), first)
    assert read(file, file.name, 2) is not None


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    write(tmp_path / "a", "key", rows)
    got = read(tmp_path / "a", "key", 5)
    assert got is not None
    assert np.array_equal(got, rows)
    assert read(tmp_path / "a", "key", 4) is None
    assert read(tmp_path / "a", "other", 5) is None


def test_a_model_that_names_classes_of_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "modules.json").write_text(json.dumps([{"path": "", "type": "os.system"}]))
    with pytest.raises(DataError, match=r"os\.system"):
        check_modules(tmp_path)


def test_a_model_that_cannot_be_had_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigError, match=r"retriever\.path"):
        Dense(path=str(tmp_path / "absent")).index(TOOLS)
    with pytest.raises(ConfigError, match=r"retriever\.hub"):
        Dense().index(TOOLS)
    other = Wheel(holds="someone/else", requirement="wheel==1", folder="model", sha256="0" * 64)
    with pytest.raises(ConfigError, match=r"retriever\.hub\.id='no/such': the hub must have this model"):
        model_folder(Hub(id="no/such", revision="0"), other, None)


def test_nothing_is_loaded_before_something_is_sought(folder: Path) -> None:
    look = (
        "import sys; from grid.retrievers.scored import Dense; from grid.core.types import ToolSpec;"
        f"Dense(path={str(folder)!r}).index({{'a': ToolSpec('a', 'b', ())}});"
        "print(*{'torch', 'sentence_transformers', 'transformers'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout.split() == []
