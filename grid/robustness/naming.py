"""A tool's double: the same function under a wholly different name, with other names for its arguments.

Names are made by rule from `synonyms`: no suffix or prefix tells which tool is whose double.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Container, Iterator
from dataclasses import replace
from itertools import permutations, product

from grid.core.reference import Substitute
from grid.core.seeds import derive_seed
from grid.core.types import Json, Observation, Parameter, ToolCall, ToolSpec
from grid.robustness.synonyms import FREE_NOUNS, FREE_VERBS, FUNCTION_WORDS, NOUNS, VERBS
from grid.text.words import stems
from grid.worlds.schema import ERROR

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_HTTP = re.compile(r"(GET|POST|PUT|PATCH|DELETE) /")
_MOST_NOUNS = 2  # of a name
_TRIES = 200


class Double:
    """A tool and its double.

    Attributes:
        spec: the double, as a planner sees it.
        tool: the name of the tool whose double it is.
        substitute: which tool it is, and how the tool's arguments are called there.
    """

    def __init__(self, spec: ToolSpec, tool: ToolSpec, arguments: dict[str, str]) -> None:
        self.spec, self.tool = spec, tool.name
        self.substitute = Substitute(spec.name, arguments)
        self._names = {own: name for name, own in arguments.items()}
        self._renamed = {name for name, own in arguments.items() if own != name}
        self._own = {tool.name: spec.name, **arguments}

    def original(self, call: ToolCall) -> ToolCall:
        """A call of the double as one of the tool."""
        return ToolCall(self.tool, {self._names.get(name, name): value for name, value in call.arguments.items()})

    def strange(self, call: ToolCall) -> str | None:
        """An argument of a call by the tool's name for it, which the double does not know; None without any."""
        return next((name for name in call.arguments if name in self._renamed), None)

    def told(self, observation: Observation) -> Observation:
        """What a failed call returned, in the double's own names."""
        if not observation.failed:
            return observation
        return Observation({name: self._in_own(value) for name, value in observation.content.items()}, failed=True)

    def refused(self, argument: str) -> Observation:
        """What a call with a strange argument returns."""
        return Observation({ERROR: f"{self.spec.name} has no argument {argument}."}, failed=True)

    def _in_own(self, value: Json) -> Json:
        return renamed(value, self._own) if isinstance(value, str) else value


def double(tool: ToolSpec, taken: Container[str], seed: int) -> Double:
    """A tool's double; `taken` are names that others have. The same seed gives the same one."""
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
    """A text with names replaced where they stand as whole words; names that are common words stay in prose."""
    for name, own in names.items():
        if name != own and not (name.islower() and name.isalpha()):
            text = own.join(re.split(rf"(?<!\w){re.escape(name)}(?!\w)", text))
    return text


def words(name: str) -> list[str]:
    """The words that a name is made of, in lower case."""
    return [word.lower() for word in _WORD.findall(name)]


def _names(tool: ToolSpec, rng: random.Random) -> Iterator[str]:
    """Names without a word of the tool's, the fitting ones first; as many as anybody could need."""
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
    """Other nouns for a word, none where it says what is done and not with what."""
    others = NOUNS.get(word) or NOUNS.get(word.removesuffix("s")) or ()
    return [other for other in others if free(other)]


def _styled(like: str, verb: str, nouns: tuple[str, ...]) -> str:
    """The words as a name of the same form."""
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
    """Each argument's name to its double's; one that no word of the stock stands in stays."""
    taken, found = {one.name for one in tool.parameters}, dict[str, str]()
    for parameter in tool.parameters:
        name = _argument(parameter, rng)
        found[parameter.name] = parameter.name if name in taken else name
        taken.add(name)
    return found


def _argument(parameter: Parameter, rng: random.Random) -> str:
    """An argument's name word by word."""

    def other(match: re.Match[str]) -> str:
        word = match[0].lower()
        others = NOUNS.get(word) or VERBS.get(word) or NOUNS.get(word.removesuffix("s")) or (match[0],)
        chosen = rng.choice(others)
        return chosen.capitalize() if match[0][0].isupper() and chosen != match[0] else chosen

    return _WORD.sub(other, parameter.name)


def _reworded(tool: ToolSpec, names: dict[str, str], rng: random.Random) -> str:
    """The description without the tool's own name, its first verb by another word."""

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
