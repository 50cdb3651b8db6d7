"""Templates about what is to be seen: how many, where, of which color; and about formulae on sheets of paper."""

from __future__ import annotations

import random
from collections.abc import Sequence

from grid.datasets.gta_generated.draft import Call, Draft, Template, crowd, euros, forms, places
from grid.worlds.scenes.scene import Scene, Thing, one, plural

_ROOM = "A photo of a living room"
_CODE = """```python
from sympy import symbols, Eq, solve
def solution():
    {names} = symbols('{names}')
    return str(solve({equations}, {unknowns}, dict=True))
```"""


def solver_code(names: str, *equations: str) -> str:
    """Code that solves equations, each as the two sides parted by a comma."""
    listed = ", ".join(f"Eq({one})" for one in equations)
    if len(equations) == 1:
        return _CODE.format(names=names, equations=listed, unknowns=names)
    return _CODE.format(names=names, equations=f"({listed})", unknowns=f"({names})")


def cost_of_two_kinds(draft: Draft) -> Sequence[Call]:
    """What all fruit of two kinds costs."""
    a, b, c = draft.pick("fruit", 3)
    counts = {a: draft.rng.randint(2, 6), b: draft.rng.randint(2, 6), c: draft.rng.randint(1, 4)}
    image = draft.image(Scene("A photo of a market stall", crowd(counts, draft.rng)))
    p, q = draft.price(30, 95), draft.price(30, 95)
    draft.ask(
        "If {a} cost {p} euros each and {b} cost {q} euros each, what would I pay for all the {a} and {b} in {image}?",
        "{image} was taken at the market. I want every one of the {a} ({p} euros each) and of the {b} ({q} euros each) "
        "on it. How much money do I need?",
        "At {p} euros for {one_a} and {q} euros for {one_b}, what are all the {a} and {b} in the photo {image} worth "
        "together?",
        a=plural(a), b=plural(b), one_a=one(a), one_b=one(b), p=p, q=q, image=image,
    )  # fmt: skip
    first, second = (draft.call("CountGivenObject", image=image, text=name) for name in (a, b))
    total = draft.call("Calculator", expression=f"{first.ref('count')} * {p} + {second.ref('count')} * {q}")
    draft.tell(f"They cost {euros(total['result'])}.", forms(total["result"]))
    return [total]


def equation_on_a_sheet(draft: Draft) -> Sequence[Call]:
    """Both roots of a quadratic equation."""
    low, high = sorted(draft.rng.sample(range(1, 13), 2))
    b, c = -(low + high), low * high
    image = draft.image(Scene("A photo of a worksheet", formulas=(f"x^2{_signed(b, 'x')}{_signed(c)} = 0",)))
    draft.ask(
        "Which two numbers make the equation on the worksheet {image} true?",
        "My homework is in {image}. For which values of x does the equation hold?",
        "What are the roots of the equation that is printed in {image}?",
        image=image,
    )
    draft.call("MathOCR", image=image)
    found = draft.call("Solver", command=solver_code("x", f"x**2{_signed(b, '*x')}{_signed(c)}, 0"))
    draft.tell(f"x is {low} or {high}.", [str(low)], [str(high)])
    return [found]


def formula_at_two_points(draft: Draft) -> Sequence[Call]:
    """The value of an expression for two values of its variable."""
    a, b, c = draft.rng.randint(2, 9), draft.rng.randint(2, 12), draft.rng.randint(1, 30)
    x, y = draft.rng.sample(range(3, 15), 2)
    image = draft.image(Scene("A photo of a blackboard", formulas=(f"{a}t^2 + {b}t - {c}",)))
    draft.ask(
        "The blackboard in {image} shows an expression in t. What is it worth for t = {x}, and what for t = {y}?",
        "What value does the expression on the board ({image}) take when t is {x}? And when t is {y}?",
        "Please evaluate what is on the blackboard {image}, once with t = {x} and once with t = {y}.",
        image=image, x=x, y=y,
    )  # fmt: skip
    draft.call("MathOCR", image=image)
    found = [draft.call("Calculator", expression=f"{a} * {t}**2 + {b} * {t} - {c}") for t in (x, y)]
    draft.tell(f"It is {found[0]['result']} and {found[1]['result']}.", *(forms(one["result"]) for one in found))
    return found


def two_equations(draft: Draft) -> Sequence[Call]:
    """Two unknowns, an equation on each of two notes."""
    x, y = draft.rng.sample(range(2, 16), 2)
    a, b, c, d = (draft.rng.randint(2, 7) for _ in range(4))
    if a * d == b * c:
        d += 1
    notes = [
        draft.image(Scene("A photo of a handwritten note", formulas=(f"{p}x + {q}y = {p * x + q * y}",)))
        for p, q in ((a, b), (c, d))
    ]
    draft.ask(
        "The notes {one} and {other} have an equation each, with the same x and y. What are x and y?",
        "Find x and y: one equation is on {one}, the second one on {other}.",
        "Two equations in x and y were noted down, the first in {one}, the second in {other}. Which x and y fit both?",
        one=notes[0], other=notes[1],
    )  # fmt: skip
    for note in notes:
        draft.call("MathOCR", image=note)
    sides = (f"{p}*x + {q}*y, {p * x + q * y}" for p, q in ((a, b), (c, d)))
    found = draft.call("Solver", command=solver_code("x, y", *sides))
    draft.tell(f"x is {x} and y is {y}.", [str(x)], [str(y)])
    return [found]


def more_in_which_photo(draft: Draft) -> Sequence[Call]:
    """How many of a kind are on each of two photos."""
    kind, *others = draft.pick("animals", 3)
    numbers = draft.rng.sample(range(2, 8), 2)
    photos = [
        draft.image(Scene("A photo of a meadow", crowd({kind: n, draft.rng.choice(others): 3}, draft.rng)))
        for n in numbers
    ]
    draft.ask(
        "Are there more {kind} in {one} or in {other}? Tell me the number for both.",
        "How many {kind} are in {one}, and how many in {other}?",
        "I took two photos of the meadow, {one} and {other}. Which has more {kind}, and how many has each?",
        kind=plural(kind), one=photos[0], other=photos[1],
    )  # fmt: skip
    found = [draft.call("CountGivenObject", image=photo, text=kind) for photo in photos]
    draft.tell(f"There are {numbers[0]} and {numbers[1]}.", *(forms(str(n)) for n in numbers))
    return found


def food_for_a_herd(draft: Draft) -> Sequence[Call]:
    """What animals of three kinds eat in a day."""
    kinds = draft.pick("animals", 3)
    counts = {kind: draft.rng.randint(2, 5) for kind in kinds}
    eats = draft.rng.sample(range(2, 12), 3)
    image = draft.image(Scene("A photo of a farm", crowd(counts, draft.rng)))
    a, b, c = map(one, kinds)
    draft.ask(
        "Each day {a} eats {p} kg, {b} {q} kg and {c} {r} kg. How many kg of food do all the animals in {image} "
        "need a day?",
        "How much food, in kg, must be brought every day for the animals in the photo {image}, when {a} takes {p} kg, "
        "{b} takes {q} kg and {c} takes {r} kg?",
        "In our herd, {image}, {a} gets {p} kg of food a day, {b} {q} kg, {c} {r} kg. What is that in a day for all of "
        "them?",
        a=a, b=b, c=c, p=eats[0], q=eats[1], r=eats[2], image=image,
    )  # fmt: skip
    found = [draft.call("CountGivenObject", image=image, text=kind) for kind in kinds]
    parts = " + ".join(f"{call.ref('count')} * {kg}" for call, kg in zip(found, eats, strict=True))
    total = draft.call("Calculator", expression=parts)
    draft.tell(f"They need {total['result']} kg a day.", forms(total["result"]))
    return [total]


def attribute_of_a_thing(draft: Draft) -> Sequence[Call]:
    """The color, material or pattern of a piece of furniture."""
    image, wanted, _ = _room(draft)
    name, value = draft.rng.choice(wanted.attributes)
    draft.ask(
        "What is the {attribute} of the {thing} in {image}?",
        "Look at the {thing} in {image}: what {attribute} does it have?",
        "I want to buy the {thing} that is in the photo {image}. Which {attribute} is it?",
        attribute=name, thing=wanted.name, image=image,
    )  # fmt: skip
    box = draft.call("TextToBbox", image=image, text=wanted.name)
    told = draft.call("RegionAttributeDescription", image=image, bbox=box.ref("bbox"), attribute=name)
    draft.tell(f"Its {name} is {value}.", [value])
    return [told]


def same_color(draft: Draft) -> Sequence[Call]:
    """The colors of two things."""
    image, wanted, other = _room(draft)
    draft.ask(
        "Do the {a} and the {b} in {image} have the same color? Which color has each?",
        "In {image}, what color is the {a}, and what color the {b}?",
        "I need cushions for the {a} and the {b} of the room in {image}. Tell me the color of both.",
        a=wanted.name, b=other.name, image=image,
    )  # fmt: skip
    found = []
    for thing in (wanted, other):
        box = draft.call("TextToBbox", image=image, text=thing.name)
        found.append(draft.call("RegionAttributeDescription", image=image, bbox=box.ref("bbox"), attribute="color"))
    colors = [dict(thing.attributes)["color"] for thing in (wanted, other)]
    draft.tell(f"The {wanted.name} is {colors[0]}, the {other.name} is {colors[1]}.", *([color] for color in colors))
    return found


def two_attributes(draft: Draft) -> Sequence[Call]:
    """Two attributes of one thing."""
    image, wanted, _ = _room(draft)
    (a, first), (b, second) = draft.rng.sample(wanted.attributes, 2)
    draft.ask(
        "For an advertisement of the {thing} in {image} I need its {a} and its {b}.",
        "What are the {a} and the {b} of the {thing} in {image}?",
        "Please note {a} and {b} of the {thing} that is to be seen in {image}.",
        thing=wanted.name, a=a, b=b, image=image,
    )  # fmt: skip
    box = draft.call("TextToBbox", image=image, text=wanted.name)
    found = [
        draft.call("RegionAttributeDescription", image=image, bbox=box.ref("bbox"), attribute=name) for name in (a, b)
    ]
    draft.tell(f"The {a} is {first}, the {b} is {second}.", [first], [second])
    return found


def color_in_the_right_photo(draft: Draft) -> Sequence[Call]:
    """The color of a thing on that of two photos which shows a place."""
    (place, other), thing = draft.pick("places", 2), draft.one("clothes")
    colors = draft.pick("colors", 2)
    photos = {
        where: Scene(f"A photo of {one(where)}", _dressed(thing, color, draft.rng))
        for where, color in zip((place, other), colors, strict=True)
    }
    named = {where: draft.image(photos[where]) for where in draft.rng.sample([place, other], 2)}
    a, b = named.values()
    draft.ask(
        "One of the photos {a} and {b} was taken at {place}. What color is the {thing} on it?",
        "What color has the {thing} in the photo of {place}? It is either {a} or {b}.",
        "Of {a} and {b} I mean the one with {place}: which color is the {thing} there?",
        a=a, b=b, place=one(place), thing=thing,
    )  # fmt: skip
    for photo in (a, b):
        draft.call("ImageDescription", image=photo)
    box = draft.call("TextToBbox", image=named[place], text=thing)
    told = draft.call("RegionAttributeDescription", image=named[place], bbox=box.ref("bbox"), attribute="color")
    draft.tell(f"The {thing} is {colors[0]}.", [colors[0]])
    return [told]


def furthest_left(draft: Draft) -> Sequence[Call]:
    """Where three things are."""
    names = draft.pick("furniture", 5)
    things = tuple(Thing(name, box) for name, box in zip(names, places(5, draft.rng), strict=True))
    image = draft.image(Scene(_ROOM, things))
    asked = draft.rng.sample(things, 3)
    draft.ask(
        "Which of these is furthest to the left in {image}: the {a}, the {b} or the {c}?",
        "Of the {a}, the {b} and the {c} in {image}, which one stands to the left of the two others?",
        "Where in {image} are the {a}, the {b} and the {c}? I want to know which one is on the left of the others.",
        a=asked[0].name, b=asked[1].name, c=asked[2].name, image=image,
    )  # fmt: skip
    found = [draft.call("TextToBbox", image=image, text=thing.name) for thing in asked]
    first = min(asked, key=lambda thing: thing.box[0])
    draft.tell(f"The {first.name} is furthest to the left.", [first.name])
    return found


def _signed(factor: int, unknown: str = "") -> str:
    """A term with its sign; nothing for 0."""
    if not factor:
        return ""
    digits = unknown.lstrip("*") if abs(factor) == 1 and unknown else f"{abs(factor)}{unknown}"
    return f" {'+' if factor > 0 else '-'} {digits}"


def _room(draft: Draft) -> tuple[str, Thing, Thing]:
    """A room with four things, and two of them."""
    names = draft.pick("furniture", 4)
    things = tuple(
        Thing(name, box, tuple((kind, draft.one(f"{kind}s")) for kind in ("color", "material", "pattern")))
        for name, box in zip(names, places(4, draft.rng), strict=True)
    )
    wanted, other = draft.rng.sample(things, 2)
    return draft.image(Scene(_ROOM, things)), wanted, other


def _dressed(thing: str, color: str, rng: random.Random) -> tuple[Thing, ...]:
    person, worn = places(2, rng)
    return Thing("person", person), Thing(thing, worn, (("color", color),))


TEMPLATES: tuple[Template, ...] = (
    cost_of_two_kinds,
    equation_on_a_sheet,
    formula_at_two_points,
    two_equations,
    more_in_which_photo,
    food_for_a_herd,
    attribute_of_a_thing,
    same_color,
    two_attributes,
    color_in_the_right_photo,
    furthest_left,
)
