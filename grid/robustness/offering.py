"""Helpers for settings that change tools: offering additional tools, translating trajectories, creating names."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import permutations, product
from types import MappingProxyType
from typing import Any

from grid.core.problem import Candidates, Evaluator, Measure, Problem, Reference, Substitute
from grid.core.types import Case, Chain, Json, Observation, Parameter, Step, Substep, ToolCall, ToolSpec, Trajectory
from grid.core.util import derive_seed
from grid.text.references import needed
from grid.text.words import stems
from grid.worlds.layers import Layer
from grid.worlds.schema import ERROR

Offer = Callable[[Case, Substep, tuple[ToolSpec, ...]], tuple[ToolSpec, ...]]
"""A function that changes the candidates of a substep."""


def has_own_kind(problem: Problem) -> bool:
    """Whether a problem is a task of agent_planning_benchmark itself.

    The scorer of such a task supports only the task's own tools.
    """
    return problem.kind is not None and not isinstance(problem.world, Layer)


def needed_calls(problem: Problem) -> dict[str, ToolCall]:
    """The reference's calls that the resolution needs and that have not been made yet, keyed by step."""
    case, reference = problem.case, problem.reference
    wanted = reference.part(len(case.done), case.decisions).calls
    return {step: call for step, call in wanted.items() if call and step in needed(reference)}


def first_turn(reference: Reference, calls: Mapping[str, ToolCall]) -> dict[str, ToolCall]:
    """The calls of the first turn that contains any of `calls`; all of `calls` if an outline is followed."""
    found = dict[str, ToolCall]()
    for step, call in reference.calls.items():
        if step in calls:
            found[step] = calls[step]
        elif call is None and found and not reference.followed:
            break
    return found


def function_of(tool: str, problem: Problem) -> str:
    """The name of a tool's function, which all tools with this function share."""
    return problem.same_function.get(tool, tool)


def offered_as(problem: Problem, offer: Offer) -> Candidates:
    """The problem's candidates, changed by `offer`. Equal arguments give the same objects.

    Tools are retrieved for the query in `problem`, even if the query is changed later.
    """
    query = problem.case.query

    @cache
    def candidates(case: Case, substep: Substep) -> tuple[ToolSpec, ...]:
        stated = case if case.query == query else replace(case, query=query)
        return offer(case, substep, problem.candidates(stated, substep))

    return candidates


def beside(problem: Problem, new: Mapping[str, Sequence[ToolSpec]], seed: int) -> Problem:
    """The problem with new tools, each of which is placed next to an old tool.

    `new` maps an old tool's name to the new tools next to it. A new tool is offered wherever its old tool is offered,
    randomly (by the seed) before or after the old tool.
    """
    specs = {spec.name: spec for group in new.values() for spec in group}

    def offer(case: Case, substep: Substep, offered: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        rng = random.Random(derive_seed(seed, "beside", case.id, substep.id))
        names, mixed = {tool.name for tool in offered}, list[ToolSpec]()
        for tool in offered:
            group = [spec for spec in new.get(tool.name, ()) if spec.name not in names]
            names |= {spec.name for spec in group}
            place = rng.randint(0, len(group))
            mixed += [*group[:place], tool, *group[place:]]
        return tuple(mixed)

    own = (spec.name for anchor in problem.own for spec in new.get(anchor, ()))
    return replace(
        problem,
        candidates=offered_as(problem, offer),
        library=MappingProxyType({**problem.library, **specs}),
        own=tuple(dict.fromkeys((*problem.own, *own))),
        query_tools=problem.query_tools + len(specs),  # so that no old tool is crowded out
        case=_told_later(problem.case, new),
    )


def _told_later(case: Case, new: Mapping[str, Sequence[ToolSpec]]) -> Case:
    """The case; if an old tool is offered only from a later message on, so are the new tools next to it."""
    later = (
        replace(message, tools=message.tools | {one.name for tool in message.tools for one in new.get(tool, ())})
        for message in case.messages
    )
    return replace(case, messages=tuple(later))


def in_terms(problem: Problem, as_before: Callable[[Trajectory], Trajectory], own: Measure) -> Problem:
    """The problem with its metrics computed on the result of `as_before`, and with the metrics of `own` added."""
    examine = problem.examine

    def measure(trajectory: Trajectory) -> Mapping[str, Any]:
        return {**problem.measure(as_before(trajectory)), **own(trajectory)}

    async def examined(trajectory: Trajectory, evaluator: Evaluator) -> Mapping[str, Any]:
        return await examine(as_before(trajectory), evaluator) if examine else {}

    return replace(
        problem,
        measure=measure,
        examine=examined if examine else None,
        as_stated=lambda trajectory: problem.as_stated(as_before(trajectory)),
    )


def each_step(trajectory: Trajectory, change: Callable[[Step], Step]) -> Trajectory:
    """The trajectory with `change` applied to every step.

    A step that is both on the path and among the decisions remains a single object.
    """
    known = {id(step): change(step) for step in (*trajectory.steps, *trajectory.decisions)}
    steps, decisions = (tuple(known[id(step)] for step in part) for part in (trajectory.steps, trajectory.decisions))
    return replace(trajectory, steps=steps, decisions=decisions)


def with_call(step: Step, change: Callable[[ToolCall], ToolCall]) -> Step:
    """The step with `change` applied to its call, both as run and as written."""
    call, written = step.call and change(step.call), step.written and change(step.written)
    return step if (call, written) == (step.call, step.written) else replace(step, call=call, written=written)


def with_chain_calls(trajectory: Trajectory, change: Callable[[ToolCall], ToolCall]) -> Trajectory:
    """The trajectory with `change` applied to the calls of its predicted chains, if it has any."""

    def changed(chain: Chain | None) -> Chain | None:
        if chain is None:
            return None
        calls = ((one, change(ToolCall(one.name, one.arguments))) for one in chain.calls)
        return replace(chain, calls=tuple(replace(one, name=new.tool, arguments=new.arguments) for one, new in calls))

    return replace(
        trajectory,
        chain=changed(trajectory.chain),
        planned=changed(trajectory.planned),
        unrefined=changed(trajectory.unrefined),
    )


# A tool's double: the same function under a completely different name, with different argument names.
#
# Names are built by rules from synonyms, so that no suffix or prefix shows that a tool is a double.


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_HTTP = re.compile(r"(GET|POST|PUT|PATCH|DELETE) /")
_MOST_NOUNS = 2  # of a name
_TRIES = 200


class Double:
    """A tool and its double.

    Attributes:
        spec: the double, as a planner sees it.
        tool: the name of the original tool.
        substitute: the double as a substitute, with the double's names for the tool's arguments.
    """

    def __init__(self, spec: ToolSpec, tool: ToolSpec, arguments: dict[str, str]) -> None:
        self.spec, self.tool = spec, tool.name
        self.substitute = Substitute(spec.name, arguments)
        self._names = {own: name for name, own in arguments.items()}
        self._renamed = {name for name, own in arguments.items() if own != name}
        self._own = {tool.name: spec.name, **arguments}

    def original(self, call: ToolCall) -> ToolCall:
        """The call to the original tool that corresponds to a call to the double."""
        return ToolCall(self.tool, {self._names.get(name, name): value for name, value in call.arguments.items()})

    def strange(self, call: ToolCall) -> str | None:
        """A call's argument, if any, whose name exists only in the original tool.

        The result is None if there is no such argument.
        """
        return next((name for name in call.arguments if name in self._renamed), None)

    def told(self, observation: Observation) -> Observation:
        """The observation for a call to the double.

        If the call failed, the original tool's names are replaced by the double's names.
        """
        if not observation.failed:
            return observation
        return Observation({name: self._in_own(value) for name, value in observation.content.items()}, failed=True)

    def refused(self, argument: str) -> Observation:
        """The observation for a call with an argument name that only the original tool has (`strange`)."""
        return Observation({ERROR: f"{self.spec.name} has no argument {argument}."}, failed=True)

    def _in_own(self, value: Json) -> Json:
        return renamed(value, self._own) if isinstance(value, str) else value


def double(tool: ToolSpec, taken: Container[str], seed: int) -> Double:
    """A tool's double. Its name is not in `taken`, the names in use. The same seed gives the same double."""
    rng = random.Random(derive_seed(seed, "double", tool.name))
    name = next(name for name in _names(tool, rng) if name not in taken)
    arguments = _arguments(tool, rng)
    own = {tool.name: name, **arguments}
    parameters = tuple(
        replace(one, name=arguments[one.name], description=renamed(one.description, own)) for one in tool.parameters
    )
    return Double(
        replace(tool, name=name, description=_reworded(tool, own, rng), parameters=parameters), tool, arguments
    )


def renamed(text: str, names: dict[str, str]) -> str:
    """A text in which names are replaced, but only as whole words, and only if they do not look like common words."""
    for name, own in names.items():
        if name != own and not (name.islower() and name.isalpha()):
            text = own.join(re.split(rf"(?<!\w){re.escape(name)}(?!\w)", text))
    return text


def words(name: str) -> list[str]:
    """The words in a name, in lower case."""
    return [word.lower() for word in _WORD.findall(name)]


def _names(tool: ToolSpec, rng: random.Random) -> Iterator[str]:
    """Names for a tool's double, the most fitting first. No name contains a word of the tool's own name."""
    own = words(tool.name)
    barred = set(own) | set(stems(tool.name))

    def free(word: str) -> bool:
        return word not in barred and not barred.intersection(stems(word))

    described = [word for word in words(tool.description) if len(word) > 3 and word not in FUNCTION_WORDS]
    verbs = [other for word in (*own, *described) for other in VERBS.get(word, VERBS.get(word.removesuffix("s"), ()))]
    verbs = [word for word in dict.fromkeys(verbs) if free(word)][:4]
    rng.shuffle(verbs)
    verbs += [word for word in rng.sample(FREE_VERBS, len(FREE_VERBS)) if free(word)]
    nouns = [rng.choice(others) for word in dict.fromkeys((*own[1:], *own[:1])) if (others := _nouns(word, free))]
    nouns += [rng.choice(others) for word in dict.fromkeys(described) if (others := _nouns(word, free))]
    told = (word for word in described if free(word) and word not in VERBS and word.removesuffix("s") not in VERBS)
    nouns = [word for word in dict.fromkeys((*nouns, *told)) if word not in verbs[:1]][:4]
    nouns += [word for word in rng.sample(FREE_NOUNS, len(FREE_NOUNS)) if free(word)]
    groups = [tuple(nouns[:_MOST_NOUNS]), *permutations(nouns, _MOST_NOUNS)]
    for verb, group in product(verbs, groups):
        if verb not in group:
            yield _styled(tool.name, verb, group)
    for number in range(2, _TRIES):
        yield _styled(tool.name, verbs[-1], (*nouns[-2:], "of", *nouns[:number]))


def _nouns(word: str, free: Callable[[str], bool]) -> list[str]:
    """Alternative nouns for a word; empty if the stock has none, for example because the word names an action."""
    others = NOUNS.get(word) or NOUNS.get(word.removesuffix("s")) or ()
    return [other for other in others if free(other)]


def _styled(like: str, verb: str, nouns: tuple[str, ...]) -> str:
    """A name built from these words, in the same form as `like`."""
    method = _HTTP.match(like)
    if method:
        return f"{method[1]} /{nouns[0]}/{'-'.join((verb, *nouns[1:]))}"
    if ": " in like:
        return f"{' '.join(nouns).title()}: {verb}_{nouns[0]}"
    if "." in like and " " not in like:
        return f"{nouns[0]}.{'_'.join((verb, *nouns[1:]))}"
    if "_" not in like and not like.islower():
        joined = "".join(word.capitalize() for word in (verb, *nouns))
        return joined if like[0].isupper() else joined[0].lower() + joined[1:]
    return "_".join((verb, *nouns))


def _arguments(tool: ToolSpec, rng: random.Random) -> dict[str, str]:
    """Maps each argument's name to the double's name for it.

    A name is kept if none of its words is in the stock, or if its new name is already taken.
    """
    taken, found = {one.name for one in tool.parameters}, dict[str, str]()
    for parameter in tool.parameters:
        name = _argument(parameter, rng)
        found[parameter.name] = parameter.name if name in taken else name
        taken.add(name)
    return found


def _argument(parameter: Parameter, rng: random.Random) -> str:
    """The double's name for an argument: each word of the old name that is in the stock is replaced."""

    def other(match: re.Match[str]) -> str:
        word = match[0].lower()
        others = NOUNS.get(word) or VERBS.get(word) or NOUNS.get(word.removesuffix("s")) or (match[0],)
        chosen = rng.choice(others)
        return chosen.capitalize() if match[0][0].isupper() and chosen != match[0] else chosen

    return _WORD.sub(other, parameter.name)


def _reworded(tool: ToolSpec, names: dict[str, str], rng: random.Random) -> str:
    """The description without the tool's own name, and with its first verb replaced."""

    def other(match: re.Match[str]) -> str:
        word, ending = match[0], ""
        if word.lower() not in VERBS and word.lower().removesuffix("s") in VERBS:
            word, ending = word[:-1], "s"
        others = VERBS.get(word.lower())
        if not others:
            return match[0]
        chosen = rng.choice(others) + ending
        return chosen.capitalize() if word[0].isupper() else chosen

    first, space, rest = renamed(tool.description, names).partition(" ")
    return f"{re.sub(r'^[A-Za-z]+', other, first)}{space}{rest}"


# A small stock of words in tool names, each with alternatives that mean the same in such names.


_VERBS = """
get: obtain supply | fetch: obtain supply | retrieve: obtain supply | read: obtain supply | view: obtain supply
find: locate discover | search: locate discover | look: locate discover | lookup: locate discover
query: consult interrogate | ask: consult interrogate | list: enumerate itemise | show: present display
browse: explore survey | check: verify examine | verify: confirm examine | validate: confirm examine
inspect: examine survey | test: probe examine | assess: appraise gauge | evaluate: appraise gauge
measure: gauge appraise | calculate: compute reckon | compute: reckon calculate | estimate: appraise gauge
count: tally number | sum: total tally | solve: crack settle | convert: translate transform
translate: convert render | compare: contrast weigh | analyze: study dissect | analyse: study dissect
predict: forecast foresee | forecast: predict foresee | create: produce establish | make: produce establish
build: produce assemble | generate: produce compose | set: establish assign | add: append attach
insert: append attach | register: enrol record | log: record note | write: compose record | draw: sketch trace
book: reserve secure | reserve: secure hold | schedule: arrange plan | order: request purchase | buy: purchase acquire
rent: hire lease | pay: settle remit | send: dispatch transmit | mail: dispatch transmit | post: publish announce
publish: announce release | notify: alert inform | remind: alert prompt | share: circulate distribute
update: revise amend | change: revise amend | edit: revise amend | modify: revise amend | move: shift transfer
rename: relabel retitle | replace: swap exchange | copy: duplicate clone | delete: erase discard
remove: erase discard | erase: wipe discard | cancel: revoke annul | close: terminate conclude | stop: halt end
start: begin launch | open: unlock begin | play: perform run | run: execute perform | call: invoke summon
connect: attach link | download: pull save | upload: push submit | save: store keep | filter: sift screen
select: pick choose | sort: arrange rank | rank: arrange grade | detect: spot recognise | recognize: identify spot
classify: categorise label | describe: portray depict | summarize: condense digest | relate: link connect
track: follow trace | trace: follow track | issue: grant release | approve: accept grant | thank: acknowledge credit
preview: glimpse display | answer: respond reply | plan: arrange prepare | recommend: suggest advise
take: collect gather | return: yield hand | extract: pull isolate
"""
_NOUNS = """
file: document record | document: paper record | folder: directory cabinet | path: location route
content: text body | text: wording passage | name: title label | title: name heading | info: details facts
information: details facts | data: details facts | details: facts particulars | list: roster catalogue
item: article entry | product: article merchandise | order: purchase requisition | cart: basket trolley
basket: cart trolley | price: rate charge | cost: charge expense | payment: remittance settlement
invoice: bill statement | account: profile membership | user: person member | customer: client buyer
client: customer buyer | person: individual human | people: individuals humans | employee: worker colleague
guest: visitor attendee | member: participant subscriber | email: letter correspondence | mail: letter correspondence
message: note dispatch | phone: telephone line | address: residence location | location: place spot
place: spot site | city: town municipality | country: nation state | date: day moment | time: hour moment
event: occasion happening | calendar: agenda diary | meeting: appointment gathering | task: job assignment
project: undertaking venture | ticket: pass voucher | flight: airline journey | hotel: lodging accommodation
room: chamber suite | trip: journey voyage | travel: journey voyage | route: itinerary way | train: railway carriage
car: vehicle automobile | vehicle: automobile machine | weather: climate conditions | news: headlines bulletin
movie: film picture | film: movie picture | tv: television broadcast | song: track tune | music: tunes melodies
video: clip footage | image: picture photo | picture: image photo | color: shade hue | colour: shade hue
number: figure amount | value: figure quantity | amount: quantity sum | total: sum aggregate | result: outcome finding
status: state condition | state: condition situation | type: kind sort | category: class group | id: code key
key: identifier handle | code: identifier mark | query: request phrase | question: inquiry request
answer: reply response | review: opinion appraisal | rating: grade score | report: account summary
history: past chronicle | stock: share equity | company: firm business | market: exchange trade
book: volume publication
word: term expression | language: tongue idiom | page: sheet leaf | size: extent dimension | unit: measure denomination
entity: object thing | entities: objects things | concept: class notion | relation: link connection
attribute: property trait | attr: property trait | qualifier: condition modifier | expression: formula sum
calculator: arithmetic reckoner | search: lookup finder | device: appliance machine | memory: storage recall
gift: present donation | present: gift donation | registry: register roll | receipt: slip voucher
credits: contributors cast | season: series run | episode: instalment part | genre: kind style | limit: maximum cap
start: beginning origin | end: finish close | recipient: addressee receiver | subject: topic matter | body: text message
record: entry item | note: remark memo | contact: acquaintance correspondent | alarm: alert reminder
bank: lender institution | loan: credit advance | insurance: coverage protection | medicine: drug remedy
health: wellness fitness | doctor: physician medic | patient: case invalid | food: meal dish | recipe: dish formula
restaurant: eatery diner | store: shop outlet | shop: store outlet | team: squad side | player: athlete competitor
game: match contest | league: division competition | school: academy college | course: class lesson | job: position post
service: facility offering | request: application appeal | policy: rule guideline | plan: scheme programme
"""


def _read(stock: str) -> Mapping[str, tuple[str, ...]]:
    pairs = (entry.partition(":") for line in stock.strip().splitlines() for entry in line.split("|"))
    return {word.strip(): tuple(others.split()) for word, _, others in pairs}


VERBS = _read(_VERBS)
"""Maps verbs in tool names to other verbs with the same meaning."""
NOUNS = _read(_NOUNS)
"""Maps nouns in tool names to other nouns with the same meaning."""
FREE_VERBS = ("provide", "deliver", "handle", "procure")
FREE_NOUNS = ("matter", "subject", "material", "affair", "topic", "business")
"""Nouns for tools whose names contain no word in the stock."""
_FUNCTION_WORDS = """
about after against also another because been before being below between both called cannot chosen could does each
either else ensure every exist exists first from given have having here into itself like made many more most much must
need needs none only other over provided same should since some specific specified such than that their them then
there these they this those through tool tools under until used user uses using various very were what when where
whether which while will with within without would your function optional required allows returns return
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""Words in descriptions that do not name a thing or an action."""
