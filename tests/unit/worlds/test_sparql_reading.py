"""Graph files: what is read, what is left out and named, what cannot be read."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.core.errors import DataError
from grid.worlds.sparql import graph as literals
from grid.worlds.sparql import programs
from grid.worlds.sparql.queries import NS, XSD, SparqlError, Value

GOOD = f"<{NS}m.a> <{NS}a.b.r0> <{NS}m.{{}}> <urn:shard:0> ."
BROKEN = [
    "nonsense",
    f"<{NS}m.a> <{NS}a.b.r0>",
    f"<{NS}m.a> <{NS}a b> <{NS}m.b> .",
    "_:blank <urn:p> <urn:o> .",
    f"<{NS}m.a> <{NS}a.b.r0> _:blank .",
    f'<{NS}m.a> <{NS}a.b.n> "ten"^^<{XSD}integer> .',
    f'<{NS}m.a> <{NS}a.b.n> "NaN"^^<{XSD}float> .',
    f'<{NS}m.a> <{NS}a.b.d> "1402-02-30"^^<{XSD}date> .',
    f'<{NS}m.a> <{NS}a.b.d> "1900-02-29"^^<{XSD}date> .',
    f'<{NS}m.a> <{NS}a.b.d> "5784 Nisan 3"^^<{XSD}date> .',
    f'<{NS}m.a> <{NS}a.b.d> "2001-13"^^<{XSD}gYearMonth> .',
    f'<{NS}m.a> <{NS}a.b.d> "2001-01-01T25:00:00"^^<{XSD}dateTime> .',
    f'<{NS}m.a> <{NS}a.b.d> "44 BC"^^<{XSD}gYear> .',
    "\x00\x01",
    "é" * 5 + "<",
]


@pytest.mark.parametrize("packed", [False, True])
def test_broken_lines_are_named_and_the_others_read(tmp_path: Path, packed: bool) -> None:
    rng = random.Random(3)
    lines = [GOOD.format(f"{number:x}") for number in range(200)] + BROKEN + ["", "# a remark", "   "]
    rng.shuffle(lines)
    path = tmp_path / ("graph.nq.gz" if packed else "graph.nq")
    text = "\n".join(lines).encode()
    path.write_bytes(gzip.compress(text) if packed else text)
    store, read = programs.in_memory(path)
    assert (read.facts, len(store)) == (200, 200)
    assert read.skipped == len(read.remarks) == len(BROKEN)
    assert {int(remark.record.partition(":")[2]) for remark in read.remarks} == {
        number for number, line in enumerate(lines, 1) if line in BROKEN
    }
    assert all(remark.record.startswith("graph.nq") and remark.reason for remark in read.remarks)
    assert [str(graph) for graph in store.named_graphs()] == ["<urn:shard:0>"]


def test_triples_go_into_the_default_graph_and_several_files_into_one_store(tmp_path: Path) -> None:
    for name in ("a.nt", "b.nt"):
        (tmp_path / name).write_text(f"<{NS}m.{name[0]}> <{NS}a.b.r0> <{NS}m.c> .\nbroken\n")
    store, read = programs.in_memory(tmp_path / "a.nt", tmp_path / "b.nt")
    assert {str(quad.graph_name) for quad in store} == {"DEFAULT"}
    assert (len(store), [remark.record for remark in read.remarks]) == (2, ["a.nt:2", "b.nt:2"])


def test_a_line_without_end_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MAX_LINE_BYTES", 200)
    path = tmp_path / "graph.nq"
    path.write_text("\n".join([GOOD.format("b"), "x" * 10_000, GOOD.format("c"), "y" * 500]))
    store, read = programs.in_memory(path)
    assert len(store) == 2
    assert [(remark.record, remark.reason) for remark in read.remarks] == [
        ("graph.nq:2", "the line has more than 200 bytes"),
        ("graph.nq:4", "the line has more than 200 bytes"),
    ]
    monkeypatch.setattr(programs, "MAX_BYTES", 5_000)
    for text in ("x" * 10_000, ("x" * 200 + "\n") * 50):
        path.write_text(text)
        with pytest.raises(DataError, match="more than 5,000 bytes"):
            programs.in_memory(path)


def test_only_so_many_lines_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MAX_REMARKS", 3)
    path = tmp_path / "graph.nq"
    path.write_text("broken\n" * 10)
    _, read = programs.in_memory(path)
    assert (read.facts, read.skipped, len(read.remarks)) == (0, 10, 3)


def test_what_cannot_be_read_is_an_error_with_the_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none.nq: cannot be read"):
        programs.in_memory(tmp_path / "none.nq")
    whole = gzip.compress(GOOD.format("b").encode() * 100)
    for name, data in {
        "cut.nq.gz": whole[:-20],
        "plain.nq.gz": b"no gzip",
        "odd.nq.gz": whole[:20] + b"x" * 50,
    }.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DataError, match=f"{name}: cannot be read"):
            programs.in_memory(tmp_path / name)
    with pytest.raises(DataError, match="does not have the store of a graph"):
        programs.opened(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path):
        with pytest.raises(DataError, match="a store cannot be made in this folder"):
            programs.on_disk(folder)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("90", Value("90", f"{XSD}integer")),
        ("-3", Value("-3", f"{XSD}integer")),
        ("118.5", Value("118.5", f"{XSD}float")),
        ("1e3", Value("1e3", f"{XSD}float")),
        ("1990", Value("1990", f"{XSD}gYear")),
        ("2008-05-08", Value("2008-05-08", f"{XSD}date")),
        ("2000-02-29", Value("2000-02-29", f"{XSD}date")),
        ("2008-05", Value("2008-05", f"{XSD}gYearMonth")),
        ("2008-05-08T01:02:03", Value("2008-05-08T01:02:03", f"{XSD}dateTime")),
        ("1990^^integer", Value("1990", f"{XSD}integer")),
        ("1990^^xsd:integer", Value("1990", f"{XSD}integer")),
        (f"1990^^<{XSD}integer>", Value("1990", f"{XSD}integer")),
        ('"1990"^^string', Value("1990")),
        ('"say \\"so\\""', Value('say "so"')),
        ('"a^^b"', Value("a^^b")),
        ('"1990^^integer"', Value("1990^^integer")),
        ("0044", Value("0044", f"{XSD}gYear")),
        ("Elbe", None),
        ("1,000", None),
        ("30 Nisan 5784", None),
        ("", None),
    ],
)
def test_words_are_read_as_the_literal_that_they_are(text: str, wanted: Value | None) -> None:
    assert literals.read(text) == wanted
    if wanted is not None:
        again = literals.read(literals.spoken(wanted))
        assert again is not None
        assert again.text == wanted.text


@pytest.mark.parametrize(
    "text",
    [
        "2001-02-30",
        "1900-02-29",
        "2001-2-3",
        "2008-13",
        "2008-05-08T25:00:00",
        "x^^integer",
        "1^^calendar",
        '"a"^^"b"',
        "1^^",
        "9" * 2000,
    ],
)
def test_a_literal_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SparqlError):
        literals.read(text)


@given(st.lists(st.sampled_from(["^^", '"', "\\", "\n", "integer"]) | st.characters(), max_size=20).map("".join))
def test_any_text_is_read_again_from_what_a_call_says(text: str) -> None:
    assert literals.read(literals.spoken(Value(text))) == Value(text)


@pytest.mark.parametrize("kind", ["integer", "decimal", "float", "double", "date", "gYear", "gYearMonth", "dateTime"])
def test_the_store_takes_every_literal_that_is_one(kind: str) -> None:
    """What is read can be compared: were it malformed, it would not equal its own value."""
    texts = [
        "7",
        "-0044",
        "2004",
        "12.5",
        "2004-02-29",
        "2004-02",
        "2004-02-29T23:59:59",
        "2004-02-29-08:00",
        "1e3",
        "x",
    ]
    for text in texts:
        literal = f'"{text}"^^<{XSD}{kind}>'
        valid = bool(ox.Store().query(f"ASK {{ FILTER({literal} <= {literal}) }}"))
        if literals.wrong(text, f"{XSD}{kind}") is None:
            assert valid, literal
