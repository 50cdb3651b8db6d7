"""Units and hyphens, and what an argument says of its value: its unit, and whether 09/28 is a day."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from grid.core.types import Json
from grid.worlds.equivalence import equivalent
from tests.support.loops import each
from tests.unit.worlds.test_equivalence import values

KG, CARD = "parcel_weight Weight of the parcel in kg", "card_expiry Expiry date of the card (MM/YY)"
DAY = "checkInDate Day of arrival"


@each(
    ("left", "right", "about"),
    [
        ("navy blue", "Navy-Blue", ""),
        ("first-class mail", "First Class mail", ""),
        ("14 percent", 14, ""),
        ("14 per cent", "14%", ""),
        ("14pct", "14 Percent", ""),
        ("20 dollars", "$20", ""),
        ("9kg", "9 kg", ""),
        ("9 kilograms", "9.0 KG", ""),
        ("90 min", "90 minutes", ""),
        ("-5 °C", "-5 celsius", ""),
        ("09/28", "09/28", ""),
        ("9 kg", 9, KG),
        ("9 kilograms", "9", KG),
        ("9 kg", 9, "weightKg"),
        ("9 kg", 9, "weight_kg"),
        ("9 m", 9, "length (m)"),
        ("9 m", 9, "length_m"),
        ("30 minutes", 30, "reminder Reminder time (minutes)"),
        (["9 kg", "8 kg"], [8, 9], KG),
        ({"weight_kg": "9 kg"}, {"weight_kg": 9}, "parcel"),
        ("9 kg", 9, "weight in kilograms, with at most 2 days on the way"),
        ("09/28", "September 28", DAY),
        ("09-28", "2025-09-28", DAY),
        ("09/28", "September 28", "start_date"),
        ("09/28", "09/28", CARD),
    ],
)
def test_what_an_argument_says_of_itself_tells_what_a_value_leaves_out(left: Json, right: Json, about: str) -> None:
    assert equivalent(left, right, about)
    assert equivalent(right, left, about)


@each(
    ("left", "right", "about"),
    [
        ("09/28", "September 28", ""),
        ("09/28", "28 September 2025", ""),
        ("09-28", "2025-09-28", ""),
        ("09/28", "09/29", ""),
        ("navy blue", "navy", ""),
        ("navy blue", "blue navy", ""),
        ("navy-blue", "navyblue", ""),
        ("re-sign", "resign", ""),
        ("AB-12", "AB12", ""),
        ("A-1", "A 1", ""),
        ("-5", "5", ""),
        ("14 percent", 0.14, ""),
        ("14 percent", "14 dollars", ""),
        ("14 percent", "14 kg", ""),
        ("9 kg", 9, ""),
        ("9 kg", "9 lb", ""),
        ("9 kg", "9 g", ""),
        ("9 kg", "9000 g", ""),
        ("9 m", "9 min", ""),
        ("5 minutes", "5 hours", ""),
        ("3 months", "3 mm", ""),
        ("9 kg", "9 kgx", ""),
        ("5G", 5, ""),
        ("12 rooms", 12, ""),
        ("$20", "20 kg", ""),
        ("9 lb", 9, KG),
        ("9 g", 9, KG),
        ("9 kg", 9, "weight in kg or lb"),
        ("9 kg", 9, "weight of the parcel"),
        ("9 kg", 8, KG),
        ("9 m", 9, "leaves at 9 a.m. for m"),
        ("30 minutes", 30, "reminder Reminder time (seconds)"),
        ("3 years", 3, "term in months"),
        ("09/28", "September 28", CARD),
        ("09/28", "28 September 2025", CARD),
        ("09/28", "September 28", "valid_until"),
        ("09/28", "September 28", "update"),
        ("09/28", "September 28", "ratio"),
    ],
)
def test_and_nothing_else_is_made_of_it(left: Json, right: Json, about: str) -> None:
    assert not equivalent(left, right, about)
    assert not equivalent(right, left, about)


@given(values, values, st.sampled_from(["", KG, CARD, DAY, "x" * 10_000]))
def test_whatever_an_argument_says_values_equal_themselves_and_sides_do_not_matter(
    left: Json, right: Json, about: str
) -> None:
    assert equivalent(left, left, about)
    assert equivalent(left, right, about) == equivalent(right, left, about)
