"""The world of searches: what its tools take and return, who answers, and what an answer of several parts is worth."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from grid.core.types import FINISH, Observation, ToolCall
from grid.retrievers import scored as texts
from grid.retrievers.scored import Embedder, bm25_texts, dense_texts
from grid.text.words import TERMS, terms
from grid.worlds.layers import RetrievingWorld
from grid.worlds.readers import NOT_FOUND, Corpus, Evidence, Paragraph, concluded, extracted, kind_of
from grid.worlds.search import AskedState, QuestionWorld
from grid.worlds.simulated import Documentation, Referenced, Response

PARAGRAPHS = (
    Paragraph("Larkmoor", "Larkmoor is a town in Tarn County. It was founded in 1213 and has 4,300 inhabitants."),
    Paragraph("Ada Brandt", "Ada Brandt (born 4 May 1901) is a botanist from Larkmoor. She won six prizes."),
    Paragraph("Bela Corvin (poet)", "Bela Corvin (born 12 June 1899) is a poet. He lives in Hexley, and was a sailor."),
    Paragraph("Pontoon", "A pontoon is a boat with a flat bottom."),
)
EVIDENCE = {
    "Who is from Larkmoor?": Evidence("Ada Brandt", "Ada Brandt"),
    "In what county is Larkmoor?": Evidence("Tarn County", "Larkmoor"),
    "Which is larger, 1 or 2?": Evidence("2"),
}


def corpus(paragraphs: Sequence[Paragraph] = PARAGRAPHS) -> Corpus:
    return Corpus(paragraphs, bm25_texts(lambda: [one.shown for one in paragraphs], terms))


WORLD = QuestionWorld(corpus(), ("Tarn County", "2"), EVIDENCE)


def search(question: str) -> ToolCall:
    return ToolCall("search", {"question": question})


def commonsense(question: str) -> ToolCall:
    return ToolCall("commonsense", {"question": question})


def finish(answer: Any) -> ToolCall:
    return ToolCall(FINISH, {"answer": answer})


def run(world: QuestionWorld, *calls: ToolCall) -> tuple[AskedState, list[Observation]]:
    async def go() -> tuple[AskedState, list[Observation]]:
        state, seen = world.start(), []
        for call in calls:
            state, observation = await world.apply(state, call)
            seen.append(observation)
        return state, seen

    return asyncio.run(go())


class Playing:
    """Answers by a rule, and keeps what it was shown."""

    def __init__(self, response: Response | None) -> None:
        self.response, self.shown = response, list[tuple[str, Sequence[str] | None]]()

    async def respond(self, call: ToolCall, about: Documentation) -> Response | None:
        raise AssertionError("no server is played")

    async def read(self, question: str, paragraphs: Sequence[str] | None) -> Response | None:
        self.shown.append((question, paragraphs))
        return self.response


def test_a_case_is_resolved_by_all_parts_in_their_order() -> None:
    world = WORLD.by_reference()
    state, seen = run(
        world,
        search("In what county is   Larkmoor?"),
        commonsense("Which is larger, 1 or 2?"),
        finish("1. Tarn County\n2. 2"),
    )
    assert [observation.content for observation in seen] == [
        {"result": "Tarn County"},
        {"result": "2"},
        {"answer": "1. Tarn County\n2. 2"},
    ]
    assert world.resolved(state)
    assert world.answer(state) == "1. Tarn County\n2. 2"
    for answer, right in {
        "tarn county; 2.": True,
        "1. the Tarn County\n2. 2": True,
        "1. 2\n2. Tarn County": False,
        "2. 2\n1. Tarn County": False,
        "Tarn County": False,
        "1. Tarn\n2. 2": False,
        "1. Tarn County\n2. 2\n3. 2": False,
    }.items():
        assert world.resolved(run(world, finish(answer))[0]) == right, answer


def test_what_is_wrong_with_a_call_is_told_and_leaves_the_state() -> None:
    wrong = [
        (ToolCall("lookup", {"question": "Who?"}), "no tool 'lookup'"),
        (ToolCall("search", {}), "takes a text as its question"),
        (ToolCall("search", {"question": "Who?", "k": 3}), "and nothing else"),
        (ToolCall("search", {"question": 3}), "takes a text"),
        (ToolCall("search", {"question": "  "}), "takes a text"),
        (search("x" * 30_000), "30,000 characters, 20,000 at most"),
        (search("Where was OUTPUT_FROM_STEP_4.result born?"), "is no result of an earlier step"),
        (finish("OUTPUT_FROM_STEP_4.result"), "is no result of an earlier step"),
        (finish(""), "needs an answer"),
        (finish(["a", "b"]), "needs an answer"),
        (search("zebra"), "No paragraph that was found"),
    ]
    for call, why in wrong:
        state, (observation,) = run(WORLD, call)
        assert observation.failed
        assert list(observation.content) == ["error"]
        assert why in str(observation.content["error"])
        assert state == WORLD.start()
    state, seen = run(WORLD, finish("a; b"), search("Who is from Larkmoor?"))
    assert "answered already" in str(seen[1].content["error"])
    assert WORLD.answer(state) == "a; b"


def test_the_reference_answers_its_own_questions_where_its_paragraph_is_found() -> None:
    world = WORLD.by_reference()
    assert not run(world, search("Who is from Larkmoor?"))[1][0].failed
    assert run(world, search("Who was from Larkmoor?"))[1][0].failed, "another question"
    assert run(world, commonsense("Who is from Larkmoor?"))[1][0].failed, "with the other tool"
    assert run(world, search("Which is larger, 1 or 2?"))[1][0].failed
    one = world.reading(1)
    (nearest,) = one.corpus.nearest("Who is from Larkmoor?", 1)
    assert run(one, search("Who is from Larkmoor?"))[1][0].failed == (nearest.title != "Ada Brandt")
    gone = replace(world, corpus=corpus([one for one in PARAGRAPHS if one.title != "Ada Brandt"]))
    assert run(gone, search("Who is from Larkmoor?"))[1][0].failed
    assert isinstance(world, RetrievingWorld)
    assert isinstance(WORLD, Referenced)


def test_rules_and_models_are_never_told_the_reference() -> None:
    told = {"Who is from Larkmoor?": Evidence("SECRET", "Ada Brandt"), "Is it?": Evidence("SECRET")}
    model = Playing(Response("", "Ada"))
    for world in (replace(WORLD, evidence=told), replace(WORLD, evidence=told).played_by(model)):
        _, seen = run(world, search("Who is from Larkmoor?"), commonsense("Is it?"))
        assert "SECRET" not in str(seen)
    assert "SECRET" not in str(model.shown)
    assert "SECRET" not in repr(replace(WORLD, evidence=told).by_reference())


def test_a_model_is_shown_the_question_and_the_paragraphs_found_alone() -> None:
    model = Playing(Response("", "Ada Brandt"))
    world = WORLD.played_by(model).reading(2)
    _, seen = run(world, search("Who is from Larkmoor?"), commonsense("Who is older?"), search("zebra"))
    assert seen[0].content == seen[1].content == {"result": "Ada Brandt"}
    assert seen[2].failed, "nothing was found, so that nobody is asked"
    (question, shown), (reasoned, nothing) = model.shown
    assert (question, reasoned, nothing) == ("Who is from Larkmoor?", "Who is older?", None)
    assert shown == [one.shown for one in world.corpus.nearest(question, 2)]


@pytest.mark.parametrize(
    ("response", "content"),
    [
        (Response("", True), {"result": "yes"}),
        (Response("", 3.5), {"result": "3.5"}),
        (Response("", ["a", "b"]), {"result": "a, b"}),
        (Response("", {"a": 1}), {"result": '{"a": 1}'}),
        (Response("", " two\nlines "), {"result": "two lines"}),
        (Response("The year is not told.", "1905"), {"error": "The year is not told."}),
        (Response("", None), {"error": f"{NOT_FOUND}."}),
        (Response("", "  "), {"error": f"{NOT_FOUND}."}),
        (None, {"error": "The answer could not be read."}),
    ],
)  # fmt: skip
def test_a_models_response_is_an_answer_or_a_failure(response: Response | None, content: Mapping[str, Any]) -> None:
    _, (seen,) = run(WORLD.played_by(Playing(response)), search("Who is from Larkmoor?"))
    assert seen.content == content
    assert seen.failed == ("error" in content)


def test_where_an_outline_ends_the_work_the_results_that_nothing_takes_up_are_the_answer() -> None:
    world = replace(WORLD.by_reference(), answered=False)
    calls = (
        search("Who is from Larkmoor?"),
        search("In what county is Larkmoor?"),
        commonsense("Which is larger, 1 or 2?"),
    )
    state, _ = run(world, *calls[1:])
    assert world.answer(state) == "1. Tarn County\n2. 2"
    assert world.resolved(state)
    assert not world.resolved(run(world, *reversed(calls[1:]))[0]), "in their order"
    assert not world.resolved(run(world, *calls)[0]), "three answers, where two are asked for"
    taken = replace(world, evidence={**EVIDENCE, "Who is Ada Brandt?": Evidence("a botanist", "Ada Brandt")})
    state, _ = run(taken.by_reference(), calls[0], search("Who is Ada Brandt?"))
    assert taken.answer(state) == "a botanist"
    assert run(world, finish("a"))[1][0].failed, "no finish answers"
    assert world.answer(world.start()) is None


def test_states_of_equal_questions_are_equal() -> None:
    world = WORLD.by_reference()
    one, other = (run(world, search(text))[0] for text in ("Who is from Larkmoor?", " Who is from  Larkmoor? "))
    assert one == other
    assert hash(one) == hash(other)
    assert one != world.start()


@given(st.lists(st.text(st.sampled_from("abcdé 12'"), max_size=12), max_size=8), st.text(st.sampled_from("abcdé 12'")))
def test_nearest_paragraphs_share_a_word_and_are_never_too_many(found: list[str], asked: str) -> None:
    paragraphs = [Paragraph("t", text) for text in found]
    nearest = corpus(paragraphs).nearest(asked, 3)
    assert len(nearest) <= 3
    shared = [one for one in paragraphs if set(terms(one.shown)) & set(terms(asked))]
    assert all(one in shared for one in nearest)
    assert len(nearest) == min(3, len(shared))


def test_terms_fold_accents_and_keep_numbers() -> None:
    assert terms("The Sivarāma Swamis of 1905, in Gdańsk") == terms("sivarama swami 1905 gdansk")
    assert terms("3.5 a b") == ["3", "5"]
    assert terms("") == terms("the of") == []


def test_an_index_that_is_kept_gives_the_same_scores(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    found = [one.shown for one in PARAGRAPHS] * 3
    plain = bm25_texts(lambda: found, terms)
    monkeypatch.setattr(texts, "_LARGE", 1)
    for kept in (bm25_texts(lambda: found, terms, TERMS), bm25_texts(lambda: found, terms, TERMS)):
        for asked in ("Who is from Larkmoor?", "a poet born 1899", "zebra", ""):
            np.testing.assert_allclose(kept(asked), plain(asked), rtol=1e-6)
    assert len(list((cache / "agent-grid" / "bm25").glob("*.lock"))) == 1, "made once"


class Letters:
    """Embeds a text by its letters."""

    def texts(self, found: Sequence[str]) -> np.ndarray:
        counts = np.array([[text.lower().count(letter) for letter in "abcdefghij"] for text in found], dtype=np.float32)
        embedded: np.ndarray = counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)
        return embedded

    library = texts


def test_dense_retrieval_takes_the_highest_cosine_whatever_is_shared() -> None:
    score = dense_texts(lambda: ["abc", "dd"], lambda: cast(Embedder, Letters()))
    dense = Corpus([Paragraph("one", "abc"), Paragraph("two", "dd")], score, matching=False)
    assert [one.title for one in dense.nearest("d", 2)] == ["two", "one"]
    assert [one.title for one in dense.nearest("zzz", 1)] == ["one"]
    assert Corpus([], dense_texts(list, lambda: cast(Embedder, Letters()))).nearest("d", 2) == ()


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("In what year was Larkmoor founded?", "1213"),
        ("When was Ada Brandt born?", "4 May 1901"),
        ("How many inhabitants has Larkmoor?", "4,300"),
        ("How many prizes did Ada Brandt win?", "six"),
        ("Where does the poet Bela Corvin live?", "Hexley"),
        ("Which botanist is from Larkmoor?", "Ada Brandt"),
        ("Is Ada Brandt a botanist?", "yes"),
        ("Is Ada Brandt a sailor from Hexley?", "no"),
        ("What about Ada Brandt decides this: who won more prizes?", "She won six prizes."),
        ("Who invented the steam engine?", None),
        ("", None),
        ("?!", None),
    ],
)
def test_rules_find_a_span_of_the_kind_that_is_asked_for(question: str, answer: str | None) -> None:
    assert extracted(question, PARAGRAPHS) == answer


@given(st.text(max_size=80), st.lists(st.tuples(st.text(max_size=20), st.text(max_size=80)), max_size=3))
def test_rules_read_anything(question: str, found: list[tuple[str, str]]) -> None:
    paragraphs = [Paragraph(*one) for one in found]
    answer = extracted(question, paragraphs)
    assert answer is None or answer in ("yes", "no") or any(answer in one.shown for one in paragraphs)
    assert kind_of(question)
    assert concluded(question) is None or isinstance(concluded(question), str)


PIECES = "Ada|Bela|has|was|born|in|4 May 1901|31 February 1999|1899|two|Two|twelve|4,300|9.5|1e5|more|fewer|older|later"
PIECES += "|same|Which|Are|both|or|and|.|?"


@given(st.lists(st.sampled_from(PIECES.split("|")), max_size=24).map(" ".join))
def test_rules_compare_anything(question: str) -> None:
    """Whatever stands where a number, a date or a name is looked for."""
    found = concluded(question)
    assert found is None or found in ("yes", "no") or found in question
    assert kind_of(question)
    extracted(question, [Paragraph("Ada", question), Paragraph("Bela", question)])


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Ada Brandt was born on 4 May 1901, Bela Corvin on 12 June 1899. Who is older?", "Bela Corvin"),
        ("Ada Brandt was born on 4 May 1901, Bela Corvin on 12 June 1899. Who is younger?", "Ada Brandt"),
        (
            "Of Ada this is known: in 1901. Of Bela this is known: in 1899. By that: Who came first, Ada or Bela?",
            "Bela",
        ),
        ("Larkmoor has 4,300 inhabitants; Hexley has 950. Which has more, Larkmoor or Hexley?", "Larkmoor"),
        ("Larkmoor has 4,300 inhabitants; Hexley has 950. Which has fewer, Larkmoor or Hexley?", "Hexley"),
        ("Larkmoor has two schools; Hexley has nine. Which has more, Larkmoor or Hexley?", "Hexley"),
        ("Larkmoor has two schools; Hexley has nine. Which has fewer, Larkmoor or Hexley?", "Larkmoor"),
        ("Larkmoor has twelve schools; Hexley has 11.5. Which has more, Larkmoor or Hexley?", "Larkmoor"),
        ("Larkmoor has two schools; Hexley has 2. Which has more, Larkmoor or Hexley?", None),
        ("Larkmoor has two schools; Hexley has 2. Have Larkmoor and Hexley the same number of them?", "yes"),
        ("Ada is a British poet. Bela is a British sailor. Are Ada and Bela of the same nationality?", "yes"),
        ("Ada is a British poet. Bela is a Danish sailor. Are Ada and Bela of the same nationality?", "no"),
        ("Ada is a poet. Bela is a sailor. Are both Ada and Bela poets?", "no"),
        ("Ada is a poet. Bela was a poet. Are both Ada and Bela poets?", "yes"),
        ("Ada is a poet. Bela is a sailor. Which is a sailor, Ada or Bela?", "Bela"),
        ("Ada is a poet. Bela is a sailor. Who was born first, Ada or Bela?", None),
        ("Ada was born in 1900. Bela was born in 1900. Who was born first, Ada or Bela?", None),
        ("Why?", None),
        ("9" * 400, None),
    ],
)
def test_rules_compare_what_a_question_says(question: str, answer: str | None) -> None:
    assert concluded(question) == answer
