"""Small records in the form of BFCL's multi-turn categories, over the authors' classes; and calls that went wrong."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from grid.core.types import ToolCall
from grid.datasets.bfcl import Documents, MultiTurn, documents, read_talk
from tests.support.bfcl import write_category

Turns = list[list[ToolCall]]
"""What was called, turn by turn."""
CATEGORIES = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")


def _document(name: str, parameters: str, returned: str) -> dict[str, Any]:
    """A function's document; `parameters` such as `path?:string`, the question mark where one may be left out."""
    given = [one.partition(":") for one in parameters.split()]
    kinds = {name.rstrip("?"): kind.partition("/") for name, _, kind in given}
    properties = {
        key: {"type": kind, "description": f"The {key}."} | ({"items": {"type": items}} if items else {})
        for key, (kind, _, items) in kinds.items()
    }
    required = [name for name, _, _ in given if not name.endswith("?")]
    fields = {key: {"type": "string"} for key in returned.split()}
    return {
        "name": name,
        "description": f"It does {name}.",
        "parameters": {"type": "dict", "properties": properties, "required": required},
        "response": {"type": "dict", "properties": fields},
    }


FILES: dict[str, list[dict[str, Any]]] = {
    "gorilla_file_system": [
        _document("ls", "a?:boolean", "current_directory_content"),
        _document("cd", "folder:string", "current_working_directory"),
        _document("mkdir", "dir_name:string", ""),
        _document("touch", "file_name:string", ""),
        _document("echo", "content:string file_name?:string", "terminal_output"),
        _document("cat", "file_name:string", "file_content"),
        _document("mv", "source:string destination:string", "result"),
        _document("cp", "source:string destination:string", "result"),
        _document("find", "path?:string name?:string", "matches"),
        _document("sort", "file_name:string", "sorted_content"),
    ],
    "math_api": [
        _document("mean", "numbers:array/float", "result"),
        _document("power", "base:float exponent:float", "result"),
        _document("logarithm", "value:float base:float precision:integer", "result"),
    ],
    "posting_api": [
        _document("post_tweet", "content:string tags?:array/string mentions?:array/string", "id content"),
        _document("comment", "tweet_id:integer comment_content:string", "comment_status"),
    ],
    "travel_booking": [
        _document(
            "purchase_insurance",
            "access_token:string insurance_type:string insurance_cost:float booking_id:string card_id:string",
            "insurance_id insurance_status",
        ),
    ],
}
"""The documents, by file. The last function's arguments come in another order than in the class."""
ROOT = {
    "home": {
        "type": "directory",
        "contents": {
            "notes.txt": {"type": "file", "content": "pears\napples\nplums"},
            "old": {"type": "directory", "contents": {"a.txt": {"type": "file", "content": "first"}}},
            "new": {"type": "directory", "contents": {}},
        },
    }
}
SCENES: list[tuple[list[str], dict[str, Any], list[tuple[str, list[str]]], tuple[int, list[str]]]] = [
    (
        ["GorillaFileSystem", "MathAPI"],
        {"GorillaFileSystem": {"root": ROOT}},
        [
            ("Make a folder 'done' and put the notes there.", ["mkdir('done')", "mv('notes.txt', destination='done')"]),
            ("Read me the notes in order.", ["cd(folder='done')", "sort('notes.txt')"]),
            ("The mean of 4, 8.5 and -1?", ["mean(numbers=[4, 8.5, -1])"]),
        ],
        (1, ["sort", "cat"]),
    ),
    (
        ["TwitterAPI", "GorillaFileSystem"],
        {
            "GorillaFileSystem": {"root": ROOT},
            "TwitterAPI": {"authenticated": True, "username": "ann", "tweets": {}, "tweet_counter": 3},
        },
        [
            ("Which files are here?", ["ls(a=True)"]),
            ("Tweet 'Off we go' with #trip.", ["post_tweet('Off we go', tags=['#trip'])"]),
            ("Comment on it: 'At last'. And list again.", ["comment(3, 'At last')", "ls(a=True)"]),
        ],
        (1, ["post_tweet"]),
    ),
    (
        ["TravelAPI"],
        {
            "TravelAPI": {
                "access_token": "t7",
                "token_expires_in": 9,
                "token_scope": "booking",
                "credit_card_list": {"c1": {"balance": 900.0}},
                "booking_record": {"b1": {"card_id": "c1", "travel_cost": 10.0}},
            }
        },
        [("Insure b1 for 20 with card c1.", ["purchase_insurance('t7', 'full', 'b1', 20, card_id='c1')"])],
        (0, ["purchase_insurance"]),
    ),
]
"""Classes, initial states, turns with their gold calls, and before which turn which functions were held back."""


def rows_of(category: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A category's records and answers, as the files have them."""
    rows, answers = [], []
    for number, (classes, config, turns, (place, missed)) in enumerate(SCENES):
        said = [[{"role": "user", "content": text}] for text, _ in turns]
        gold = [list(calls) for _, calls in turns]
        row = {"id": f"{category}_{number}", "initial_config": deepcopy(config), "involved_classes": classes}
        if category == "multi_turn_miss_func":
            said.insert(place + 1, [])
            gold.insert(place, [])
            row["missed_function"] = {str(place + 1): missed}
        elif category == "multi_turn_miss_param":
            said.insert(place, [{"role": "user", "content": "Please do the other thing."}])
            gold.insert(place, [])
        rows.append(row | {"question": said})
        answers.append({"id": row["id"], "ground_truth": gold})
    return rows, answers


def write(root: Path) -> str:
    """The four categories and the documents under a folder; its path."""
    for category in CATEGORIES:
        write_category(root, category, *rows_of(category))
    (root / "multi_turn_func_doc").mkdir()
    for name, rows in FILES.items():
        lines = "\n".join(map(json.dumps, rows))
        (root / "multi_turn_func_doc" / f"{name}.json").write_text(lines, encoding="utf-8")
    return str(root)


def known() -> Documents:
    """The functions of the small files."""
    return documents(FILES)


def case_of(category: str, number: int, **changes: Any) -> MultiTurn:
    """The case of a record with some of its fields changed, or its gold calls."""
    rows, answers = rows_of(category)
    gold = changes.pop("ground_truth", answers[number]["ground_truth"])
    return read_talk({**rows[number], **changes}, {"ground_truth": gold}, known())


def mutated(turns: Sequence[Sequence[ToolCall]], rng: random.Random) -> Turns:
    """One to three things wrong: a call less, twice, elsewhere, with another argument, or of another function."""
    made = [list(calls) for calls in turns]
    for _ in range(rng.randint(1, 3)):
        _WAYS[rng.randrange(len(_WAYS))](made, rng)
    return made


def _place(made: Turns, rng: random.Random) -> tuple[list[ToolCall], int]:
    turn = rng.choice([calls for calls in made if calls] or [[ToolCall("nothing", {})]])
    return turn, rng.randrange(len(turn))


def _drop(made: Turns, rng: random.Random) -> None:
    turn, place = _place(made, rng)
    del turn[place]


def _swap(made: Turns, rng: random.Random) -> None:
    turn, place = _place(made, rng)
    other = rng.randrange(len(turn))
    turn[place], turn[other] = turn[other], turn[place]


def _repeat(made: Turns, rng: random.Random) -> None:
    turn, place = _place(made, rng)
    turn.insert(place, turn[place])


def _move(made: Turns, rng: random.Random) -> None:
    turn, place = _place(made, rng)
    call = turn.pop(place)
    other = rng.choice(made)
    other.insert(rng.randint(0, len(other)), call)


def _change(made: Turns, rng: random.Random) -> None:
    turn, place = _place(made, rng)
    call = turn[place]
    if call.arguments:
        name = rng.choice(sorted(call.arguments))
        turn[place] = ToolCall(call.tool, {**call.arguments, name: _other(call.arguments[name], rng)})


def _lose(made: Turns, rng: random.Random) -> None:
    turn, place = _place(made, rng)
    call = turn[place]
    kept = sorted(call.arguments)[1:]
    turn[place] = ToolCall(call.tool, {name: call.arguments[name] for name in kept})


def _misname(made: Turns, rng: random.Random) -> None:
    turn, place = _place(made, rng)
    call = turn[place]
    wrong = rng.choice([ToolCall(f"{call.tool}_now", call.arguments), ToolCall(call.tool, {"x": 1})])
    turn.insert(place, wrong)


def _other(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice([value + 1, str(value), float(value)])
    if isinstance(value, list):
        return rng.choice([value[1:], [*value, *value], value[::-1], None])
    return rng.choice([f"{value}x", f"{value} ", str(value).upper(), None, ["a"]])


_WAYS: tuple[Callable[[Turns, random.Random], None], ...] = (_drop, _swap, _repeat, _move, _change, _lose, _misname)
