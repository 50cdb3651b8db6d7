"""Templates that end with a picture that was generated or made to look otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from grid.datasets.gta_generated.draft import Call, Draft, Template, lines, places
from grid.worlds.scenes.scene import Scene, Thing, one


def same_color_elsewhere(draft: Draft) -> Sequence[Call]:
    """A picture of something in the color of something else."""
    image, worn, color = _street(draft, "clothes")
    creature = draft.one("creatures")
    draft.ask(
        "Make a picture of {creature} that has the color of the {worn} in {image}.",
        "I would like to have a picture: {creature}, in the same color as the {worn} in {image}.",
        "Paint {creature} for me. Take the color from the {worn} in {image}.",
        creature=one(creature), worn=worn, image=image,
    )  # fmt: skip
    box = draft.call("TextToBbox", image=image, text=worn)
    draft.call("RegionAttributeDescription", image=image, bbox=box.ref("bbox"), attribute="color")
    return [draft.call("TextToImage", keywords=f"{color} {creature}")]


def picture_of_two_signs(draft: Draft) -> Sequence[Call]:
    """A picture of what two signs name."""
    creature, worn = draft.one("creatures"), draft.one("clothes")
    sign = draft.image(Scene("A photo of a sign at a gate", lines=lines(creature.upper())))
    label = draft.image(Scene("A photo of a shop sign", lines=lines(f"{worn} sale".upper())))
    draft.ask(
        "The sign in {a} names an animal, that in {b} something to wear. Make a picture of this animal with it.",
        "Create a picture in which the animal named on the sign {a} wears what the shop in {b} sells.",
        "I want to see the animal from the sign {a} in what is on sale in {b}. Make that picture.",
        a=sign, b=label,
    )  # fmt: skip
    draft.call("OCR", image=sign)
    draft.call("OCR", image=label)
    return [draft.call("TextToImage", keywords=f"{creature}, {worn}")]


def restyled_photo(draft: Draft) -> Sequence[Call]:
    """The right one of two photos in another look."""
    (place, other), style = draft.pick("places", 2), draft.one("styles")
    shown = draft.rng.sample([place, other], 2)
    photos = {where: draft.image(Scene(f"A photo of {one(where)}", _walkers(draft))) for where in shown}
    a, b = photos.values()
    draft.ask(
        "One of {a} and {b} is of {place}. Turn that one into {style}.",
        "I want my photo of {place} to look like {style}; I think it is {a} or {b}.",
        "Make {style} out of the photo with {place}, which is either {a} or {b}.",
        a=a, b=b, place=one(place), style=one(style),
    )  # fmt: skip
    for photo in (a, b):
        draft.call("ImageDescription", image=photo)
    return [draft.call("ImageStylization", image=photos[place], instruction=style)]


def titled_picture(draft: Draft) -> Sequence[Call]:
    """A photo in another look, with a title that stands elsewhere."""
    title, style, place = draft.one("titles"), draft.one("styles"), draft.one("places")
    photo = draft.image(Scene(f"A photo of {one(place)}", _walkers(draft)))
    cover = draft.image(Scene("A photo of a book cover", lines=lines(title)))
    draft.ask(
        "Turn the photo {photo} into {style} and write the title of the book in {cover} at the bottom in the middle.",
        "I am making a new cover: {photo} as {style}, with the title from the old cover {cover} in the middle at the "
        "bottom.",
        "The title in {cover} should stand at the bottom, in the middle, of {photo}, and {photo} should look like "
        "{style}.",
        photo=photo, cover=cover, style=one(style),
    )  # fmt: skip
    draft.call("OCR", image=cover)
    styled = draft.call("ImageStylization", image=photo, instruction=style)
    return [draft.call("AddText", image=styled.ref("image"), text=title, position="mb")]


def greeting_card(draft: Draft) -> Sequence[Call]:
    """A generated picture in the color of something, with a name on it."""
    image, vehicle, color = _street(draft, "vehicles")
    creature, name = draft.one("creatures"), draft.one("first")
    draft.ask(
        "Make a card for {name}: a picture of {creature} in the color of the {vehicle} in {image}, and the name "
        "{name} in the upper left corner.",
        "For {name} I want a picture of {creature} in exactly the color of the {vehicle} in {image}, with {name} "
        "written at the top left.",
        "Create {creature} that has the color of the {vehicle} in {image}, and put the name {name} into the top left "
        "corner of the picture.",
        name=name, creature=one(creature), vehicle=vehicle, image=image,
    )  # fmt: skip
    box = draft.call("TextToBbox", image=image, text=vehicle)
    draft.call("RegionAttributeDescription", image=image, bbox=box.ref("bbox"), attribute="color")
    made = draft.call("TextToImage", keywords=f"{color} {creature}")
    return [draft.call("AddText", image=made.ref("image"), text=name, position="lt")]


def national_flower(draft: Draft) -> Sequence[Call]:
    """A picture of the flower of the nation on a stamp."""
    ((nation, (color, flower)),) = draft.of(draft.facts.flowers, 1)
    image = draft.image(Scene("A photo of a stamp", lines=lines(nation.upper(), f"{draft.rng.randint(2, 90)} crowns")))
    draft.ask(
        "Make a picture of the national flower of the country that the stamp in {image} is from.",
        "Which country issued the stamp in {image}? I want a picture of its national flower, in the right color.",
        "For my album I need a picture of the national flower of the country that issued the stamp in {image}.",
        image=image,
    )  # fmt: skip
    draft.call("OCR", image=image)
    draft.call("GoogleSearch", query=f"national flower of {nation}")
    return [draft.call("TextToImage", keywords=f"{color} {flower}")]


def _street(draft: Draft, name: str) -> tuple[str, str, str]:
    """A street with three things of a list of the stock; one of them and its color."""
    names, colors = draft.pick(name, 3), draft.pick("colors", 3)
    things = tuple(
        Thing(thing, box, (("color", color),))
        for thing, color, box in zip(names, colors, places(3, draft.rng), strict=True)
    )
    return draft.image(Scene("A photo of a street", things)), names[0], colors[0]


def _walkers(draft: Draft) -> tuple[Thing, ...]:
    return tuple(Thing("person", box) for box in places(draft.rng.randint(1, 3), draft.rng))


TEMPLATES: tuple[Template, ...] = (
    same_color_elsewhere,
    picture_of_two_signs,
    restyled_photo,
    titled_picture,
    greeting_card,
    national_flower,
)
