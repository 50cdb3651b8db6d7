"""The BM25 retriever: the right tools first, ties in the library's order, the whole library where it is small."""

from __future__ import annotations

from grid.core.types import Case, Parameter, Plan, Substep, ToolSpec
from grid.retrievers.scored import BM25, document
from grid.text.words import stems


def spec(name: str, description: str, *arguments: str) -> ToolSpec:
    return ToolSpec(name, description, tuple(Parameter(a, "string", f"the {a}") for a in arguments))


TOOLS = {
    tool.name: tool
    for tool in (
        spec("book_hotel", "Reserves a room.", "guest"),
        spec("cancel_flight", "Calls off a flight.", "ticket"),
        spec("weather", "Tells the weather of a city.", "city"),
        spec("zip_files", "Packs documents.", "folder"),
    )
}


def names(settings: BM25, text: str, goal: str = "", query: str = "") -> list[str]:
    case = Case("c", query, Plan(()))
    return [tool.name for tool in settings.index(TOOLS).retrieve(case, Substep("1.1", text, goal))]


def test_names_descriptions_and_arguments_are_searched() -> None:
    assert names(BM25(top_k=1), "the weather of tomorrow") == ["weather"]
    assert names(BM25(top_k=1), "reserves something") == ["book_hotel"]
    assert names(BM25(top_k=1), "which ticket") == ["cancel_flight"]


def test_the_goal_and_the_query_count_by_their_weights() -> None:
    assert names(BM25(top_k=1), "do it", goal="pack the documents") == ["zip_files"]
    assert names(BM25(top_k=1), "do it", query="what weather is it") == ["weather"]
    assert names(BM25(top_k=1, goal_weight=0, query_weight=0), "do it", "pack documents", "weather") == ["book_hotel"]


def test_ties_keep_the_librarys_order_and_top_k_may_exceed_it() -> None:
    assert names(BM25(top_k=99), "nothing of this is known") == list(TOOLS)
    assert names(BM25(top_k=2), "") == list(TOOLS)[:2]


def test_nearest_ranks_the_whole_library() -> None:
    ranked = BM25(top_k=1).index(TOOLS).nearest("weather city")
    assert ranked[0].name == "weather"
    assert len(ranked) == len(TOOLS)


def test_snake_case_is_taken_apart_and_stemmed() -> None:
    assert stems(document(TOOLS["zip_files"]))[:3] == ("zip", "file", "pack")
