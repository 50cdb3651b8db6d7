"""Databases as values: what a version holds against plain copies of the same database."""

from __future__ import annotations

import copy
import json
import pickle
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from grid.datasets.tau2.package import Table, Version, written


class Order(BaseModel):
    """A record."""

    items: list[str]
    price: float


class Device(BaseModel):
    """A part that is no table."""

    on: bool = False
    apps: list[str] = []


class Shop(BaseModel):
    """Two tables and two parts."""

    orders: dict[str, Order]
    names: dict[str, list[str]]
    device: Device
    log: list[Device]


def shop() -> Shop:
    """A database of five orders."""
    orders = {f"o{n}": Order(items=[f"i{n}"], price=n) for n in range(5)}
    return Shop(orders=orders, names={"a": ["x"]}, device=Device(), log=[Device(on=True)])


def change(database: Any, rng: random.Random) -> None:
    """One of the things that a tool does, the same to a version's database as to a plain one."""
    key = rng.choice(sorted(database.orders))  # one that was deleted and is added again stands where it was
    match rng.randrange(8):
        case 0:
            database.orders[key].items.append("more")
        case 1:
            database.orders[key] = Order(items=[], price=rng.choice([1, 1.0, 2.5]))
        case 2:
            database.orders[f"n{len(database.orders)}"] = Order(items=["new"], price=9)
        case 3 if len(database.orders) > 1:
            del database.orders[key]
        case 4:
            database.device.on = not database.device.on
        case 5:
            database.log.append(Device(apps=[key]))
        case 6:
            for order in database.orders.values():
                order.price += 1
        case _:
            database.device = Device(apps=["a", key])


@given(st.integers(0, 2**32), st.integers(1, 12))
def test_a_version_is_what_plain_copies_are(seed: int, steps: int) -> None:
    base = shop()
    before, plain, versions = written(base), shop(), [Version(base)]
    kept = [written(plain)]
    for step in range(steps):
        worked = versions[-1].working(writing=True)
        change(worked, random.Random(f"{seed} {step}"))
        change(plain, random.Random(f"{seed} {step}"))
        versions.append(versions[-1].behind(worked))
        kept.append(written(plain))
        assert set(worked.orders) == set(plain.orders)
        assert len(worked.orders) == len(plain.orders)
    assert written(base) == before
    for version, as_plain in zip(versions, kept, strict=True):
        assert _written(version) == as_plain
    for one, first in zip(versions, kept, strict=True):
        for other, second in zip(versions, kept, strict=True):
            assert one.same(other) == (first == second)


def _written(version: Version) -> str:
    worked = version.working(writing=False)
    found = {
        name: {key: one.model_dump() if isinstance(one, BaseModel) else one for key, one in value.items()}
        if isinstance(value := getattr(worked, name), Table)
        else json.loads(written(value))
        for name in type(version.base).model_fields
    }
    return json.dumps(found, sort_keys=True, default=str)


def test_what_changes_nothing_is_the_same_version() -> None:
    version = Version(shop())
    worked = version.working(writing=True)
    worked.orders["o1"].price += 0
    worked.device.on = False
    assert version.behind(worked) is version


def test_reading_copies_no_record_and_writing_does() -> None:
    version = Version(shop())
    assert version.working(writing=False).orders["o1"] is version.base.orders["o1"]  # type: ignore[attr-defined]
    assert version.working(writing=True).orders["o1"] is not version.base.orders["o1"]  # type: ignore[attr-defined]


def test_versions_share_what_no_call_changed() -> None:
    first = Version(shop())
    worked = first.working(writing=True)
    worked.orders["o2"].price = 7
    second = first.behind(worked)
    worked = second.working(writing=True)
    worked.device.on = True
    third = second.behind(worked)
    assert third.records["orders"] is second.records["orders"]
    assert third.base is first.base
    assert not first.records
    assert not second.parts


def test_numbers_are_as_they_are_written() -> None:
    """1 and 1.0 are equal in Python and have different hashes in the package."""
    one = Version(Shop.model_construct(orders={}, names={}, device=1, log=[]))  # type: ignore[arg-type]
    other = Version(one.base, {}, {"device": 1.0})
    assert not one.same(other)


def test_a_missing_record_is_a_key_error_and_deleted_ones_are_missing() -> None:
    worked = Version(shop()).working(writing=True)
    with pytest.raises(KeyError):
        worked.orders["nobody"]
    with pytest.raises(KeyError):
        del worked.orders["nobody"]
    del worked.orders["o1"]
    assert "o1" not in worked.orders
    assert worked.orders.get("o1") is None
    assert 3 not in worked.orders


def test_versions_travel() -> None:
    version = Version(shop())
    worked = version.working(writing=True)
    worked.names["b"] = ["y"]
    after = version.behind(worked)
    assert pickle.loads(pickle.dumps(after)).same(copy.deepcopy(after))  # noqa: S301 - written above
