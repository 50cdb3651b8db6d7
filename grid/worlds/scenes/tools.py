"""GTA's fourteen tools as planners see them: names, arguments and types as published, descriptions in our own words.

Names and arguments are those of the authors' tool server (open-compass/GTA, `agentlego/benchmark.py` and
`agentlego/tools`), categories those of their scorer (`gettype`). What a tool returns, there one text or one image,
has a name here, since later calls refer to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from grid.core.types import Parameter, ToolSpec

PERCEPTION, OPERATION, LOGIC, CREATIVITY = "perception", "operation", "logic", "creativity"
_IMAGE = Parameter("image", "string", "the name of an image: one of the request's, or one that a tool returned")
_REGION = "a part of the image as corner coordinates in pixels, `(x1, y1, x2, y2)`"
_CODE = "Python code with a function `solution`"


def _text(name: str, description: str, required: bool = True) -> Parameter:
    return Parameter(name, "string", description, required)


_TOOLS = (
    ToolSpec("OCR", "Reads the words printed or written on an image, line by line.", (_IMAGE,), ("text",), PERCEPTION),
    ToolSpec("ImageDescription", "Says in a sentence what an image shows.", (_IMAGE,), ("description",), PERCEPTION),
    ToolSpec(
        "RegionAttributeDescription",
        "Says what one property of the object in a part of an image is.",
        (_IMAGE, _text("bbox", _REGION), _text("attribute", "the property that is asked for")),
        ("description",),
        PERCEPTION,
    ),
    ToolSpec(
        "TextToBbox",
        "Finds where on an image an object is.",
        (
            _IMAGE,
            _text("text", "the object in English words"),
            Parameter("top1", "boolean", "true (as when left out): the best match; false: every match", False),
        ),
        ("bbox", "detections"),
        PERCEPTION,
    ),
    ToolSpec(
        "DrawBox",
        "Puts a frame around a part of an image.",
        (_IMAGE, _text("bbox", _REGION), _text("annotation", "words to stand at the frame", required=False)),
        ("image",),
        OPERATION,
    ),
    ToolSpec(
        "AddText",
        "Writes words on an image.",
        (
            _IMAGE,
            _text("text", "the words"),
            _text(
                "position",
                "where: a point `(x, y)`, or l, m or r (left, middle, right) and t, m or b (top, middle, bottom), "
                "such as `rt`",
            ),
            _text("color", "the color of the letters; red when left out", required=False),
        ),
        ("image",),
        OPERATION,
    ),
    ToolSpec(
        "GoogleSearch",
        "Looks something up on the web.",
        (
            _text("query", "what is looked for"),
            Parameter("k", "integer", "how many results at most; 10 when left out", False),
        ),
        ("results",),
        OPERATION,
    ),
    ToolSpec(
        "Calculator",
        "Works out one Python expression of numbers; functions of the module math may be used.",
        (_text("expression", "the expression"),),
        ("result",),
        LOGIC,
    ),
    ToolSpec(
        "Plot",
        "Draws a diagram by Python code that uses matplotlib.",
        (_text("command", f"{_CODE} that returns the figure"),),
        ("image",),
        LOGIC,
    ),
    ToolSpec(
        "MathOCR", "Reads the formulae on an image, as LaTeX.", (_IMAGE,), ("latex",), LOGIC
    ),
    ToolSpec(
        "CountGivenObject",
        "Tells how many objects of a kind are on an image.",
        (_IMAGE, _text("text", "the object in English words"), _text("bbox", _REGION, required=False)),
        ("count",),
        LOGIC,
    ),
    ToolSpec(
        "Solver",
        "Finds the unknowns of equations by Python code that uses symbols, Eq and solve of sympy.",
        (_text("command", f"{_CODE} that returns the solutions as a text"),),
        ("result",),
        LOGIC,
    ),
    ToolSpec(
        "TextToImage",
        "Makes a new image from words.",
        (_text("keywords", "words parted by commas"),),
        ("image",),
        CREATIVITY,
    ),
    ToolSpec(
        "ImageStylization",
        "Changes how an image looks.",
        (_IMAGE, _text("instruction", "what to change it to")),
        ("image",),
        CREATIVITY,
    ),
)  # fmt: skip
TOOLS: Mapping[str, ToolSpec] = MappingProxyType({tool.name: tool for tool in _TOOLS})
"""By name."""
