"""The lexical engine: deterministic, distributed as it says, and blind to everything but the prompt."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from grid.core.engine import ChoiceAnswer, OutlineAnswer, PlanAnswer, Prompt, Section, TextAnswer, ToolCallAnswer
from grid.core.types import FINISH, NO_TOOL, Parameter, ToolCall, ToolSpec
from grid.engines.lexical import arguments as points
from grid.engines.lexical.arguments import FOR_NONE, FOR_TOOL, fill, labelled_in, needs_none, values_in
from grid.engines.lexical.engine import Lexical, bm25
from grid.engines.null import Null
from grid.engines.places import count_tokens, name_of
from grid.episode.prompts import FINISH_TOOL, NO_TOOL_TEXT, tool_text
from grid.text.words import stems
from tests.studies.lexical_needs import learned, sayings


def tool(name: str, description: str, **arguments: str) -> ToolSpec:
    return ToolSpec(name, description, tuple(Parameter(n, kind, n.replace("_", " ")) for n, kind in arguments.items()))


TOOLS = (
    tool("track_parcel", "Shows where a parcel is now.", tracking_number="string"),
    tool("open_return", "Registers goods that are sent back.", order_id="string", reason="string"),
    tool("quote_rate", "Gives a carrier's price for a parcel.", weight="number", pickup_date="date"),
)
QUERY = (
    'Where is my parcel? Tracking number TRK-55421, order ORD-9-77, reason "broken lid". It weighs 4.5 kg and cost '
    "$1,299.00; the pickup date was March 5, 2024. Write to ann@example.com."
)


def prompt(
    substep: str, history: tuple[str, ...] = (), tools: tuple[ToolSpec, ...] = TOOLS, decline: bool = True
) -> Prompt:
    options = [*map(tool_text, tools), *([NO_TOOL_TEXT] if decline else [])]
    sections = [
        Section("role", ("You follow a plan.",)),
        Section("task", (f"Query: {QUERY}", "Plan:", "1.1 Find out about it", f"1.2 {substep}")),
        Section("history", history),
        Section("tools", ("Tools:",), tuple(options)),
        Section("request", ("Present step: Help", f"Present substep: 1.2 {substep}")),
    ]
    return Prompt(tuple(s for s in sections if s.entries), ToolCallAnswer(tools, decline))


def choice(substep: str) -> Prompt:
    asked = prompt(substep)
    return Prompt(asked.sections, ChoiceAnswer((*map(tool_text, TOOLS), NO_TOOL_TEXT)))


def sample(engine: Lexical, asked: Prompt, n: int, seed: int, temperature: float = 1.0) -> tuple[str, ...]:
    answer = engine.sample(asked, n=n, temperature=temperature, max_tokens=10, seed=seed)
    return asyncio.run(answer).completions


def test_deterministic_for_a_seed_and_sample_i_does_not_depend_on_n() -> None:
    engine, asked = Lexical(temperature=5.0), prompt("See where the parcel is")
    many = sample(engine, asked, 50, seed=1)
    assert sample(engine, asked, 50, seed=1) == many
    assert sample(engine, asked, 7, seed=1) == many[:7]
    assert sample(engine, asked, 50, seed=2) != many


def test_samples_follow_the_distribution_that_choose_gives() -> None:
    engine, substep = Lexical(temperature=3.0), "Learn where the parcel is"
    expected = asyncio.run(engine.choose(choice(substep), seed=0)).probabilities
    assert sum(expected) == pytest.approx(1.0)
    names = [tool.name for tool in TOOLS] + [NO_TOOL]
    drawn = Counter(json.loads(text)["tool"] for text in sample(engine, prompt(substep), 4000, seed=3))
    counts = np.array([drawn[name] for name in names])
    assert stats.chisquare(counts, np.array(expected) * 4000).pvalue > 1e-4
    assert len(set(sample(engine, prompt(substep), 20, seed=3, temperature=0.0))) == 1


def test_a_lower_temperature_counts_as_the_least() -> None:
    asked = prompt("Learn where the parcel is")
    drawing, plain = Lexical(temperature=3.0, least_temperature=1.0), Lexical(temperature=3.0)
    assert sample(drawing, asked, 50, seed=3, temperature=0.0) == sample(plain, asked, 50, seed=3)
    assert sample(drawing, asked, 50, seed=3, temperature=2.0) == sample(plain, asked, 50, seed=3, temperature=2.0)


def test_the_words_decide_and_a_thinking_verb_means_no_tool() -> None:
    engine = Lexical()
    best = [
        int(np.argmax(asyncio.run(engine.choose(choice(substep), seed=0)).probabilities))
        for substep in ("See where the parcel is now", "Register the goods that go back", "Decide which price is fair")
    ]
    assert best == [0, 1, 3]


def chosen(options: tuple[str, ...], substep: str = "Register the goods") -> dict[str, float]:
    """The probability of each option's name."""
    sections = tuple(
        Section("tools", section.entries, options) if section.kind == "tools" else section
        for section in prompt(substep).sections
    )
    found = asyncio.run(Lexical(temperature=3.0).choose(Prompt(sections, ChoiceAnswer(options)), seed=0)).probabilities
    return dict(zip([name_of(option) for option in options], found, strict=True))


def test_the_text_of_no_tool_is_not_read_and_the_order_says_nothing() -> None:
    texts = [*map(tool_text, TOOLS), NO_TOOL_TEXT]
    for substep in ("Register the goods", "Decide which price is fair"):
        plain = chosen(tuple(texts), substep)
        assert chosen((*texts[:-1], f"{NO_TOOL}: Register the goods. Decide on a price."), substep) == plain
        for order in permutations(texts):
            assert chosen(order, substep) == pytest.approx(plain)


def test_sampled_calls_follow_the_order_that_the_prompt_shows() -> None:
    for place in range(len(TOOLS) + 1):
        texts = list(map(tool_text, TOOLS))
        texts.insert(place, NO_TOOL_TEXT)
        for substep, right in (("Register the goods that go back", "open_return"), ("Decide which is fair", NO_TOOL)):
            asked = prompt(substep)
            sections = tuple(Section("tools", s.entries, tuple(texts)) if s.kind == "tools" else s
                             for s in asked.sections)  # fmt: skip
            assert json.loads(sample(Lexical(), Prompt(sections, asked.answer), 1, 0, 0.0)[0])["tool"] == right


def test_its_words_are_those_of_one_half_of_slate_and_hold_on_the_other() -> None:
    halves = sayings()
    assert learned(halves["learned from"]) == (FOR_NONE, FOR_TOOL)
    right = {half: np.mean([needs_none(stems) == none for stems, none in seen]) for half, seen in halves.items()}
    assert right["learned from"] > right["held out"] > 0.7


def test_option_numbers_and_labels_say_nothing() -> None:
    plain = bm25(dict.fromkeys(stems("the parcel"), 1.0), [tool_text(t) for t in TOOLS])
    listed = bm25(dict.fromkeys(stems("the parcel"), 1.0), Section("tools", (), tuple(map(tool_text, TOOLS))).lines())
    assert plain == pytest.approx(listed)
    assert stems("2.1 Present 10") == ("present",)


def test_arguments_come_from_the_query_by_name_and_type() -> None:
    assert fill(TOOLS[0], prompt("x")) == {"tracking_number": "TRK-55421"}
    assert fill(TOOLS[1], prompt("x")) == {"order_id": "ORD-9-77", "reason": "broken lid"}
    assert fill(TOOLS[2], prompt("x"))["pickup_date"] == "March 5, 2024"


def test_arguments_come_from_earlier_outputs_of_that_name_and_by_reference_without_history() -> None:
    spec = tool("settle", "", claim_id="string")
    done = '1.1 Find out about it -> {"tool": "a", "arguments": {}} returned {"claim_id": "CL-7", "note": null}'
    assert fill(spec, prompt("x", history=("Done so far:", done))) == {"claim_id": "CL-7"}
    blind = tool("settle", "", verdict="string")
    assert fill(blind, prompt("x")) == {"verdict": "OUTPUT_FROM_STEP_1.1.verdict"}


def test_values_of_every_kind_are_found() -> None:
    found = {item.value: item.kind for item in values_in(QUERY)}
    assert found["TRK-55421"] == found["ORD-9-77"] == "identifier"
    assert found["broken lid"] == "quoted"
    assert found["$1,299.00"] == "money"
    assert found["March 5, 2024"] == "date"
    assert found["ann@example.com"] == "email"
    assert found["4.5"] == "number"
    pairs = labelled_in("Get the details (File path: a/b.txt, File content: Minutes, final)")
    assert [(item.before, item.value) for item in pairs] == [
        (("file", "path"), "a/b.txt"),
        (("file", "content"), "Minutes, final"),
    ]


def test_tokens_are_counted_once_per_sample() -> None:
    asked = prompt("See where it is")
    sampled = asyncio.run(Lexical().sample(asked, n=3, temperature=1.0, max_tokens=10, seed=0))
    tokens = sum(count_tokens(entry) for section in asked.sections for entry in section.lines())
    assert sampled.usage.llm_calls == 3
    assert sampled.usage.input_tokens == 3 * tokens
    assert sampled.usage.output_tokens == sum(count_tokens(text) for text in sampled.completions)


def test_a_lesson_names_the_call_that_fits_worst() -> None:
    good = '1.1 See where the parcel is -> {"tool": "track_parcel", "arguments": {}} returned {}'
    bad = '1.2 Register the goods -> {"tool": "quote_rate", "arguments": {}} returned {}'
    asked = Prompt((Section("history", (good, bad)),), TextAnswer())
    assert "Register the goods" in sample(Lexical(), asked, 1, seed=0)[0]


def test_null_answers_the_first_option() -> None:
    sampled = asyncio.run(Null().sample(prompt("x"), n=2, temperature=1.0, max_tokens=1, seed=0))
    assert [json.loads(text)["tool"] for text in sampled.completions] == ["track_parcel"] * 2
    assert asyncio.run(Null().choose(choice("x"), seed=0)).probabilities == (1.0, 0.0, 0.0, 0.0)


TWO = "See where the parcel TRK-55421 is now. Then register the goods that go back, order ORD-9-77."
DONE = '{n} -> {{"tool": "track_parcel", "arguments": {{}}}} returned {{"status": "ok"}}'


def free(steps: int, answer: type[ToolCallAnswer] | type[PlanAnswer] | None = ToolCallAnswer) -> Prompt:
    """Without an outline, behind so many steps; None for an index."""
    tools = (*TOOLS, FINISH_TOOL)
    options = tuple(map(tool_text, tools))
    history = ("Done so far:", *(DONE.format(n=n) for n in range(steps))) if steps else ()
    sections = (
        Section("task", (f"Query: {TWO}",)),
        Section("history", history),
        Section("tools", ("Tools:",), options),
    )
    wanted = ToolCallAnswer(tools, False) if answer is ToolCallAnswer else PlanAnswer(tools, 1, 30)
    return Prompt(tuple(s for s in sections if s.entries), wanted if answer else ChoiceAnswer(options))


def test_without_an_outline_it_goes_from_clause_to_clause_and_finishes() -> None:
    assert points.clauses(TWO) == (
        "See where the parcel TRK-55421 is now",
        "Then register the goods that go back, order ORD-9-77",
    )
    assert points.clauses("Why?") == ("Why?",), "a query has a clause at least"
    assert points.clauses("") == ("",)
    names = [*(tool.name for tool in TOOLS), FINISH]
    for steps, right in enumerate(("track_parcel", "open_return", FINISH, FINISH)):
        (text,) = sample(Lexical(), free(steps), 1, seed=0, temperature=0.0)
        assert json.loads(text)["tool"] == right
        found = asyncio.run(Lexical().choose(free(steps, None), seed=0)).probabilities
        assert names[int(np.argmax(found))] == right
        assert points.is_done(free(steps)) == (right == FINISH)


def test_a_plan_without_an_outline_has_a_call_for_each_clause_that_is_left() -> None:
    for steps, tools in ((0, ["track_parcel", "open_return"]), (1, ["open_return"]), (2, [FINISH])):
        (text,) = sample(Lexical(), free(steps, PlanAnswer), 1, seed=0, temperature=0.0)
        assert [call["tool"] for call in json.loads(text)["plan"]] == tools


def test_an_outline_is_drafted_of_the_querys_clauses() -> None:
    asked = Prompt(free(0).sections[:1], OutlineAnswer(50))
    assert json.loads(sample(Lexical(), asked, 1, seed=0)[0]) == {"outline": list(points.clauses(TWO))}
    short = Prompt(asked.sections, OutlineAnswer(1))
    assert len(json.loads(sample(Lexical(), short, 1, seed=0)[0])["outline"]) == 1


def test_guided_it_never_looks_at_how_many_clauses_there_are() -> None:
    assert not points.is_done(prompt("x", history=("Done so far:", *(DONE.format(n=n) for n in range(40)))))


@pytest.mark.parametrize("taken", [*(tool.name for tool in TOOLS), NO_TOOL])
def test_an_option_gains_where_a_trace_took_it_at_a_substep_of_like_words(taken: str) -> None:
    def logits(*traces: str) -> np.ndarray:
        asked = choice("Put the vase beside the window")
        memory = [Section("memory", ("Earlier:", *traces))] if traces else []
        told = Prompt((*asked.sections, *memory), asked.answer)
        return np.log(asyncio.run(Lexical().choose(told, seed=0)).probabilities)

    def trace(words: str) -> str:
        call = "no tool" if taken == NO_TOOL else ToolCall(taken, {"order_id": "x"}).text() + ' returned {"id": "y"}'
        lines = "Earlier query: q", f"2.3 {words} -> Thought: as before. {call}", "Carried out: yes"
        return "\n".join(lines)

    before, place = logits(), [*(tool.name for tool in TOOLS), NO_TOOL].index(taken)
    like, unlike = logits(trace("Put the vase beside the door")), logits(trace("Sum up all accounts"))
    assert unlike == pytest.approx(before)
    gained = like - before
    odds = gained[place] - np.delete(gained, place)
    assert odds == pytest.approx([8.0 / 0.7 * 3 / 5] * len(odds)), "put, vase, besid of these and window, door"
    both = logits(trace("Sum up all accounts"), trace("Put the vase beside the door"))
    assert both == pytest.approx(like)
