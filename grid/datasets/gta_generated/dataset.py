"""A closed set of cases, generated from the signatures of GTA's fourteen tools (tooltree §4.1).

GTA itself is `dataset=gta`. The set has 200 queries, five from each of 40 templates. The queries resemble GTA's in form
(steps, tools, categories, kinds of answers; see `agent-grid data gta_generated`), but are not taken from GTA. The web
pages and images do not come from GTA either: each page or image is a set of facts. Results on this set compare planners
with each other and are not results on GTA.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from grid.core.problem import Answering, Problem, Reference
from grid.core.types import Case, Plan, Step, Substep, ToolSpec, Trajectory, to_json
from grid.core.util import STRICT
from grid.datasets.dataset import RecordDataset
from grid.datasets.gta import answer_score, step_scores, tool_counts
from grid.datasets.gta_generated.draft import (
    COUNTING,
    Call,
    Draft,
    Record,
    Template,
    crowd,
    euros,
    forms,
    lines,
    listed,
    solver_code,
    version,
)
from grid.datasets.gta_generated.draft import facts as facts_of
from grid.datasets.gta_generated.questions import LOOKUPS, PICTURES, SHELVES
from grid.metrics.closed_set import PlanF1, closed_set_scores
from grid.worlds.scenes.scene import Scene, plural
from grid.worlds.scenes.tools import TOOLS
from grid.worlds.scenes.world import SceneWorld

# Query templates about prices on menus, receipts and tags.


def order_from_a_menu(draft: Draft) -> Sequence[Call]:
    """The total price of an order."""
    image, prices = _menu(draft)
    (a, p), (b, q) = draft.rng.sample(sorted(prices.items()), 2)
    n, m = draft.rng.randint(2, 5), draft.rng.randint(2, 5)
    draft.ask(
        "We are having {n} {a} and {m} {b} from the menu in {image}. What will the bill come to?",
        "{image} is the menu. How many euros do I have to pay for {n} {a} and {m} {b}?",
        "According to the menu in {image}, how much do {n} {a} and {m} {b} cost together?",
        n=n, m=m, a=_several(a.lower()), b=_several(b.lower()), image=image,
    )  # fmt: skip
    draft.call("OCR", image=image)
    total = draft.call("Calculator", expression=f"{n} * {p} + {m} * {q}")
    draft.tell(f"It costs {euros(total['result'])}.", forms(total["result"]))
    return [total]


def cheaper_of_two_cafes(draft: Draft) -> Sequence[Call]:
    """The amount saved at the cheaper of two cafés."""
    drinks = draft.prices("drinks", 4)
    other = {name: f"{float(price) + draft.rng.choice([0.2, 0.35, 0.4, 0.55]):.2f}" for name, price in drinks.items()}
    (cheap, dear), (a, b) = (drinks, other), draft.rng.sample(list(drinks), 2)
    menus = draft.rng.sample([cheap, dear], 2)
    one, two = (draft.image(Scene("A photo of a menu board", lines=lines("Menu", *listed(menu)))) for menu in menus)
    draft.ask(
        "{one} and {two} show the menu boards of two cafés. How much do I save on one {a} and one {b} together at the "
        "cheaper café?",
        "I want one {a} and one {b}. How many euros less would I pay at the cheaper of the two cafés in {one} and "
        "{two}?",
        "Two cafés, two menu boards: {one} and {two}. What is the difference in price for one {a} plus one {b}?",
        one=one, two=two, a=a.lower(), b=b.lower(),
    )  # fmt: skip
    draft.call("OCR", image=one)
    draft.call("OCR", image=two)
    saved = draft.call("Calculator", expression=f"({dear[a]} + {dear[b]}) - ({cheap[a]} + {cheap[b]})")
    draft.tell(f"You save {euros(saved['result'])}.", forms(saved["result"]))
    return [saved]


def shared_bill(draft: Draft) -> Sequence[Call]:
    """The share that each person in a photo pays."""
    people, each = draft.rng.randint(3, 7), draft.rng.randrange(900, 2600, 5)
    total = f"{people * each / 100:.2f}"
    dishes = list(draft.prices("dishes", 3))
    bill = draft.image(Scene("A photo of a receipt", lines=lines("Receipt", *dishes, f"Total {total}")))
    photo = draft.image(Scene("A group photo", crowd({"person": people}, draft.rng)))
    draft.ask(
        "Everyone in the photo {photo} pays an equal share of the bill in {bill}. How much does each person pay?",
        "We are the people in {photo}, and this is our receipt: {bill}. If we split it evenly, how much does each of "
        "us owe?",
        "Split the total on the receipt in {bill} evenly among everyone in {photo}. How much does each person pay?",
        bill=bill, photo=photo,
    )  # fmt: skip
    draft.call("OCR", image=bill)
    count = draft.call("CountGivenObject", image=photo, text="person")
    share = draft.call("Calculator", expression=f"{total} / {count.ref('count')}")
    draft.tell(f"Each pays {euros(share['result'])}.", forms(share["result"]))
    return [share]


def cost_and_change(draft: Draft) -> Sequence[Call]:
    """The cost of some packs, and the change from a banknote."""
    goods = draft.prices("groceries", 5)
    image = draft.image(Scene("A photo of a price list", lines=lines("Prices per pack", *listed(goods))))
    name, price = draft.rng.choice(sorted(goods.items()))
    packs, note = draft.rng.randint(2, 5), draft.rng.choice([100, 200])
    draft.ask(
        "The price list is in {image}. How much do {n} packs of {name} cost, and how much change do I get from {note} "
        "euros?",
        "I am buying {n} packs of {name} at the prices in {image} and paying with {note} euros. How much do they cost, "
        "and how much do I get back?",
        "How many euros do {n} packs of {name} cost according to {image}, and how many of my {note} euros are left "
        "after that?",
        n=packs, name=name.lower(), note=note, image=image,
    )  # fmt: skip
    draft.call("OCR", image=image)
    cost = draft.call("Calculator", expression=f"{packs} * {price}")
    left = draft.call("Calculator", expression=f"{note} - {cost.ref('result')}")
    draft.tell(
        f"It costs {euros(cost['result'])}, and {euros(left['result'])} are left.",
        forms(cost["result"]),
        forms(left["result"]),
    )
    return [cost, left]


def price_of_a_kilo(draft: Draft) -> Sequence[Call]:
    """The prices per kilogram of two goods in packs."""
    goods = draft.prices("groceries", 2)
    grams = draft.rng.sample([250, 400, 500, 750, 800], 2)
    labels = [f"{name} {g} g {price}" for (name, price), g in zip(goods.items(), grams, strict=True)]
    image = draft.image(Scene("A photo of price tags on a shelf", lines=lines(*labels)))
    a, b = goods
    draft.ask(
        "Going by the tags in {image}, what is the price in euros of 1 kg of {a}, and of 1 kg of {b}?",
        "The tags in {image} give pack sizes in grams. How much do {a} and {b} cost per kilogram?",
        "How many euros would a whole kilogram of the {a} cost, and a whole kilogram of the {b}, according to their "
        "tags in {image}?",
        a=a.lower(), b=b.lower(), image=image,
    )  # fmt: skip
    draft.call("OCR", image=image)
    found = [
        draft.call("Calculator", expression=f"{price} / {g} * 1000")
        for price, g in zip(goods.values(), grams, strict=True)
    ]
    draft.tell(
        f"1 kg of {a.lower()} is {euros(found[0]['result'])}, 1 kg of {b.lower()} {euros(found[1]['result'])}.",
        *(forms(one["result"]) for one in found),
    )
    return found


def cheaper_where(draft: Draft) -> Sequence[Call]:
    """The prices of one drink in two cafés."""
    menus = [draft.prices("drinks", 6) for _ in range(2)]
    name = draft.rng.choice(sorted(set(menus[0]) & set(menus[1])))
    while menus[0][name] == menus[1][name]:
        menus[1][name] = draft.price(200, 500)
    one, two = (draft.image(Scene("A photo of a menu board", lines=lines("Drinks", *listed(menu)))) for menu in menus)
    draft.ask(
        "How much does the {name} cost at the café in {one}, and how much at the café in {two}?",
        "Where is the {name} cheaper, according to the boards in {one} and {two}? Give me both prices.",
        "Compare the prices of the {name} on the boards in {one} and {two}.",
        name=name.lower(), one=one, two=two,
    )  # fmt: skip
    found = [draft.call("OCR", image=image) for image in (one, two)]
    draft.tell(f"It costs {menus[0][name]} and {menus[1][name]} euros.", *(forms(menu[name]) for menu in menus))
    return found


def two_receipts(draft: Draft) -> Sequence[Call]:
    """Two prices that can be deduced from two totals."""
    (a, p), (b, q) = draft.prices("drinks", 2).items()
    orders = draft.rng.choice([((2, 3), (1, 4)), ((3, 1), (2, 2)), ((1, 2), (4, 1)), ((2, 1), (3, 4))])
    sums = [f"{n * float(p) + m * float(q):.2f}" for n, m in orders]
    texts = [
        lines("Receipt", f"{n} {a}", f"{m} {b}", f"Total {total}") for (n, m), total in zip(orders, sums, strict=True)
    ]
    one, two = (draft.image(Scene("A photo of a receipt", lines=text)) for text in texts)
    draft.ask(
        "The receipts in {one} and {two} are from the same café and give only totals. How much does one {a} cost, and "
        "how much does one {b} cost?",
        "Our two receipts ({one}, {two}) list what we had and the total. Find out what a single {a} costs and what a "
        "single {b} costs.",
        "How much do one {a} and one {b} each cost, if the totals in {one} and {two} are right?",
        one=one, two=two, a=a.lower(), b=b.lower(),
    )  # fmt: skip
    draft.call("OCR", image=one)
    draft.call("OCR", image=two)
    sides = (f"{n}*x + {m}*y, {total}" for (n, m), total in zip(orders, sums, strict=True))
    found = draft.call("Solver", command=solver_code("x, y", *sides))
    draft.tell(f"One {a.lower()} costs {p} and one {b.lower()} {q} euros.", forms(p), forms(q))
    return [found]


def change_for_a_basket(draft: Draft) -> Sequence[Call]:
    """The change after paying for everything in a photo, at listed prices."""
    kinds = draft.pick("fruit", 3)
    counts = {kind: draft.rng.randint(2, 5) for kind in kinds}
    prices = {kind: draft.price(40, 130) for kind in kinds}
    board = draft.image(Scene("A photo of a price board", lines=lines("Price each", *listed(prices))))
    basket = draft.image(Scene("A photo of a basket", crowd(counts, draft.rng)))
    a, b, c = map(plural, kinds)
    draft.ask(
        "I am taking all the {a}, {b} and {c} in the basket in {basket} at the prices on the board in {board} and "
        "paying with 50 euros. How much change will I get?",
        "The board in {board} gives the price of each piece of fruit, and {basket} shows what I have in my basket: "
        "{a}, {b} and {c}. How much of my 50 euros is left once I have paid?",
        "How much of my 50 euros is left after I have paid for the {a}, {b} and {c} in {basket}? See {board} for the "
        "prices.",
        board=board, basket=basket, a=a, b=b, c=c,
    )  # fmt: skip
    draft.call("OCR", image=board)
    found = [draft.call("CountGivenObject", image=basket, text=kind) for kind in kinds]
    parts = " + ".join(f"{call.ref('count')} * {prices[kind]}" for call, kind in zip(found, kinds, strict=True))
    total = draft.call("Calculator", expression=parts)
    left = draft.call("Calculator", expression=f"50 - {total.ref('result')}")
    draft.tell(f"{euros(left['result'])} are left.", forms(left["result"]))
    return [left]


def _several(name: str) -> str:
    """The plural of something on a menu."""
    return name if name.endswith("s") else plural(name)


def _menu(draft: Draft) -> tuple[str, dict[str, str]]:
    goods = draft.prices("drinks", 4) | draft.prices("dishes", 3)
    return draft.image(Scene("A photo of a menu", lines=lines("Menu", *listed(goods)))), goods


PRICES: tuple[Template, ...] = (
    order_from_a_menu,
    cheaper_of_two_cafes,
    shared_bill,
    cost_and_change,
    price_of_a_kilo,
    cheaper_where,
    two_receipts,
    change_for_a_basket,
)


# A closed set of cases, generated from the signatures of GTA's fourteen tools (tooltree §4.1).


ADAPTER = 2
"""Increase this number when changed code yields different cases or outcomes for the same words and seed."""
TEMPLATES = (*COUNTING, *PRICES, *SHELVES, *LOOKUPS, *PICTURES)
OF_EACH = 5
"""The number of cases that are made from each template."""
Mode = Literal["end_to_end", "step_by_step"]


@dataclass(config=STRICT)
class GtaGenerated(RecordDataset[Record]):
    """The queries of one seed.

    In `mode` end_to_end, a case is a query, and is resolved when the outcome of the reference's last call has been
    obtained, no matter by which calls; if the answer needs several calls, all their outcomes must be obtained. In
    `mode` step_by_step, a case is one call of a query's reference, with the earlier calls already made. A case of one
    call has one decision, and is resolved by the outcome of the call. With a `limit`, the cases are a sample that keeps
    the templates' proportions, unless `order` is `file`.
    """

    mode: Mode = "end_to_end"
    seed: Annotated[int, Field(ge=0)] = 0
    answering: Answering = "after"
    plan_f1: PlanF1 = "links"

    @property
    def version(self) -> str:
        """The adapter's version, the words' fingerprint, the mode and the seed."""
        return f"gta-generated-{self.mode}-a{ADAPTER}-{version()}-{self.seed}"

    @property
    def tools(self) -> Mapping[str, ToolSpec]:
        """The fourteen tools."""
        return TOOLS

    @property
    def records(self) -> Mapping[str, Record]:
        """The queries by id."""
        return records(self.seed)

    def chosen(self) -> Sequence[str]:
        """All queries or, in step-by-step mode, all calls of their references."""
        return list(self._places)

    def cluster(self, case_id: str) -> str:
        """The template of the case's query."""
        return self._places[case_id][0].template

    def problem(self, case_id: str) -> Problem:
        """One case; the fourteen tools are the candidates."""
        record, step = self._places[case_id]
        world, resolution, done = record.world, record.resolution, _gold_steps(record, step or 0)
        if step is not None:
            world, resolution = _behind(record, step), (str(step),)
        tools = tuple(TOOLS.values())
        reference = Reference(
            {call.place: call.written for call in record.calls}, resolution, followed=False, answer=record.answer
        )
        return Problem(
            case=Case(case_id, record.query, Plan(()), done=done, decisions=None if step is None else 1),
            reference=reference,
            world=world,
            candidates=lambda case, substep: tools,
            library=TOOLS,
            same_function={},
            own=tuple(TOOLS),
            measure=partial(measure, record, reference, self.plan_f1)
            if step is None
            else partial(measure_step, record, reference, self.plan_f1, done),
        )

    @cached_property
    def _places(self) -> dict[str, tuple[Record, int | None]]:
        """For each case, its query and, if the case is a single call, the index of this call."""
        if self.mode == "end_to_end":
            return {name: (record, None) for name, record in self.records.items()}
        return {
            f"{name}-{step}": (record, step)
            for name, record in self.records.items()
            for step in range(len(record.calls))
        }


def measure(record: Record, reference: Reference, plan_f1: PlanF1, trajectory: Trajectory) -> Mapping[str, Any]:
    """End to end: ToolTree's four F1 scores (`grid.metrics.closed_set`), GTA's tool_counts and answer_score.

    The answer_score is 0 if there is no answer. Queries that ask for an image have no answer_score.
    """
    made = [step.call.tool for step in trajectory.steps if step.call]
    counts = tool_counts(made, [call.written.tool for call in record.calls])
    score = answer_score(trajectory.answer, record.wanted, None) if record.wanted else None
    own = closed_set_scores(trajectory, reference, record.concrete, record.outcomes, plan_f1=plan_f1)
    return {"tool_counts": to_json(counts), "answer_score": score, **own}


def measure_step(
    record: Record, reference: Reference, plan_f1: PlanF1, done: Sequence[Step], trajectory: Trajectory
) -> Mapping[str, Any]:
    """Step by step: ToolTree's F1 scores and GTA's accuracies for the single call that the case asks for."""
    step = trajectory.steps[0] if trajectory.steps else None
    own = closed_set_scores(trajectory, reference, record.concrete, record.outcomes, done, decisions=1, plan_f1=plan_f1)
    return {**step_scores(step, record.calls[len(done)].concrete), **own}


@cache
def records(seed: int) -> Mapping[str, Record]:
    """All queries of a seed. Images are numbered across all queries, so no two queries are the same."""
    found: dict[str, Record] = {}
    facts, first = facts_of(seed), 1
    for template in TEMPLATES:
        for number in range(OF_EACH):
            name = f"gta-generated-{template.__name__}-{number}"
            draft = Draft(random.Random(f"{name}-{seed}"), facts, number, first)
            found[name] = draft.finished(name, template.__name__, template(draft))
            first += len(draft.images)
    return found


def _behind(record: Record, step: int) -> SceneWorld:
    """The world just before the call `step`; the outcome of this call resolves the case."""
    before = record.calls[step - 1].state if step else record.world.start()
    # Outcomes of the earlier calls do not count, because call `step` may repeat one of these calls.
    return SceneWorld(
        record.world.images,
        record.world.web,
        record.calls[step].obtained,
        type(before)(before.made, scenes=before.scenes),
    )


def _gold_steps(record: Record, step: int) -> tuple[Step, ...]:
    return tuple(
        Step(0, Substep(call.place, "", ""), call.concrete, call.outcome, written=call.written)
        for call in record.calls[:step]
    )
