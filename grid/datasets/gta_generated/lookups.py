"""Templates that look something up on the web, or write and draw on an image."""

from __future__ import annotations

from collections.abc import Sequence

from grid.datasets.gta_generated.draft import Call, Draft, Template, euros, forms, lines, listed, places
from grid.worlds.scenes.scene import Scene, Thing, one


def framed_thing(draft: Draft) -> Sequence[Call]:
    """A frame around one of two things of a kind."""
    image, (wanted, _) = _pairs(draft)
    draft.ask(
        "Put a frame around the {thing} in {image}.",
        "In {image}, show me where the {thing} is by framing it.",
        "Please highlight the {thing} in the photo {image} with a frame.",
        thing=wanted, image=image,
    )  # fmt: skip
    box = draft.call("TextToBbox", image=image, text=wanted)
    return [draft.call("DrawBox", image=image, bbox=box.ref("bbox"))]


def two_frames(draft: Draft) -> Sequence[Call]:
    """Frames around two things, on one image."""
    image, (first, second) = _pairs(draft)
    draft.ask(
        "Frame both the {a} and the {b} in {image}, so that I have one picture with two frames.",
        "I need one copy of {image} on which the {a} and the {b} have a frame each.",
        "Mark two things in {image} with frames on the same picture: the {a} and the {b}.",
        a=first, b=second, image=image,
    )  # fmt: skip
    box = draft.call("TextToBbox", image=image, text=first)
    framed = draft.call("DrawBox", image=image, bbox=box.ref("bbox"))
    box = draft.call("TextToBbox", image=image, text=second)
    return [draft.call("DrawBox", image=framed.ref("image"), bbox=box.ref("bbox"))]


def building_on_a_sign(draft: Draft) -> Sequence[Call]:
    """When the building opened that a sign names."""
    ((name, (year, _)),) = draft.of(draft.facts.landmarks, 1)
    image = draft.image(Scene("A photo of a street sign", lines=lines(f"To {name}", f"{draft.rng.randint(2, 9)}00 m")))
    draft.ask(
        "In which year was the building that the sign in {image} points to opened?",
        "I came past this sign: {image}. Since when has the building on it been open?",
        "How old is the place that is signposted in {image}? The year of its opening will do.",
        image=image,
    )  # fmt: skip
    draft.call("OCR", image=image)
    found = draft.call("GoogleSearch", query=f"{name} opening year")
    draft.tell(f"The {name} was opened in {year}.", [str(year)])
    return [found]


def higher_of_two(draft: Draft) -> Sequence[Call]:
    """Which of two buildings on a signpost is higher."""
    (a, (_, high)), (b, (_, low)) = draft.of(draft.facts.landmarks, 2)
    image = draft.image(Scene("A photo of a signpost", lines=lines(f"{a} 2 km", f"{b} 5 km")))
    draft.ask(
        "Which of the two sights on the signpost in {image} is higher, and how high are they?",
        "We only have time for one of the sights on this signpost, {image}. How high is each of them? We take the "
        "higher one.",
        "Compare the heights of the two sights that {image} shows the way to.",
        image=image,
    )  # fmt: skip
    draft.call("OCR", image=image)
    found = [draft.call("GoogleSearch", query=f"{name} height") for name in (a, b)]
    draft.tell(f"The {a} is {high} m and the {b} {low} m high.", [str(high)], [str(low)])
    return found


def birthplace_of_an_author(draft: Draft) -> Sequence[Call]:
    """Where the author of a book was born."""
    ((title, author),) = draft.of(draft.facts.books, 1)
    image = draft.image(Scene("A photo of a book cover", lines=lines(title, "A novel")))
    draft.ask(
        "Where was the author of the book in {image} born?",
        "I am reading the book that you see in {image}. From which town does its author come?",
        "Who wrote the novel in {image}, and in which town was that person born?",
        image=image,
    )  # fmt: skip
    draft.call("OCR", image=image)
    draft.call("GoogleSearch", query=f"author of the novel {title}")
    found = draft.call("GoogleSearch", query=f"{author} born in")
    town = draft.facts.people[author]
    draft.tell(f"{author} was born in {town}.", [town])
    return [found]


def warranty_of_a_watch(draft: Draft) -> Sequence[Call]:
    """What the web says of a watch whose brand is to be seen."""
    ((brand, (price, years)),) = draft.of(draft.facts.watches, 1)
    things = [
        Thing(name, box, (("brand", brand), ("color", draft.one("colors"))) if name == "watch" else ())
        for name, box in zip(draft.rng.sample(["watch", "book", "pen"], 3), places(3, draft.rng), strict=True)
    ]
    image = draft.image(Scene("A photo of a desk", tuple(things)))
    draft.ask(
        "What does a watch of the brand in {image} cost, and how many years of warranty does it have?",
        "Somebody left a watch on the desk in {image}. What is the price of such a watch, and for how many years is it "
        "under warranty?",
        "Find the brand of the watch in {image} and tell me its price and the years of warranty.",
        image=image,
    )  # fmt: skip
    box = draft.call("TextToBbox", image=image, text="watch")
    draft.call("RegionAttributeDescription", image=image, bbox=box.ref("bbox"), attribute="brand")
    found = draft.call("GoogleSearch", query=f"{brand} watch")
    draft.tell(f"It costs {price} euros, with {years} years of warranty.", [str(price)], [str(years)])
    return [found]


def two_dogs(draft: Draft) -> Sequence[Call]:
    """Which of two breeds grows taller."""
    (a, (high, _)), (b, (low, _)) = draft.of(draft.facts.dogs, 2)
    photos = [
        draft.image(Scene(f"A photo of {one(breed)} on a lawn", (Thing("dog", (200, 150, 700, 600)),)))
        for breed in (a, b)
    ]
    draft.ask(
        "Which breed grows taller, that of the dog in {a} or that of the dog in {b}? How tall do they grow?",
        "There is a dog in {a} and another in {b}. How tall does each of the two breeds get?",
        "I need a kennel for the dogs in {a} and {b}. What height do dogs of these breeds reach?",
        a=photos[0], b=photos[1],
    )  # fmt: skip
    for photo in photos:
        draft.call("ImageDescription", image=photo)
    found = [draft.call("GoogleSearch", query=f"{breed} height") for breed in (a, b)]
    draft.tell(f"{a}s grow {high} cm and {b}s {low} cm tall.", [str(high)], [str(low)])
    return found


def sum_on_a_receipt(draft: Draft) -> Sequence[Call]:
    """A receipt with its sum written on it."""
    goods = draft.prices("groceries", 3)
    image = draft.image(Scene("A photo of a receipt", lines=lines("Receipt", *listed(goods))))
    draft.ask(
        "The receipt {image} lacks its sum. Write the sum, just the number, into the lower right corner of the "
        "picture.",
        "Please put the sum of all prices on the receipt {image} at the bottom right of it, as a number and nothing "
        "else.",
        "What do the things on {image} cost together? I want only that number written on the picture, bottom right.",
        image=image,
    )  # fmt: skip
    draft.call("OCR", image=image)
    total = draft.call("Calculator", expression=" + ".join(goods.values()))
    return [draft.call("AddText", image=image, text=total.ref("result"), position="rb")]


def price_in_euros(draft: Draft) -> Sequence[Call]:
    """What a dish costs in another currency."""
    ((nation, rate),) = draft.of(draft.facts.crowns, 1)
    goods = draft.prices("dishes", 4)
    image = draft.image(Scene("A photo of a menu", lines=lines(f"Prices in crowns of {nation}", *listed(goods))))
    dish, price = draft.rng.choice(sorted(goods.items()))
    draft.ask(
        "The menu in {image} has prices in a foreign currency. How many euros does the {dish} cost?",
        "I paid for the {dish} on the menu {image}. How much is that in euros?",
        "What is the price of the {dish} by the menu {image}, in euros, at the present rate?",
        dish=dish.lower(), image=image,
    )  # fmt: skip
    draft.call("OCR", image=image)
    draft.call("GoogleSearch", query=f"{nation} crown exchange rate in euros")
    cost = draft.call("Calculator", expression=f"{price} * {rate}")
    draft.tell(f"It costs {euros(cost['result'])}.", forms(cost["result"]))
    return [cost]


def energy_of_two_bars(draft: Draft) -> Sequence[Call]:
    """The energy of two bars, and its share of what a day needs."""
    (a, p), (b, q) = draft.of(draft.facts.bars, 2)
    n, m = draft.rng.sample([25, 30, 35, 40, 45, 50, 60], 2)
    day = draft.rng.choice([2000, 2200, 2500])
    image = draft.image(Scene("A photo of two snack bars", lines=lines(f"{a} bar {n} g", f"{b} bar {m} g")))
    draft.ask(
        "I ate both bars in {image}. How many kcal is that, and how many percent of the {day} kcal that I may have "
        "a day?",
        "How much energy, in kcal, do the two bars in {image} have together, and what percentage is it of {day} kcal?",
        "Tell me the kcal of the bars in {image} in sum, and the same in percent of my {day} kcal a day.",
        image=image, day=day,
    )  # fmt: skip
    draft.call("OCR", image=image)
    for name in (a, b):
        draft.call("GoogleSearch", query=f"{name} bar kcal per 100 g")
    total = draft.call("Calculator", expression=f"{n} * {p} / 100 + {m} * {q} / 100")
    share = draft.call("Calculator", expression=f"{total.ref('result')} / {day} * 100")
    draft.tell(
        f"{total['result']} kcal, which is {share['result']} percent.", forms(total["result"]), forms(share["result"])
    )
    return [total, share]


def _pairs(draft: Draft) -> tuple[str, list[str]]:
    """A room with two pairs of things that differ in color; the names of one of each pair, with the color."""
    names, colors = draft.pick("furniture", 2), draft.pick("colors", 4)
    kinds = [*zip(names * 2, colors, strict=True)]
    draft.rng.shuffle(kinds)
    things = tuple(
        Thing(name, box, (("color", color),)) for (name, color), box in zip(kinds, places(4, draft.rng), strict=True)
    )
    image = draft.image(Scene("A photo of a showroom", things))
    return image, [f"{color} {name}" for name, color in zip(names, colors[:2], strict=True)]


TEMPLATES: tuple[Template, ...] = (
    framed_thing,
    two_frames,
    building_on_a_sign,
    higher_of_two,
    birthplace_of_an_author,
    warranty_of_a_watch,
    two_dogs,
    sum_on_a_receipt,
    price_in_euros,
    energy_of_two_bars,
)
