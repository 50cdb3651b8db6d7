"""The tools that look at images and change them, call by call."""

from __future__ import annotations

import os
import pickle
import random
from pathlib import Path

import pytest

from grid.core.types import Json, ToolCall
from grid.worlds.scenes.scene import Line, Scene, Thing, same_picture
from grid.worlds.scenes.tools import TOOLS, Entry, Web
from grid.worlds.scenes.world import SceneState, SceneWorld
from tests.support.loops import each
from tests.support.walks import Walk

RED = Thing("cup", (10, 10, 110, 110), (("color", "red"), ("material", "glass")))
BLUE = Thing("cup", (200, 10, 420, 230), (("color", "blue"),))
GOOSE = Thing("goose", (500, 300, 700, 500))
TABLE = Scene("A photo of a table", (RED, BLUE, GOOSE), (Line("Latte 4.50", (5, 400, 90, 430)),), ("x^2 = 4",))
BARE = Scene("A photo of a wall")
WEB = Web((
    Entry("Orvel Tower", "Orvel Tower", "It was opened in 1920."),
    Entry("Veldania", "Flower of Veldania", "It is the red poppy."),
    Entry("Veldania", "Crown of Veldania", "At the exchange rate it is 0.5 euros."),
))  # fmt: skip
WORLD = SceneWorld((("image_1.jpg", TABLE), ("image_2.jpg", BARE)), WEB, frozenset({("number", "19.1")}))
IMAGE_TOOLS = [name for name, tool in TOOLS.items() if any(one.name == "image" for one in tool.parameters)]
OTHERS: dict[str, Json] = {
    "bbox": "(10, 10, 110, 110)",
    "attribute": "color",
    "text": "cup",
    "position": "mm",
    "instruction": "mosaic",
}


def look(tool: str, image: str = "image_1.jpg", **arguments: Json) -> dict[str, Json]:
    return dict(Walk(WORLD).call(tool, image=image, **arguments).content)


def full(tool: str, image: Json) -> ToolCall:
    """A call with every argument that the tool needs."""
    names = [one.name for one in TOOLS[tool].parameters if one.required and one.name != "image"]
    return ToolCall(tool, {"image": image, **{name: OTHERS[name] for name in names}})


def test_what_is_seen() -> None:
    assert look("OCR") == {"text": "(5, 400, 90, 430) Latte 4.50"}
    assert look("MathOCR") == {"latex": "$x^2 = 4$"}
    assert look("ImageDescription") == {"description": "A photo of a table, with cups, a goose, with words on it."}
    assert look("TextToBbox", text="the red cup")["bbox"] == "(10, 10, 110, 110)"
    assert look("TextToBbox", text="cup")["bbox"] == "(200, 10, 420, 230)", "the largest of several"
    every = {"bbox": "(200, 10, 420, 230)", "detections": "(200, 10, 420, 230), score 97\n(10, 10, 110, 110), score 95"}
    assert look("TextToBbox", text="cups", top1=False) == look("TextToBbox", text="cups", top1="False") == every
    assert look("CountGivenObject", text="cups") == {"count": 2}
    assert look("CountGivenObject", text="geese") == {"count": 1}
    assert look("CountGivenObject", text="cup", bbox="(0, 0, 150, 150)") == {"count": 1}
    assert look("CountGivenObject", text="elephant") == {"count": 0}
    for attribute in ("color", "colour", "its Color"):
        found = look("RegionAttributeDescription", bbox="(12, 8, 112, 112)", attribute=attribute)
        assert found == {"description": "The color of the cup is red."}


@each(
    ("tool", "arguments"),
    [
        ("OCR", {"image": "image_2.jpg"}), ("MathOCR", {"image": "image_2.jpg"}),
        ("TextToBbox", {"image": "image_1.jpg", "text": "elephant"}),
        ("TextToBbox", {"image": "image_1.jpg", "text": "of the"}),
        ("RegionAttributeDescription", {"image": "image_1.jpg", "bbox": "(0, 0, 1000, 750)", "attribute": "color"}),
        ("RegionAttributeDescription", {"image": "image_1.jpg", "bbox": "(10, 10, 110, 110)", "attribute": "price"}),
        ("GoogleSearch", {"query": "tower"}), ("GoogleSearch", {"query": "Orvel Tower", "k": 0}),
        ("GoogleSearch", {"query": "Orvel Tower", "k": "many"}),
        ("DrawBox", {"image": "image_1.jpg", "bbox": "(10, 10, 5, 20)"}),
        ("DrawBox", {"image": "image_1.jpg", "bbox": "(1, 2, 3)"}), ("DrawBox", {"image": "image_1.jpg", "bbox": {}}),
        ("DrawBox", {"image": "image_1.jpg"}), ("OCR", {}), ("OCR", {"image": "image_1.jpg", "language": "en"}),
        ("AddText", {"image": "image_1.jpg", "text": "a", "position": "somewhere"}),
        ("AddText", {"image": "image_1.jpg", "text": "a" * 600, "position": "lt"}),
        ("TextToBbox", {"image": "image_1.jpg", "text": "cup", "top1": "perhaps"}),
        ("TextToBbox", {"image": "image_1.jpg", "text": ["cup"]}), ("TextToImage", {"keywords": " , "}),
        ("OCR", {"image": "9" * 100_000}), ("OCR", {"image": 7}), ("Nothing", {}), ("N" * 100_000, {}),
    ],
)  # fmt: skip
def test_a_call_that_cannot_be_done_says_why_and_changes_nothing(tool: str, arguments: dict[str, Json]) -> None:
    walk = Walk(WORLD)
    found = walk.call(tool, **arguments)
    assert found.failed
    assert set(found.content) == {"error"}
    assert len(str(found.content["error"])) < 300
    assert walk.state == WORLD.start()


PATHS = [
    "../../etc/passwd",
    "/etc/passwd",
    "image_1.jpg/../../x",
    "~/x",
    "file:///etc/passwd",
    "",
    "image_1.png",
    "\x00",
    None,
]


@pytest.mark.parametrize("tool", IMAGE_TOOLS)
def test_no_name_of_an_image_touches_a_file(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*given: object, **options: object) -> None:
        raise AssertionError("a file was touched")

    assert not full(tool, "image_1.jpg").arguments.keys() - {one.name for one in TOOLS[tool].parameters}
    for owner, name in [(os, "open"), (os, "stat"), (Path, "open"), (Path, "exists")]:
        monkeypatch.setattr(owner, name, never)
    monkeypatch.setattr("builtins.open", never)
    for path in PATHS:
        state, found = WORLD.run(WORLD.start(), full(tool, path))
        assert found.failed
        assert state == WORLD.start()
    assert not WORLD.run(WORLD.start(), full(tool, " image_1.jpg "))[1].failed


def test_later_tools_see_what_was_done_to_an_image() -> None:
    walk = Walk(WORLD)
    image = walk.call("AddText", image="image_1.jpg", text="19.10", position="rb").content["image"]
    assert str(walk.call("OCR", image=image).content["text"]).splitlines()[1].endswith(" 19.10")
    image = walk.call("ImageStylization", image=image, instruction="mosaic").content["image"]
    image = walk.call("DrawBox", image=image, bbox="(1, 2, 30, 40)", annotation="here").content["image"]
    told = str(walk.call("ImageDescription", image=image).content["description"])
    assert "mosaic" in told
    assert "frame" in told
    assert str(walk.call("OCR", image=image).content["text"]).startswith("(1, 2, 30, 40) here")
    assert walk.call("CountGivenObject", image=image, text="cup").content == {"count": 2}
    assert walk.call("OCR", image="image_1.jpg").content == look("OCR"), "the image itself stays as it was"
    made = walk.call("TextToImage", keywords="a dog, red hat").content["image"]
    assert walk.call("CountGivenObject", image=made, text="hat").content == {"count": 1}
    made = walk.call("TextToImage", keywords="y, y").content["image"]
    assert "ys" in str(walk.call("ImageDescription", image=made).content["description"])


def test_the_name_of_an_image_tells_what_is_on_it() -> None:
    one, other = Walk(WORLD), Walk(WORLD)
    for walk, order in ((one, "ab"), (other, "ba")):
        for text in order:
            walk.call("AddText", image="image_1.jpg", text=text, position="lt")
    assert one.state == other.state
    assert hash(one.state) == hash(other.state)
    assert pickle.loads(pickle.dumps(one.state)) == one.state  # noqa: S301 - our own
    assert one.state != Walk(WORLD).state


def test_images_do_not_grow_without_bound() -> None:
    walk, image = Walk(WORLD), "image_1.jpg"
    for _ in range(20):
        image = str(walk.call("AddText", image=image, text="a", position="lt").content["image"])
    assert walk.call("AddText", image=image, text="a", position="lt").failed


def written(text: str, position: str, **more: Json) -> tuple[str, dict[str, Json]]:
    return "AddText", {"text": text, "position": position, **more}


def framed(bbox: Json, **more: Json) -> tuple[str, dict[str, Json]]:
    return "DrawBox", {"bbox": bbox, **more}


def styled(instruction: str) -> tuple[str, dict[str, Json]]:
    return "ImageStylization", {"instruction": instruction}


CUP = "(10, 10, 110, 110)"
Edits = list[tuple[str, dict[str, Json]]]


@pytest.mark.parametrize(
    ("wanted", "made", "same"),
    [
        ([written("19.1", "rb")], [written("19.10", "(990, 740)")], True),
        ([written("19.1", "rb")], [written("19.2", "rb")], False),
        ([written("a", "rb")], [written("a", "rt")], False),
        ([written("a", "rb")], [written("A", "rb", color="blue")], True),
        ([written("a", "rb", color="red")], [written("a", "rb", color="blue")], False),
        ([framed(CUP)], [framed([12, 9, 110, 112], annotation="cup")], True),
        ([framed(CUP)], [framed("(10, 10, 210, 110)")], False),
        ([styled("mosaic")], [styled("turn it into a mosaic")], True),
        ([styled("mosaic")], [styled("pixel art")], False),
        ([framed(CUP), written("a", "lt")], [written("a", "lt"), framed(CUP)], True),
        ([framed(CUP)], [framed(CUP), written("a", "lt")], False),
        ([framed(CUP)], [framed(CUP), framed(CUP)], False),
        ([framed(CUP), framed(CUP, annotation="a")], [framed(CUP, annotation=text) for text in "ab"], True),
        (
            [framed(CUP, annotation="a"), framed(CUP, annotation="a")],
            [framed(CUP, annotation=text) for text in "ab"],
            False,
        ),
    ],
)
def test_when_two_images_show_the_same(wanted: Edits, made: Edits, same: bool) -> None:
    assert same_picture(edited(wanted), edited(made)) is same
    assert same_picture(edited(wanted), edited(wanted))
    assert not same_picture(edited(wanted), edited(made, "image_2.jpg")), "another photo"


def edited(edits: Edits, image: str = "image_1.jpg") -> Scene:
    walk = Walk(WORLD)
    for tool, arguments in edits:
        image = str(walk.call(tool, image=image, **arguments).content["image"])
    state = walk.state
    assert isinstance(state, SceneState)
    return dict(state.scenes)[image]


def test_generated_images_are_the_same_by_their_words() -> None:
    def generated(keywords: str) -> Scene:
        state = WORLD.run(WORLD.start(), ToolCall("TextToImage", {"keywords": keywords}))[0]
        return state.scenes[0][1]

    wanted = generated("red otter")
    for words, same in [
        ("a red otter", True), ("Otter, red fur, in a river", True), ("otter", False), ("blue otter", False),
        ("red otter " + "and a cat, dog, horse, bird, fish, cow, goat, sheep", False),
    ]:  # fmt: skip
        assert same_picture(wanted, generated(words)) is same


def test_a_search_finds_what_it_names() -> None:
    walk = Walk(WORLD)
    found = walk.call("GoogleSearch", query="exchange rate of the crown of Veldania")
    assert str(found.content["results"]).startswith("1 - Crown of Veldania:")
    assert len(str(found.content["results"]).splitlines()) == 2
    assert len(str(walk.call("GoogleSearch", query="Veldania", k="1").content["results"]).splitlines()) == 1
    assert "1920" in str(walk.call("GoogleSearch", query="When was orvel tower opened?").content["results"])


def test_resolved_is_what_was_obtained_whatever_the_path() -> None:
    walk = Walk(WORLD)
    assert not walk.resolved
    walk.call("Calculator", expression="19.2")
    assert not walk.resolved
    walk.call("Calculator", expression="3*4.5 + 2*2.8")
    assert walk.resolved
    walk.call("OCR", image="image_1.jpg")
    assert walk.resolved, "what was obtained stays so"
    assert walk.answer is None


@each("seed", range(20))
def test_any_call_of_any_values_is_answered(seed: int) -> None:
    rng, walk = random.Random(seed), Walk(WORLD)
    values: list[Json] = [
        "image_1.jpg",
        "(10, 10, 110, 110)", "cup", "", None, True, -1, 2.5, [], [1, 2, 3, 4], {"a": 1}, "lt", "\ud800", "x" * 9999
    ]  # fmt: skip
    for _ in range(200):
        tool = rng.choice(list(TOOLS))
        names = [one.name for one in TOOLS[tool].parameters if one.required or rng.random() < 0.5]
        found = walk.call(tool, **{name: rng.choice(values) for name in names})
        assert found.content, "an outcome or an error, and never an exception"
        assert found.failed == ("error" in found.content)
