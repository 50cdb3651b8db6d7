"""Questions over a graph of one's own and behind an endpoint; keys that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest
from pydantic import ValidationError

from grid.core.errors import ConfigError, DataError
from grid.datasets.freebase import witness
from grid.datasets.freebase.dataset import WITNESS, AgentBenchKG, GrailQA, Witnessed
from tests.support.freebase import FORMS, NAMES, agentbench, grailqa, kbqa_o1, write
from tests.support.freebase_runs import walked
from tests.support.http_server import Asked, LocalServer, Play, Reply

pytestmark = pytest.mark.usefixtures("own_cache")
JSON = {"Content-Type": "application/sparql-results+json"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("grailqa"))


@pytest.fixture(scope="module")
def small(own_cache: None, folder: str) -> GrailQA:
    return GrailQA(path=folder, held_out=0.0)


def own(small: GrailQA, target: Path, form: Any = grailqa, **changes: Any) -> GrailQA:
    """The same questions over the first witness graph's facts, as if they were one's own."""
    assert isinstance(small.source, Witnessed)
    write(target, "GrailQA_test.json", form)
    return GrailQA(path=str(target), held_out=0.0, graph_name=witness.shard_name(0), **changes)


def test_questions_that_have_other_answers_in_ones_own_graph_are_skipped(small: GrailQA, tmp_path: Path) -> None:
    source = small.source
    assert isinstance(source, Witnessed)
    dataset = own(small, tmp_path, graph=str(source.root / witness.FACTS))
    here = {form for form, number in source.account["shards"].items() if number == 0}
    assert {one.form for one in dataset.questions.values()} == here
    assert len(dataset.skipped) == len(FORMS) - len(here)
    assert all("the S-expression has other answers" in skip.reason for skip in dataset.skipped)
    assert WITNESS not in dataset.version
    assert all(walked(dataset, case_id).resolved for case_id in dataset.case_ids())
    store = own(small, tmp_path, graph=str(source.root / witness.STORE))
    assert store.case_ids() == dataset.case_ids()
    assert len(own(small, tmp_path, graph=str(source.root / witness.FACTS), cases=2).case_ids()) == 2


def test_questions_without_names_take_those_of_ones_own_graph(small: GrailQA, tmp_path: Path) -> None:
    source = small.source
    assert isinstance(source, Witnessed)
    (tmp_path / "GrailQA_train.json").write_text(json.dumps([kbqa_o1(11), kbqa_o1(10) | {"sexpr": FORMS[10][1]}]))
    write(tmp_path, "GrailQA_test.json", lambda number: kbqa_o1(number % 10))
    dataset = GrailQA(path=str(tmp_path), graph=str(source.root / witness.FACTS), graph_name=witness.shard_name(0))
    assert len(dataset.case_ids()) >= 6
    for case_id in dataset.case_ids():
        assert walked(dataset, case_id).resolved
        for call in dataset.questions[case_id].calls.values():
            assert not str(call.arguments.get("input_value", "")).startswith("m.0")
    assert {name for one in dataset.trainings for name, _ in one.mentions} <= {
        " ".join(n.split()) for n in NAMES.values()
    }


def test_broken_lines_of_ones_own_graph_are_counted(small: GrailQA, tmp_path: Path) -> None:
    ns = "http://rdf.freebase.com/ns/"
    facts = [
        f"<{ns}m.0f1a> <{ns}film.film.directed_by> <{ns}m.0ada> .",
        "no triple at all",
        f'<{ns}m.0f1a> <{ns}film.film.initial_release_date> "2003-02-30"^^<http://www.w3.org/2001/XMLSchema#date> .',
    ]
    (tmp_path / "mine.nt").write_text("\n".join(facts) + "\n")
    (tmp_path / "GrailQA_test.json").write_text(
        json.dumps([grailqa(0) | {"answer": ["m.0f1a"], "s_expression": FORMS[0][1]}])
    )
    dataset = GrailQA(path=str(tmp_path), held_out=0.0, graph=str(tmp_path / "mine.nt"))
    with pytest.raises(ConfigError, match="holds no usable question"):
        dataset.case_ids()  # the film has no class there
    assert [skip.record for skip in dataset.skipped] == ["1000", "mine.nt:2", "mine.nt:3"]
    (tmp_path / "mine.nt").write_text("\n".join([*facts, f"<{ns}m.0f1a> <{ns}type.object.type> <{ns}film.film> ."]))
    again = GrailQA(path=str(tmp_path), held_out=0.0, graph=str(tmp_path / "mine.nt"))
    assert again.case_ids() == ["1000"]
    assert walked(again, "1000").resolved


def answering(small: GrailQA) -> Play:
    source = small.source
    assert isinstance(source, Witnessed)
    store = ox.Store.read_only(str(source.root / witness.STORE))

    def play(asked: Asked) -> Reply:
        found = store.query(asked.body["query"], default_graph=ox.NamedNode(witness.shard_name(0)))
        assert isinstance(found, ox.QuerySolutions)
        return Reply(body=found.serialize(format=ox.QueryResultsFormat.JSON), headers=JSON)

    return play


def test_an_endpoint_is_asked_once_which_questions_hold(small: GrailQA, tmp_path: Path) -> None:
    pytest.importorskip("httpx")
    with LocalServer(answering(small)) as server:
        dataset = own(small, tmp_path, endpoint=server.url, dialect="sparql")
        ids = dataset.case_ids()
        assert set(ids) == set(own(small, tmp_path, graph=_facts_of(small)).case_ids())
        assert "endpoint" in dataset.version
        asked = len(server.bodies("/v1"))
        assert asked >= len(FORMS)
        assert own(small, tmp_path, endpoint=server.url, dialect="sparql").case_ids() == ids
        assert len(server.bodies("/v1")) == asked


def _facts_of(small: GrailQA) -> str:
    assert isinstance(small.source, Witnessed)
    return str(small.source.root / witness.FACTS)


def test_an_endpoint_that_is_none_is_told_before_any_case_runs(small: GrailQA, tmp_path: Path) -> None:
    pytest.importorskip("httpx")
    with LocalServer(lambda asked: Reply(status=403, body="<html>no</html>")) as server:
        for _ in range(2):  # nothing is kept
            with pytest.raises(ConfigError, match="the endpoint does not answer") as caught:
                own(small, tmp_path, endpoint=server.url).case_ids()
            assert caught.value.key == "dataset.endpoint"


@pytest.mark.parametrize(
    ("changes", "key", "said"),
    [
        ({"path": None}, "dataset.path", "give a folder"),
        ({"path": "/no/such"}, "dataset.path", "no such folder"),
        ({"ontology": "/no/such"}, "dataset.ontology", "no such folder"),
        ({"graph": "/no/such.nt"}, "dataset.graph", "N-Triples"),
        ({"endpoint": "ftp://x"}, "dataset.endpoint", "http"),
        ({"graph": "/x", "endpoint": "http://x"}, "dataset.endpoint", "null, because dataset.graph is given"),
    ],
)
def test_wrong_keys_are_named(changes: dict[str, Any], key: str, said: str, folder: str) -> None:
    values: dict[str, Any] = {"path": folder, "held_out": 0.0} | changes
    dataset = GrailQA(**values)
    with pytest.raises(ConfigError, match=said) as caught:
        _ = (dataset.version, dataset.case_ids())
    assert caught.value.key == key


def test_folders_without_files_or_schema_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"grailqa_v1\.0_dev\.json or"):
        GrailQA(path=str(tmp_path)).case_ids()
    (tmp_path / "train.json").write_text("[")
    with pytest.raises(DataError, match=r"train\.json"):
        AgentBenchKG(path=str(tmp_path)).case_ids()
    (tmp_path / "train.json").write_text(json.dumps([agentbench(0)]))
    with pytest.raises(ConfigError, match="GrailQA's ontology") as caught:
        AgentBenchKG(path=str(tmp_path), held_out=0.0).case_ids()
    assert caught.value.key == "dataset.ontology"
    for wrong in ({"limit": 0}, {"held_out": 1.0}, {"cases": "all"}, {"unknown": 1}, {"dialect": "sql"}):
        with pytest.raises(ValidationError):
            GrailQA(path="x", **wrong)
