"""Small files in the form in which m&m's is released: requests of our own, plans of every kind that it has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Node = dict[str, Any]
Row = dict[str, Any]


def plan(*calls: tuple[str, dict[str, Any]]) -> list[Node]:
    """Nodes numbered from 0."""
    return [{"id": number, "name": name, "args": arguments} for number, (name, arguments) in enumerate(calls)]


GENERATE, SUMMARIZE, CAPTION, DRAW = "text generation", "text summarization", "image captioning", "image generation"
DETECT, SELECT = "object detection", "select object"
REQUESTS: list[tuple[str, list[Node], list[list[Node]]]] = [
    ("Write on from 'The lamp in the harbour'.", plan((GENERATE, {"text": "The lamp in the harbour"})), []),
    (
        '"What does the picture 00417.jpg show, and can you draw it as a watercolour?"',
        plan((CAPTION, {"image": "00417.jpg"}), (DRAW, {"text": "a watercolour of <node-0>.text"})),
        [plan(("image classification", {"image": "00417.jpg"}), (DRAW, {"text": "a watercolour of <node-0>.text"}))],
    ),
    (
        "Sum up the talk in 1995-1826-0002.flac and draw the key points vividly.",
        plan(
            ("automatic speech recognition", {"audio": "1995-1826-0002.flac"}),
            (SUMMARIZE, {"text": "<node-0>.text"}),
            (DRAW, {"text": 'a vivid drawing of "<node-1>.text"'}),
        ),
        [
            plan(
                ("automatic speech recognition", {"audio": "1995-1826-0002.flac"}),
                (DRAW, {"text": "a vivid drawing of <node-0>.text"}),
            )
        ],
    ),
    (
        "How many things are in 208812.png, and what is odd about that number?",
        plan(
            (DETECT, {"image": "208812.png"}),
            ("count", {"objects": "<node-0>.objects"}),
            ("get math fact", {"number": "<node-1>.number"}),
        ),
        [
            plan(
                ("image segmentation", {"image": "208812.png"}),
                ("count", {"objects": "<node-0>.objects"}),
                ("get trivia fact", {"number": "<node-1>.number"}),
            )
        ],
    ),
    (
        "Blur all but the dog in 5522-input.png.",
        plan(
            (DETECT, {"image": "5522-input.png"}),
            (SELECT, {"objects": "<node-0>.objects", "object_name": "dog"}),
            ("background blur", {"image": "<node-0>.image", "object": "<node-1>.object"}),
        ),
        [],
    ),
    (
        "What's the weather like in Turku?",
        plan(("get location", {"city": "Turku"}), ("get weather", {"lon": "<node-0>.lon", "lat": "<node-0>.lat"})),
        [],
    ),
    (
        "Who directed 'Under the Pier' (1987)? Say it in a sentence.",
        plan(
            ("search movie", {"movie_title": "Under the Pier", "movie_year": 1987}),
            ("question answering", {"text": "<node-0>.text", "question": 'Who directed "Under the Pier"?'}),
        ),
        [],
    ),
    ("Tell me something of the year 1066.", plan(("get year fact", {"year": 1066})), []),
    (
        "How well do Ada and Jonas go together, and is that number special?",
        plan(
            ("love calculator", {"first_name": "Ada", "second_name": "Jonas"}),
            ("get trivia fact", {"number": "<node-0>.number"}),
        ),
        [],
    ),
    (
        "Make the ball in 17320.jpg blue, keep the left part and read the writing on it.",
        plan(
            ("image editing", {"image": "17320.jpg", "prompt": "make the ball blue"}),
            ("image crop left", {"image": "<node-0>.image"}),
            ("optical character recognition", {"image": "<node-1>.image"}),
        ),
        [],
    ),
    (
        "Is 'a dull film, told twice' meant kindly?",
        plan(("text classification", {"text": "a dull film, told twice"})),
        [],
    ),
    (
        "Put a sad face over the cat in 91.jpg and say what colour its collar is.",
        plan(
            (DETECT, {"image": "91.jpg"}),
            (SELECT, {"objects": "<node-0>.objects", "object_name": "cat"}),
            ("emoji", {"image": "<node-0>.image", "object": "<node-1>.object", "emoji": "crying_face"}),
            ("visual question answering", {"image": "91.jpg", "question": "What colour is the cat's collar?"}),
        ),
        [],
    ),
]
"""Requests with their plans and the alternatives."""


def row(number: int, request: str, nodes: Any, others: Any = (), **more: Any) -> Row:
    """A line of the file; plans are written as Python does."""
    told = {"plan_str": str(nodes), "code_str": "def solve(): ...", "alt_plans_str": str([*others]) if others else None}
    return {"id": number, "user_request": request} | told | more


def rows() -> list[Row]:
    """Numbered with gaps, as released."""
    return [row(8 + 4 * place, *request) for place, request in enumerate(REQUESTS)]


def write(root: Path, lines: Sequence[Row] | None = None, split: str = "test_human_verified_filtered") -> str:
    """A file of a split under a folder; its path."""
    text = "".join(json.dumps(line) + "\n" for line in (rows() if lines is None else lines))
    (root / f"{split}.json").write_text(text, encoding="utf-8")
    return str(root)
