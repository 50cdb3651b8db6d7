"""Templates for queries that search the web, make pictures, or concern shelves and charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grid.datasets.gta_generated.draft import (
    Call,
    Draft,
    Template,
    counted,
    crowd,
    euros,
    forms,
    lines,
    listed,
    places,
    words,
)
from grid.worlds.scenes.scene import Box, Scene, Thing, one, plural


def framed_thing(draft: Draft) -> Sequence[Call]:
    """A frame around one of two things of the same kind but different colors."""
    image, (wanted, _) = _pairs(draft)
    draft.ask(
        "Put a frame around the {thing} in {image}.",
        "In {image}, show me where the {thing} is by putting a frame around it.",
        "Please highlight the {thing} in the photo {image} with a frame.",
        thing=wanted, image=image,
    )  # fmt: skip
    box = draft.call("TextToBbox", image=image, text=wanted)
    return [draft.call("DrawBox", image=image, bbox=box.ref("bbox"))]


def two_frames(draft: Draft) -> Sequence[Call]:
    """Frames around two things in one image."""
    image, (first, second) = _pairs(draft)
    draft.ask(
        "Frame both the {a} and the {b} in {image}, so that I have one picture with two frames.",
        "I need one copy of {image} in which the {a} and the {b} each have a frame around them.",
        "Mark two things in {image} with frames, both in the same picture: the {a} and the {b}.",
        a=first, b=second, image=image,
    )  # fmt: skip
    box = draft.call("TextToBbox", image=image, text=first)
    framed = draft.call("DrawBox", image=image, bbox=box.ref("bbox"))
    box = draft.call("TextToBbox", image=image, text=second)
    return [draft.call("DrawBox", image=framed.ref("image"), bbox=box.ref("bbox"))]


def building_on_a_sign(draft: Draft) -> Sequence[Call]:
    """The opening year of a building whose name is on a sign."""
    ((name, (year, _)),) = draft.of(draft.facts.landmarks, 1)
    image = draft.image(Scene("A photo of a street sign", lines=lines(f"To {name}", f"{draft.rng.randint(2, 9)}00 m")))
    draft.ask(
        "In which year did the building that the sign in {image} points to open?",
        "I walked past this sign: {image}. Since when has the building named on it been open?",
        "How old is the place signposted in {image}? The year it opened will do.",
        image=image,
    )  # fmt: skip
    draft.call("OCR", image=image)
    found = draft.call("GoogleSearch", query=f"{name} opening year")
    draft.tell(f"The {name} was opened in {year}.", [str(year)])
    return [found]


def higher_of_two(draft: Draft) -> Sequence[Call]:
    """The heights of two buildings named on a signpost."""
    (a, (_, high)), (b, (_, low)) = draft.of(draft.facts.landmarks, 2)
    image = draft.image(Scene("A photo of a signpost", lines=lines(f"{a} 2 km", f"{b} 5 km")))
    draft.ask(
        "Which of the two landmarks on the signpost in {image} is taller, and how tall is each of them?",
        "We only have time for one of the landmarks on this signpost: {image}. How tall is each of them? We will go to "
        "the taller one.",
        "Compare the heights of the two landmarks that the signpost in {image} points to.",
        image=image,
    )  # fmt: skip
    draft.call("OCR", image=image)
    found = [draft.call("GoogleSearch", query=f"{name} height") for name in (a, b)]
    draft.tell(f"The {a} is {high} m and the {b} {low} m high.", [str(high)], [str(low)])
    return found


def birthplace_of_an_author(draft: Draft) -> Sequence[Call]:
    """The birthplace of a book's author."""
    ((title, author),) = draft.of(draft.facts.books, 1)
    image = draft.image(Scene("A photo of a book cover", lines=lines(title, "A novel")))
    draft.ask(
        "Where was the author of the book in {image} born?",
        "I am reading the book shown in {image}. Which town does its author come from?",
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
    """The price and warranty of a watch, from the web; the photo shows the watch's brand."""
    ((brand, (price, years)),) = draft.of(draft.facts.watches, 1)
    things = [
        Thing(name, box, (("brand", brand), ("color", draft.one("colors"))) if name == "watch" else ())
        for name, box in zip(draft.rng.sample(["watch", "book", "pen"], 3), places(3, draft.rng), strict=True)
    ]
    image = draft.image(Scene("A photo of a desk", tuple(things)))
    draft.ask(
        "How much does a watch of the brand in {image} cost, and how many years of warranty does it come with?",
        "Somebody left a watch on the desk in {image}. How much does a watch like that cost, and for how many years is "
        "it under warranty?",
        "Find out the brand of the watch in {image}, and tell me its price and how many years of warranty it has.",
        image=image,
    )  # fmt: skip
    box = draft.call("TextToBbox", image=image, text="watch")
    draft.call("RegionAttributeDescription", image=image, bbox=box.ref("bbox"), attribute="brand")
    found = draft.call("GoogleSearch", query=f"{brand} watch")
    draft.tell(f"It costs {price} euros, with a warranty of {counted(years, 'year')}.", [str(price)], [str(years)])
    return [found]


def two_dogs(draft: Draft) -> Sequence[Call]:
    """The heights of two breeds of dogs."""
    (a, (high, _)), (b, (low, _)) = draft.of(draft.facts.dogs, 2)
    photos = [
        draft.image(Scene(f"A photo of {one(breed)} on a lawn", (Thing("dog", (200, 150, 700, 600)),)))
        for breed in (a, b)
    ]
    draft.ask(
        "Which breed grows taller, that of the dog in {a} or that of the dog in {b}? How tall does each of them grow?",
        "There is a dog in {a} and another in {b}. How tall does each of the two breeds get?",
        "I need a kennel for the dogs in {a} and {b}. How tall do dogs of these breeds get?",
        a=photos[0], b=photos[1],
    )  # fmt: skip
    for photo in photos:
        draft.call("ImageDescription", image=photo)
    found = [draft.call("GoogleSearch", query=f"{breed} height") for breed in (a, b)]
    draft.tell(f"{a}s grow {high} cm and {b}s {low} cm tall.", [str(high)], [str(low)])
    return found


def sum_on_a_receipt(draft: Draft) -> Sequence[Call]:
    """The sum of the prices on a receipt, written on the photo of the receipt."""
    goods = draft.prices("groceries", 3)
    image = draft.image(Scene("A photo of a receipt", lines=lines("Receipt", *listed(goods))))
    draft.ask(
        "The receipt in {image} is missing its total. Write the total, just the number, in the lower right corner of "
        "the picture.",
        "Please put the sum of all the prices on the receipt in {image} at the bottom right of the picture, as a "
        "number and nothing else.",
        "How much do the items on the receipt in {image} cost altogether? I want only that number written on the "
        "picture, at the bottom right.",
        image=image,
    )  # fmt: skip
    draft.call("OCR", image=image)
    total = draft.call("Calculator", expression=" + ".join(goods.values()))
    return [draft.call("AddText", image=image, text=total.ref("result"), position="rb")]


def price_in_euros(draft: Draft) -> Sequence[Call]:
    """The price in euros of a dish that is priced in another currency."""
    ((nation, rate),) = draft.of(draft.facts.crowns, 1)
    goods = draft.prices("dishes", 4)
    image = draft.image(Scene("A photo of a menu", lines=lines(f"Prices in {nation} crowns", *listed(goods))))
    dish, price = draft.rng.choice(sorted(goods.items()))
    draft.ask(
        "The menu in {image} has prices in a foreign currency. How many euros does the {dish} cost?",
        "I paid for the {dish} on the menu in {image}. How much is that in euros?",
        "What is the price in euros of the {dish} on the menu in {image}, at the current exchange rate?",
        dish=dish.lower(), image=image,
    )  # fmt: skip
    draft.call("OCR", image=image)
    draft.call("GoogleSearch", query=f"{nation} crown exchange rate in euros")
    cost = draft.call("Calculator", expression=f"{price} * {rate}")
    draft.tell(f"It costs {euros(cost['result'])}.", forms(cost["result"]))
    return [cost]


def energy_of_two_bars(draft: Draft) -> Sequence[Call]:
    """The energy of two snack bars in kcal, and in percent of a day's energy."""
    (a, p), (b, q) = draft.of(draft.facts.bars, 2)
    n, m = draft.rng.sample([25, 30, 35, 40, 45, 50, 60], 2)
    day = draft.rng.choice([2000, 2200, 2500])
    image = draft.image(Scene("A photo of two snack bars", lines=lines(f"{a} bar {n} g", f"{b} bar {m} g")))
    draft.ask(
        "I ate both bars in {image}. How many kcal is that, and what percentage of the {day} kcal that I am allowed "
        "each day?",
        "How much energy, in kcal, do the two bars in {image} have together, and what percentage of {day} kcal is "
        "that?",
        "Tell me the total kcal of the bars in {image}, and what percentage that is of my {day} kcal a day.",
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
    """An image of four things in different colors, and the color and name of two of them.

    The four things form two pairs; a pair's things are of the same kind. The two named things are from different pairs.
    """
    names, colors = draft.pick("furniture", 2), draft.pick("colors", 4)
    kinds = [*zip(names * 2, colors, strict=True)]
    draft.rng.shuffle(kinds)
    things = tuple(
        Thing(name, box, (("color", color),)) for (name, color), box in zip(kinds, places(4, draft.rng), strict=True)
    )
    image = draft.image(Scene("A photo of a showroom", things))
    return image, [f"{color} {name}" for name, color in zip(names, colors[:2], strict=True)]


LOOKUPS: tuple[Template, ...] = (
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


# Templates that end with a generated picture, or with a picture in another style.


def same_color_elsewhere(draft: Draft) -> Sequence[Call]:
    """A picture of a creature in the color of a piece of clothing in a photo."""
    image, worn, color = _street(draft, "clothes")
    creature = draft.one("creatures")
    draft.ask(
        "Make a picture of {creature} that is the same color as the {worn} in {image}.",
        "I would like a picture of {creature} in the color of the {worn} in {image}.",
        "Paint {creature} for me. Take the color from the {worn} in {image}.",
        creature=one(creature), worn=worn, image=image,
    )  # fmt: skip
    box = draft.call("TextToBbox", image=image, text=worn)
    draft.call("RegionAttributeDescription", image=image, bbox=box.ref("bbox"), attribute="color")
    return [draft.call("TextToImage", keywords=f"{color} {creature}")]


def picture_of_two_signs(draft: Draft) -> Sequence[Call]:
    """A picture of an animal and a piece of clothing, each of which is named on a sign."""
    creature, worn = draft.one("creatures"), draft.one("clothes")
    sign = draft.image(Scene("A photo of a sign at a gate", lines=lines(creature.upper())))
    label = draft.image(Scene("A photo of a shop sign", lines=lines(f"{worn} sale".upper())))
    draft.ask(
        "The sign in {a} names an animal, and the one in {b} something to wear or carry. Make a picture of that animal "
        "with it.",
        "Create a picture in which the animal named on the sign in {a} has the item that the shop in {b} sells.",
        "I want to see the animal from the sign in {a} with the item that is on sale in {b}. Make that picture.",
        a=sign, b=label,
    )  # fmt: skip
    draft.call("OCR", image=sign)
    draft.call("OCR", image=label)
    return [draft.call("TextToImage", keywords=f"{creature}, {worn}")]


def restyled_photo(draft: Draft) -> Sequence[Call]:
    """A photo in another style. There are two photos, and the query names the place that the right photo shows."""
    (place, other), style = draft.pick("places", 2), draft.one("styles")
    shown = draft.rng.sample([place, other], 2)
    photos = {where: draft.image(Scene(f"A photo of {one(where)}", _walkers(draft))) for where in shown}
    a, b = photos.values()
    draft.ask(
        "Either {a} or {b} is a photo of {place}. Turn that one into {style}.",
        "I want my photo of {place} to look like {style}. The photo is either {a} or {b}.",
        "Make {style} out of the photo of {place}, which is either {a} or {b}.",
        a=a, b=b, place=one(place), style=one(style),
    )  # fmt: skip
    for photo in (a, b):
        draft.call("ImageDescription", image=photo)
    return [draft.call("ImageStylization", image=photos[place], instruction=style)]


def titled_picture(draft: Draft) -> Sequence[Call]:
    """A photo in another style, with a title taken from a second image."""
    title, style, place = draft.one("titles"), draft.one("styles"), draft.one("places")
    photo = draft.image(Scene(f"A photo of {one(place)}", _walkers(draft)))
    cover = draft.image(Scene("A photo of a book cover", lines=lines(title)))
    draft.ask(
        "Turn the photo {photo} into {style} and write the title of the book in {cover} in the middle at the bottom.",
        "I am making a new cover: {photo} as {style}, with the title from the old cover in {cover} in the middle at "
        "the bottom.",
        "The title in {cover} should appear in the middle at the bottom of {photo}, and {photo} should look like "
        "{style}.",
        photo=photo, cover=cover, style=one(style),
    )  # fmt: skip
    draft.call("OCR", image=cover)
    styled = draft.call("ImageStylization", image=photo, instruction=style)
    return [draft.call("AddText", image=styled.ref("image"), text=title, position="mb")]


def greeting_card(draft: Draft) -> Sequence[Call]:
    """A generated picture with a name on it, in the color of something in a photo."""
    image, vehicle, color = _street(draft, "vehicles")
    creature, name = draft.one("creatures"), draft.one("first")
    draft.ask(
        "Make a card for {name}: a picture of {creature} in the color of the {vehicle} in {image}, with the name "
        "{name} in the upper left corner.",
        "For {name}, I want a picture of {creature} in exactly the same color as the {vehicle} in {image}, with {name} "
        "written at the top left.",
        "Create {creature} that is the color of the {vehicle} in {image}, and put the name {name} in the top left "
        "corner of the picture.",
        name=name, creature=one(creature), vehicle=vehicle, image=image,
    )  # fmt: skip
    box = draft.call("TextToBbox", image=image, text=vehicle)
    draft.call("RegionAttributeDescription", image=image, bbox=box.ref("bbox"), attribute="color")
    made = draft.call("TextToImage", keywords=f"{color} {creature}")
    return [draft.call("AddText", image=made.ref("image"), text=name, position="lt")]


def national_flower(draft: Draft) -> Sequence[Call]:
    """A picture of the national flower of the nation that issued a stamp."""
    ((nation, (color, flower)),) = draft.of(draft.facts.flowers, 1)
    image = draft.image(Scene("A photo of a stamp", lines=lines(nation.upper(), f"{draft.rng.randint(2, 90)} crowns")))
    draft.ask(
        "Make a picture of the national flower of the country that the stamp in {image} is from.",
        "Which country issued the stamp in {image}? I want a picture of its national flower, in the right color.",
        "For my album, I need a picture of the national flower of the country that issued the stamp in {image}.",
        image=image,
    )  # fmt: skip
    draft.call("OCR", image=image)
    draft.call("GoogleSearch", query=f"national flower of {nation}")
    return [draft.call("TextToImage", keywords=f"{color} {flower}")]


def _street(draft: Draft, name: str) -> tuple[str, str, str]:
    """An image of a street with three things from a list of the stock, and one thing's name and color."""
    names, colors = draft.pick(name, 3), draft.pick("colors", 3)
    things = tuple(
        Thing(thing, box, (("color", color),))
        for thing, color, box in zip(names, colors, places(3, draft.rng), strict=True)
    )
    return draft.image(Scene("A photo of a street", things)), names[0], colors[0]


def _walkers(draft: Draft) -> tuple[Thing, ...]:
    return tuple(Thing("person", box) for box in places(draft.rng.randint(1, 3), draft.rng))


PICTURES: tuple[Template, ...] = (
    same_color_elsewhere,
    picture_of_two_signs,
    restyled_photo,
    titled_picture,
    greeting_card,
    national_flower,
)


# Templates about things on shelves, and about charts.


_SHELVES: tuple[Box, ...] = ((0, 0, 1000, 240), (0, 250, 1000, 490), (0, 500, 1000, 750))
_CHART = """```python
import matplotlib.pyplot as plt
def solution():
    labels = {labels}
    values = {values}
    figure = plt.figure()
    plt.{kind}(labels, values)
    return figure
```"""


def chart_code(points: Mapping[str, str]) -> str:
    """Code that draws a bar for each point."""
    return _CHART.format(labels=list(points), values=f"[{', '.join(points.values())}]", kind="bar")


def on_a_shelf_and_in_all(draft: Draft) -> Sequence[Call]:
    """The number of things on one shelf, and the number of things on all shelves together."""
    image, kind, counts = _cupboard(draft)
    shelf = draft.rng.choice(list(counts))
    draft.ask(
        "How many {kind} are on the {shelf} in {image}, and how many are there on all the shelves together?",
        "Tell me the number of {kind} on the {shelf} in {image} and the total number of {kind}.",
        "I am taking stock of the cupboard in {image}. How many {kind} are on the {shelf}, and how many are there in "
        "the whole photo?",
        kind=plural(kind), shelf=shelf, image=image,
    )  # fmt: skip
    box = draft.call("TextToBbox", image=image, text=shelf)
    part = draft.call("CountGivenObject", image=image, text=kind, bbox=box.ref("bbox"))
    whole = draft.call("CountGivenObject", image=image, text=kind)
    draft.tell(f"{part['count']} of {whole['count']}.", forms(part["count"]), forms(whole["count"]))
    return [part, whole]


def more_on_one_shelf(draft: Draft) -> Sequence[Call]:
    """The difference between the numbers of things on two shelves."""
    image, kind, counts = _cupboard(draft)
    shelves = sorted(draft.rng.sample(list(counts), 2), key=lambda shelf: -counts[shelf])
    draft.ask(
        "In {image}, how many more {kind} are there on the {a} than on the {b}?",
        "By how many does the number of {kind} on the {a} exceed the number on the {b}? The photo is {image}.",
        "The {a} in {image} holds more {kind} than the {b}. How many more?",
        kind=plural(kind), a=shelves[0], b=shelves[1], image=image,
    )  # fmt: skip
    found = _counted(draft, image, kind, shelves)
    more = draft.call("Calculator", expression=f"{found[0].ref('count')} - {found[1].ref('count')}")
    draft.tell(f"{more['result']} more.", forms(more["result"]))
    return [more]


def filled_shelves(draft: Draft) -> Sequence[Call]:
    """The number of things that must be added to make all shelves as full as the fullest shelf."""
    image, kind, counts = _cupboard(draft)
    draft.ask(
        "All three shelves in {image} (the upper, middle and lower shelf) should hold as many {kind} as the one with "
        "the most does now. How many {kind} do I have to buy?",
        "How many more {kind} would it take for the upper, the middle and the lower shelf in {image} all to have as "
        "many as the one that has the most?",
        "I want to fill up the upper, the middle and the lower shelf in {image} until each has as many {kind} as the "
        "one with the most has already. How many more do I need?",
        kind=plural(kind), image=image,
    )  # fmt: skip
    found = _counted(draft, image, kind, list(counts))
    most = max(found, key=lambda call: int(str(call["count"])))
    parts = " - ".join(call.ref("count") for call in found)
    missing = draft.call("Calculator", expression=f"3 * {most.ref('count')} - {parts}")
    draft.tell(f"{missing['result']} are missing.", forms(missing["result"]))
    return [missing]


def chart_of_two_notes(draft: Draft) -> Sequence[Call]:
    """A bar chart of the numbers on two notes."""
    days = list(draft.pick("days", 5))
    visitors = {day: str(draft.rng.randint(11, 95)) for day in sorted(days, key=words()["days"].index)}
    halves = dict(list(visitors.items())[:3]), dict(list(visitors.items())[3:])
    one, two = (draft.image(Scene("A photo of a note", lines=lines("Visitors", *listed(half)))) for half in halves)
    draft.ask(
        "The visitor numbers for the first days of the week are in {one}, and the rest are in {two}. Show all five "
        "days in one bar chart.",
        "Please make a single bar chart of the number of visitors per day from both notes, {one} and {two}.",
        "I need a bar chart of the five days listed in {one} and {two}, with the number of visitors on each day.",
        one=one, two=two,
    )  # fmt: skip
    draft.call("OCR", image=one)
    draft.call("OCR", image=two)
    return [draft.call("Plot", command=chart_code(visitors))]


def chart_of_a_farm(draft: Draft) -> Sequence[Call]:
    """A chart, in another style, of the animals in a farmyard that is shown in one of two photos."""
    kinds, style = draft.pick("animals", 4), draft.one("styles")
    counts = {kind: draft.rng.randint(1, 5) for kind in kinds}
    farm = Scene("A photo of a farmyard", crowd(counts, draft.rng))
    other = Scene("A photo of a petting zoo", crowd({kind: draft.rng.randint(1, 5) for kind in kinds}, draft.rng))
    scenes = draft.rng.sample([farm, other], 2)
    photos = [draft.image(scene) for scene in scenes]
    draft.ask(
        "Either {one} or {two} shows a farmyard. Make a bar chart of how many {a}, {b}, {c} and {d} are in that "
        "photo, and then turn the chart into {style}.",
        "I need {style} of a bar chart. It should show the numbers of {a}, {b}, {c} and {d} in the farmyard, which is "
        "in one of the photos {one} and {two}.",
        "Find out which of {one} and {two} shows a farmyard, make a bar chart of how many {a}, {b}, {c} and {d} are in "
        "it, and make the chart look like {style}.",
        one=photos[0], two=photos[1], style=one(style), **dict(zip("abcd", map(plural, kinds), strict=True)),
    )  # fmt: skip
    for photo in photos:
        draft.call("ImageDescription", image=photo)
    right = photos[scenes.index(farm)]
    found = {kind: draft.call("CountGivenObject", image=right, text=kind) for kind in kinds}
    chart = draft.call("Plot", command=chart_code({plural(kind): call.ref("count") for kind, call in found.items()}))
    return [draft.call("ImageStylization", image=chart.ref("image"), instruction=style)]


def _counted(draft: Draft, image: str, kind: str, shelves: Sequence[str]) -> list[Call]:
    """Find each shelf, and count the things on it."""
    found = []
    for shelf in shelves:
        box = draft.call("TextToBbox", image=image, text=shelf)
        found.append(draft.call("CountGivenObject", image=image, text=kind, bbox=box.ref("bbox")))
    return found


def _cupboard(draft: Draft) -> tuple[str, str, dict[str, int]]:
    """An image of three shelves with things of two kinds, the first kind, and the count of this kind on each shelf.

    These counts differ.
    """
    kind, other = draft.pick("goods", 2)
    shelves = dict(zip(words()["shelves"], draft.rng.sample(range(1, 6), 3), strict=True))
    things: list[Thing] = []
    for (shelf, count), (left, top, right, bottom) in zip(shelves.items(), _SHELVES, strict=True):
        things.append(Thing(shelf, (left, top, right, bottom)))
        things += crowd({kind: count, other: 2}, draft.rng, (left, top, right, bottom))
    return draft.image(Scene("A photo of a cupboard", tuple(things))), kind, shelves


SHELVES: tuple[Template, ...] = (
    on_a_shelf_and_in_all,
    more_on_one_shelf,
    filled_shelves,
    chart_of_two_notes,
    chart_of_a_farm,
)
