"""Small files in the form in which HotpotQA is released, over towns, people and books that are made up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Record = dict[str, Any]
NAMES = (
    "Ada Brandt", "Bela Corvin", "Cleo Dunmore", "Dora Eskil", "Emil Farrow", "Fay Gantry", "Gus Hallam", "Hana Ismay",
    "Ivo Jarvis", "Jana Kestrel", "Karl Lomax", "Lea Marwood", "Milo Norvik", "Nell Ostrava", "Otto Penrose",
    "Pia Quill", "Rolf Sander", "Sara Tolliver", "Tom Ulverton", "Una Vance", "Vera Wexford", "Walt Yarrow",
    "Xenia Zorn", "Yves Aldous",
)  # fmt: skip
TOWNS = ("Larkmoor", "Pennbrook", "Stonewick", "Ashgrove", "Tarnfield", "Hexley", "Wolding", "Ravensea", "Kirrow")
TRADES = ("botanist", "glazier", "sculptor", "surveyor", "violinist", "cartographer")


def paragraph(title: str, *sentences: str) -> list[Any]:
    return [title, list(sentences)]


def person(number: int) -> list[Any]:
    """The paragraph of a person: born in a year of their own, in a town."""
    name, trade = NAMES[number], TRADES[number % len(TRADES)]
    return paragraph(
        name,
        f"{name} (born {1901 + 3 * number}) is a {trade} from {TOWNS[number % len(TOWNS)]}.",
        f"The work of {name} was shown abroad {number + 2} times.",
    )


def book(number: int) -> list[Any]:
    """The paragraph of a book by a person."""
    title = f"The Ledger of {number} Winters"
    return paragraph(title, f"{title} is a novel by {NAMES[number]}.")


def distractors(number: int) -> list[list[Any]]:
    """Paragraphs that are of no use."""
    return [
        paragraph(f"{TOWNS[(number + place) % len(TOWNS)]} Bridge {number}", f"A bridge of {place + 1} arches.")
        for place in range(3)
    ]


def record(
    identity: str, question: str, answer: str, kind: str, supporting: Sequence[list[Any]], number: int = 0
) -> Record:
    """A question with two supporting paragraphs, whose first sentences it rests on, among others."""
    first, last = supporting
    return {
        "_id": identity,
        "question": question,
        "answer": answer,
        "type": kind,
        "level": "hard",
        "supporting_facts": [[first[0], 0], [last[0], 0]],
        "context": [first, *distractors(number), last],
    }


def quiz(number: int) -> str:
    """How a question begins: in other words than the others, so that no two are of one template."""
    return f"In round {chr(ord('a') + number)} of a quiz:"


def bridge(number: int) -> Record:
    """Who wrote a book, and when they were born."""
    asked = f"{quiz(number)} in what year was the author of the novel The Ledger of {number} Winters born?"
    return record(f"b{number:02d}", asked, str(1901 + 3 * number), "bridge", (book(number), person(number)), number)


def comparison(number: int) -> Record:
    """Which of two people was born first: the first of them."""
    one, other = NAMES[number], NAMES[(number + 1) % len(NAMES)]
    answer = min((number, one), ((number + 1) % len(NAMES), other))[1]
    asked = f"{quiz(number)} who was born first, {one} or {other}?"
    pair = person(number), person((number + 1) % len(NAMES))
    return record(f"c{number:02d}", asked, answer, "comparison", pair, number)


def records() -> list[Record]:
    """As many of either type as there are names."""
    return [made(number) for number in range(len(NAMES)) for made in (bridge, comparison)]


def of_hub(one: Record) -> Record:
    """A record in the hub's form: `id`, and lists by name in the place of pairs."""
    facts, context = one["supporting_facts"], one["context"]
    return {
        **{key: one[key] for key in ("question", "answer", "type", "level")},
        "id": one["_id"],
        "supporting_facts": {"title": [title for title, _ in facts], "sent_id": [number for _, number in facts]},
        "context": {"title": [title for title, _ in context], "sentences": [lines for _, lines in context]},
    }


def write(folder: Path, found: Sequence[Any] | None = None, name: str = "hotpot_dev_distractor_v1.json") -> str:
    """The folder, with a file of these records (by default all) as a JSON list or, by its name, as JSON Lines."""
    found = records() if found is None else found
    lines = "\n".join(json.dumps(one) for one in found) if name.endswith("l") else json.dumps(found)
    (folder / name).write_text(lines, encoding="utf-8")
    return str(folder)
