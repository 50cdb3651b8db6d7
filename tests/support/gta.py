"""A small file in the form in which GTA is released; its queries, images and answers are made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

INPUTS: dict[str, list[tuple[str, str, bool]]] = {
    "OCR": [("image", "image", False)],
    "ImageDescription": [("image", "image", False)],
    "RegionAttributeDescription": [("image", "image", False), ("text", "bbox", False), ("text", "attribute", False)],
    "TextToBbox": [("image", "image", False), ("text", "text", False), ("bool", "top1", True)],
    "CountGivenObject": [("image", "image", False), ("text", "text", False), ("text", "bbox", True)],
    "MathOCR": [("image", "image", False)],
    "DrawBox": [("image", "image", False), ("text", "bbox", False), ("text", "annotation", True)],
    "AddText": [
        ("image", "image", False),
        ("text", "text", False),
        ("text", "position", False),
        ("text", "color", True),
    ],
    "GoogleSearch": [("text", "query", False), ("int", "k", True)],
    "Calculator": [("text", "expression", False)],
    "Plot": [("text", "command", False)],
    "Solver": [("text", "command", False)],
    "TextToImage": [("text", "keywords", False)],
    "ImageStylization": [("image", "image", False), ("text", "instruction", False)],
}
"""The fourteen tools: type and name of each input, and whether it is optional."""
Call = tuple[str, dict[str, Any], Any]


def tool(name: str) -> dict[str, Any]:
    """A tool as a record lists it."""
    kinds = ("DrawBox", "AddText", "Plot", "TextToImage", "ImageStylization")
    return {
        "name": name,
        "description": f"The tool {name} of the small file",
        "inputs": [
            {"type": kind, "name": own, "description": None, "optional": optional, "default": None, "filetype": None}
            for kind, own, optional in INPUTS[name]
        ],
        "outputs": [{"type": "image" if name in kinds else "text", "name": None, "description": None}],
    }


def record(query: str, images: int, calls: list[Call], said: str | None, answer: Any) -> dict[str, Any]:
    """A record: its tools are those that its gold path calls."""
    dialogs: list[dict[str, Any]] = [{"role": "user", "content": query}]
    for name, arguments, returned in calls:
        function = {"name": name, "arguments": arguments}
        dialogs.append(
            {"role": "assistant", "tool_calls": [{"type": "function", "function": function}], "thought": None}
        )
        kind = "image" if str(returned).startswith("image/") else "text"
        dialogs.append({"role": "tool", "name": name, "content": {"type": kind, "content": returned}})
    if said is not None:
        dialogs.append({"role": "assistant", "content": said})
    return {
        "tools": [tool(name) for name in dict.fromkeys(call[0] for call in calls)],
        "files": [{"type": "image", "path": f"image/{place}.jpg", "url": None} for place in range(images)],
        "dialogs": dialogs,
        "gt_answer": answer,
    }


def facts(*groups: list[str], never: list[list[str]] | None = None) -> dict[str, Any]:
    """A gold answer by lists."""
    return {"whitelist": list(groups), "blacklist": never}


IMAGE = "image/0.jpg"
RECORDS: list[dict[str, Any]] = [
    record(
        "What do three teas of the menu cost?", 1,
        [("OCR", {"image": IMAGE}, "Tea 4.50 Coffee 3.00"), ("Calculator", {"expression": "3 * 4.50"}, "13.5")],
        "Three teas are 13.5.", facts(["13.5", "13.50"], never=[["15"], ["9", "9.0"]]),
    ),
    record(
        "How many more chairs than tables are there?", 1,
        [
            ("CountGivenObject", {"image": IMAGE, "text": "chair"}, 7),
            ("CountGivenObject", {"image": IMAGE, "text": "table"}, 2),
            ("Calculator", {"expression": "7 - 2"}, "5"),
        ],
        "There are 5 more chairs.", facts(["5", "five"]),
    ),
    record(
        "Frame the red bird.", 1,
        [
            ("TextToBbox", {"image": IMAGE, "text": "red bird", "top1": True}, "(3, 4, 50, 60), score 91"),
            ("DrawBox", {"image": IMAGE, "bbox": "(3, 4, 50, 60)"}, "image/drawn.png"),
        ],
        None, None,
    ),
    record(
        "Is the first room tidier than the second?", 2,
        [
            ("ImageDescription", {"image": IMAGE}, "A tidy room with a desk"),
            ("ImageDescription", {"image": "image/1.jpg"}, "A room with clothes on the floor"),
        ],
        "Yes, the first one is tidy.", ["The first room is tidier.", "Yes, the second has clothes on its floor."],
    ),
    record(
        "Solve the equation of the picture and say which city lies at that latitude north.", 1,
        [
            ("MathOCR", {"image": IMAGE}, "2 x = 96"),
            ("Solver", {"command": "solve 2 x = 96"}, "x = 48"),
            ("GoogleSearch", {"query": "city at latitude 48 north", "k": 3}, "Mulberry Falls lies at 48 degrees north"),
        ],
        "Mulberry Falls, at x = 48.", facts(["Mulberry Falls"], ["48"], never=None),
    ),
    record(
        "Paint a lighthouse at dusk, then make it a woodcut.", 0,
        [
            ("TextToImage", {"keywords": "lighthouse, dusk"}, "image/made.png"),
            ("ImageStylization", {"image": "image/made.png", "instruction": "make it a woodcut"}, "image/cut.png"),
        ],
        "Here is the picture.", None,
    ),
    record(
        "What colour is the coat of the man at the door?", 1,
        [
            ("TextToBbox", {"image": IMAGE, "text": "man at the door"}, "(9, 9, 80, 99), score 77"),
            (
                "RegionAttributeDescription",
                {"image": IMAGE, "bbox": "(9, 9, 80, 99)", "attribute": "colour of the coat"},
                "dark green",
            ),
        ],
        "It is dark green.", facts(["green"], never=[["light green"], ["blue"]]),
    ),
    record(
        "Write the price of the tea on the picture.", 1,
        [
            ("OCR", {"image": IMAGE}, "Tea 4.50"),
            ("AddText", {"image": IMAGE, "text": "4.50", "position": "rt"}, "image/text.png"),
        ],
        None, None,
    ),
    record(
        "Plot the counts of apples and pears in the picture, and say how many fruits there are.", 1,
        [
            ("CountGivenObject", {"image": IMAGE, "text": "apple"}, 4),
            ("CountGivenObject", {"image": IMAGE, "text": "pear"}, 6),
            ("Plot", {"command": "bars: apples 4, pears 6"}, "image/plot.png"),
            ("Calculator", {"expression": "4 + 6"}, "10"),
        ],
        "10 fruits.", facts(["10", "ten"], never=[["24"]]),
    ),
    record(
        "Describe the poster.", 1,
        [("OCR", {"image": IMAGE}, "Fair on Sunday"), ("ImageDescription", {"image": IMAGE}, "A poster with a tent")],
        "A poster for a fair on Sunday.", ["The poster shows a tent and announces a fair on Sunday."],
    ),
]  # fmt: skip


def write(folder: Path, records: list[dict[str, Any]] | None = None) -> str:
    """The file in a folder."""
    rows = {str(number): one for number, one in enumerate(RECORDS if records is None else records)}
    (folder / "dataset.json").write_text(json.dumps(rows), encoding="utf-8")
    return str(folder)
