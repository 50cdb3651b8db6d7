"""Dates and times by the grammar of the project: it reads what people write, and as dateutil does."""

from __future__ import annotations

import datetime as dt
import random
import warnings

import pytest
from dateutil import parser
from hypothesis import given
from hypothesis import strategies as st

from grid.worlds.equivalence import equivalent, paired_off, read_moment

days = st.dates(dt.date(1970, 1, 1), dt.date(2068, 12, 31))
times = st.times().map(lambda time: time.replace(microsecond=0))
parts = st.sampled_from(
    ["jan", "january", "sept.", "march", "1st", "5", "05", "15", "15th", "31", "2023", "23", "'23", "2023-01-15",
     "2023/1/5", "01/15/2023", "15/01/2023", "01/15/23", "01-15", "3 pm", "12 am", "3 p.m.", "15:00", "9:05:30",
     "3:30 pm", "15:00:00.5", "z", "+02:00", "-0500", "of", "at", "on", ",", "monday", "fri", "t", ":", "-", "noon"]
)  # fmt: skip


@given(st.lists(parts, max_size=6), st.sampled_from(["", " "]))
def test_what_is_read_is_what_another_reader_reads(found: list[str], between: str) -> None:
    text = between.join(found)
    moment = read_moment(text)
    if moment is None:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = parser.parse(text, default=dt.datetime(2000, 1, 1))
    if moment.day:
        assert moment.day == (other.month, other.day), text
    if moment.year:
        assert moment.year == other.year, text
    if moment.time:
        assert moment.time == (other.hour, other.minute), text
    if moment.second is not None:
        assert moment.second == other.second, text


@given(days, times, st.sampled_from(["{d} {t}", "{d}, {t}", "{d} at {t}", "{t} on {d}", "{w}, {d} {t}", "{t}, {d}"]))
def test_whatever_people_write_is_read_whole(day: dt.date, time: dt.time, order: str) -> None:
    month, short = day.strftime("%B").lower(), day.strftime("%b").lower()
    dates = [day.isoformat(), f"{month} {day.day}, {day.year}", f"{day.day} {short} {day.year}", f"{day:%m/%d/%Y}"]
    clocks = [f"{time:%H:%M:%S}", f"{time:%I:%M:%S %p}".lower(), f"{time:%I:%M:%S}{'ap'[time.hour > 11]}.m."]
    for date in dates:
        for clock in clocks:
            text = order.format(d=date, t=clock, w=f"{day:%A}".lower())
            moment = read_moment(text)
            assert moment is not None, text
            assert (moment.year, moment.day) == (day.year, (day.month, day.day)), text
            assert (moment.time, moment.second) == ((time.hour, time.minute), time.second), text
            assert moment.weekday == (day.weekday() if "{w}" in order else None)


@pytest.mark.parametrize(
    "text",
    ["sept 10-11, 2025", "2023-04-09/2023-04-12", "11:00-13:00", "10:00 11:00", "jan 45", "31 february 2023", "13 pm",
     "january 2023", "2023", "may", "monday", "mar 12th street", "janitor 5", "24:00", "10:00:00 jan 15:00", "", "t"],
)  # fmt: skip
def test_what_is_no_moment(text: str) -> None:
    assert read_moment(text) is None


def test_years_of_two_digits_do_not_depend_on_today() -> None:
    assert equivalent("01/15/68", "2068-01-15")
    assert equivalent("01/15/69", "1969-01-15")


def test_zones_do_not_count_and_stand_beside_a_day_only() -> None:
    assert equivalent("2023-01-15T15:00:00Z", "January 15, 2023 3 pm")
    assert equivalent("Tue, 11 Jul 2023 13:15:07 +0000", "2023-07-11 13:15:07")
    assert not equivalent("15:00-18:00", "15:00")


def test_most_rows_are_paired_off() -> None:
    """As scipy's assignment does."""
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    rng = random.Random(1)
    for _ in range(300):
        rows, columns, density = rng.randint(1, 7), rng.randint(1, 7), rng.random()
        alike = [[rng.random() < density for _ in range(columns)] for _ in range(rows)]
        matrix = np.array(alike)
        assert paired_off(alike) == int(matrix[linear_sum_assignment(matrix, maximize=True)].sum())
    assert paired_off([]) == 0
    most = 1500  # a chain in which the last row makes all others give way
    chain = [[column in (row, row + 1) for column in range(most)] for row in range(most - 1)]
    assert paired_off([*chain, [column == 0 for column in range(most)]]) == most
