"""APIBench's accuracy is that of Gorilla's own scorer, wherever `ast` can read the code.

The authors' `eval/eval-scripts` is the folder that AGENT_GRID_APIBENCH_SCORER names; it needs tree_sitter 0.20. What it
says of 60 calls is kept in data/apibench_matches.json.
`python -m tests.unit.datasets.test_apibench_scorer` writes it anew.
"""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from grid.datasets.apibench import Api, Hub, match, read_api, score, written_call
from grid.datasets.apibench_trees import MAX_BYTES, parse
from tests.support.apibench import FACES, RECORDS, SPEECH, SUMMARY, mutations

FROZEN = Path(__file__).parents[1] / "data" / "apibench_matches.json"
SCRIPTS = {"huggingface": "hf", "tensorflow": "tf", "torchhub": "th"}
FILES = {"huggingface": "huggingface", "tensorflow": "tensorflowhub", "torchhub": "torchhub"}
MUTATIONS = 2000
Theirs = Callable[[str], int | None]


def authors(hub: str, calls: Sequence[str]) -> Theirs:
    """The place of the API that the authors' functions find. Their trees of the hub's calls are read once."""
    named = os.environ.get("AGENT_GRID_APIBENCH_SCORER")
    if not named:
        pytest.skip("set AGENT_GRID_APIBENCH_SCORER to the authors' eval/eval-scripts")
    parsing: Any = pytest.importorskip("tree_sitter")
    spec = importlib.util.spec_from_file_location(hub, Path(named) / f"ast_eval_{SCRIPTS[hub]}.py")
    assert spec
    assert spec.loader
    script: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    parser = parsing.Parser()
    parser.set_language(parsing.Language(str(Path(named) / "codebleu/parser/my-languages.so"), "python"))

    def tree(code: str) -> Any:
        return parser.parse(code.encode()).root_node

    def known(code: str) -> Any:
        first = tree(code).children[0].children[0]
        children = [SimpleNamespace(text=child.text) for child in first.children[:1]]
        inner = SimpleNamespace(child_count=first.child_count, children=children)
        found = script.get_args(tree(code)) if children else []
        return SimpleNamespace(children=[SimpleNamespace(children=[inner])], found=found)

    base = [known(call) for call in calls]

    def place(code: str) -> int | None:
        script.get_args = lambda one: one.found
        index = script.ast_check(script.get_all_sub_trees(tree(code)), base)
        return None if index < 0 else index

    return place


class Ours:
    """The place of the API that is found, as the authors count: those that cannot be read are found by nobody."""

    def __init__(self, hub: Any, calls: Sequence[str]) -> None:
        read = [read_api(hub, call, "") for call in calls]
        self._places = [place for place, api in enumerate(read) if api]
        self._apis = [api for api in read if api]

    def __call__(self, code: str) -> int | None:
        parsed = parse(code)
        assert parsed
        index = match(parsed.subtrees(), self._apis)
        return None if index is None else self._places[index]


def made_up(hub: str) -> tuple[list[str], list[str]]:
    """A few calls and 20 mutations of them that `ast` can read."""
    calls = [call for *_, call in RECORDS[hub]]
    return calls, [code for code in mutations(calls, 40, seed=3) if parse(code)][:20]


@pytest.mark.parametrize("hub", SCRIPTS)
def test_the_scorer_says_what_the_authors_said(hub: str) -> None:
    frozen = [row for row in json.loads(FROZEN.read_text(encoding="utf-8")) if row["hub"] == hub]
    calls, codes = made_up(hub)
    assert [row["code"] for row in frozen] == codes
    ours = Ours(hub, calls)
    assert [ours(code) for code in codes] == [row["place"] for row in frozen]
    assert len({row["place"] for row in frozen}) > 2


@pytest.mark.parametrize("hub", SCRIPTS)
def test_of_mutations_and_released_records_the_authors_code_says_the_same(hub: str) -> None:
    path = os.environ.get("AGENT_GRID_APIBENCH")
    if not path:
        pytest.skip("set AGENT_GRID_APIBENCH to Gorilla's data folder")
    rows, pairs = (
        [json.loads(line) for line in (Path(path) / name).read_text(encoding="utf-8").splitlines()]
        for name in (f"api/{FILES[hub]}_api.jsonl", f"apibench/{hub}_eval.json")
    )
    calls, golds = [row["api_call"] for row in rows], [pair["api_data"]["api_call"] for pair in pairs]
    ours, theirs = Ours(hub, calls), authors(hub, calls)
    mutated = mutations(sorted(set(golds)), MUTATIONS, seed=1)
    readable = [code for code in (*golds, *mutated) if parse(code)]
    assert len(readable) > 0.94 * (len(golds) + MUTATIONS)
    assert [(code, ours(code)) for code in readable] == [(code, theirs(code)) for code in readable]


APIS = [api for *_, call in RECORDS["huggingface"] if (api := read_api("huggingface", call, SUMMARY))]


@pytest.mark.parametrize(
    ("hub", "call", "function", "values"),
    [
        ("huggingface", "A.load('x', model='y')", "A.load", ("x", "y")),
        ("huggingface", "A.load('x', **kwargs).", "A.load", ("x", "**kwargs")),
        ("huggingface", "A('x'), B('y')", "A", ("x",)),
        ("huggingface", "A('x')(prompt)", "A('x')", ("prompt",)),
        ("huggingface", "A()", "A", ()),
        ("tensorflow", "hub.load(\"x\", model='y', shape=[1])", "hub.load", ('"x"', "y", "shape=[1]")),
        ("torchhub", "h.load(repo_or_dir='a', 'b', model='c', pretrained=True)", "h.load", ("a", "c")),
    ],
)
def test_what_identifies_an_api(hub: Hub, call: str, function: str, values: tuple[str, ...]) -> None:
    assert read_api(hub, call, "d") == Api(function, values, "d")


@pytest.mark.parametrize("call", ["", "model = A('x')", "x", "A('x').name", "./run.sh", "A('x') is best", "def f(): 1"])
def test_what_is_no_call_is_no_api(call: str) -> None:
    assert read_api("huggingface", call, "d") is None


REFERENCE = Api("AutoModel.from_pretrained", ("acme/hears",), SPEECH)


@pytest.mark.parametrize(
    ("answer", "right", "hallucinated"),
    [
        ("AutoModel.from_pretrained('acme/hears')", True, False),
        ("m = AutoModel.from_pretrained('acme/hears', x=1).eval()", True, False),
        ("pipeline('summarization', model='acme/short')", False, False),
        ("AutoModel.from_pretrained('acme/deaf')", False, True),
        ("AutoModel.from_pretrained()", False, True),
        ("AutoModel.from_pretrained(**{'a': 'acme/h'})", False, True),
        ("load('acme/hears')", True, False),  # the authors' scorer: a wrong function's value counts
        ("audio.load('acme/hears')", False, True),
        ("AutoModel.from_pretrained", False, True),
        ("3", False, True),
        ("AutoModel.from_pretrained('acme/hears'", False, False),
        ("I would call it.", False, False),
        ("", False, False),
    ],
)
def test_right_hallucinated_or_neither(answer: str, right: bool, hallucinated: bool) -> None:
    assert score(answer, REFERENCE, APIS) == (right, hallucinated)


def test_another_api_of_the_domain_is_right_and_the_reference_comes_first() -> None:
    first, second = Api("f", ("a",), FACES), Api("f", ("a",), SPEECH)
    assert score("f('a')", REFERENCE, [second]).right
    assert not score("f('a')", REFERENCE, [first, second]).right, "as the authors: the first of the same calls"
    assert score("f('a')", second, [first, second]).right
    assert score("g()", Api("g", (), FACES), [first]).right
    assert score("h()", Api("g", (), FACES), [first]) == (False, True)


@pytest.mark.parametrize(
    "answer",
    [
        "f('" + "x" * 100_000 + "')", "f(" * 150 + ")" * 150, "f(" * 9000 + ")" * 9000, "-" * 9999 + "1",
        "a" + ".b" * 9000, "f" + "()" * 9000, "f('\x00')", "f('\ud800')", "f(" + "**k, " * 3000 + ")",
        "1" + "+1" * 9000, "f(a=1, a=2)",
    ],
    ids=range(11),
)  # fmt: skip
def test_no_answer_breaks_the_scorer_or_takes_long(answer: str) -> None:
    began = time.process_time()
    assert not score(answer, REFERENCE, APIS * 50).right
    assert time.process_time() - began < 2
    written_call(answer)
    assert parse("x" * (MAX_BYTES + 1)) is None


def test_deep_code_is_read_in_linear_time() -> None:
    code = parse("f(" * 90 + "'x'" + ")" * 90)
    assert code
    assert len(code.subtrees()) == 2 * 90 + 3


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("f('x')", "f('x')"),
        ("```python\nf('x')\n```", "f('x')"),
        ("<<<domain>>>: d\n<<<api_call>>>: f('x')\n<<<api_provider>>>: p(y)", "f('x')"),
        ("The call is recorded.", None),
        ("Done", None),
        ("x = 3", None),
        ("api_call", None),
        ("", None),
    ],
)
def test_the_call_in_an_answer(text: str, call: str | None) -> None:
    assert written_call(text) == call


def _write() -> None:
    rows = []
    for hub in SCRIPTS:
        calls, codes = made_up(hub)
        theirs = authors(hub, calls)
        rows += [{"hub": hub, "code": code, "place": theirs(code)} for code in codes]
    FROZEN.write_text("[\n" + ",\n".join(map(json.dumps, rows)) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    _write()
