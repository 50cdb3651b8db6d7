"""The atomic query tools over a graph or an endpoint, as the tools of a case (planning_horizon §4.1, B.1.2)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from grid.core.errors import ConfigError, EngineError, one_line
from grid.core.types import FINISH, RESULT, Observation, ToolCall, ToolSpec
from grid.core.untrusted import loads
from grid.core.world import State, own_state
from grid.text.http import PASSING, is_loopback, plain_url, retry_after
from grid.worlds.handles import ANSWER, CallError, answer_of, handle, place, shown, texts_of
from grid.worlds.schema import ERROR, Expected, Vocabulary
from grid.worlds.sparql import graph as literals
from grid.worlds.sparql import tools
from grid.worlds.sparql.graph import (
    KnowledgeGraph,
    Limits,
    Node,
    Result,
    Row,
    SelectGraph,
    answer_text,
    answers,
    number,
    ordered,
    parts_of,
    read,
    told,
    vocabularies,
)
from grid.worlds.sparql.queries import (
    ENTITY,
    NAME,
    NOW,
    NS,
    OFFSET,
    SIGNS,
    XSD,
    And,
    Arg,
    Class,
    Compare,
    Comparison,
    Count,
    Dialect,
    Entity,
    Expression,
    Extreme,
    Join,
    SparqlError,
    TimeConstraint,
    Value,
    atom,
    ending,
    query,
)
from grid.worlds.sparql.tools import EXTRACT, TOOLS

if TYPE_CHECKING:
    import httpx


T = TypeVar("T")


@dataclass(frozen=True)
class SparqlState:
    """The successful calls so far, their results, and the answer.

    A call is the tool's name, followed by the arguments in the tool's order. Results follow from the calls, so two
    states with equal calls and answers are equal. `answer` has the values of the given answer; it is None until an
    answer is given.
    """

    calls: tuple[tuple[str, ...], ...] = ()
    answer: tuple[str, ...] | None = None
    results: tuple[Result, ...] = field(default=(), compare=False, repr=False)


_START = SparqlState()


@dataclass(frozen=True)
class SparqlWorld:
    """A case's seven tools over a graph; the world's state is the results so far.

    A successful call returns {"result": "$n", "value": ...}. Results are numbered from 0, and `$n` refers to result n
    in later calls; `value` gives the number of the result's members and names the first ten. As in the paper, a call
    represents a whole expression, which is built from the calls whose results it uses. A call fails if its expression
    denotes nothing, its arguments do not fit, or it exceeds a limit. A failed call returns {"error": why} and leaves no
    result.

    If `answered` is true, the call `finish(answer)` gives the case's answer: one or more texts or `$n`, separated by a
    semicolon and a space. After a successful `finish`, the answer does not change. If `answered` is false, the latest
    result is the answer. In an answer, entities are given by their ids; an entity of the reference may also be given by
    its name.

    Attributes:
        graph: the graph, which is never changed and may be shared.
        reference: the ids and values of the case's answer.
        names: the names of the entities in `reference`.
        mentions: the dataset's links from texts in the question to an id, a class, or a literal with its datatype.
        answered: whether `finish` gives the answer; if not, the latest result is the answer.
    """

    graph: KnowledgeGraph
    reference: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=dict, hash=False)
    mentions: Mapping[str, str] = field(default_factory=dict, hash=False)
    answered: bool = False
    branches: ClassVar[bool] = True

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The seven tools."""
        return tuple(TOOLS.values())

    def start(self) -> SparqlState:
        """The state without results."""
        return _START

    async def apply(self, state: State, call: ToolCall) -> tuple[SparqlState, Observation]:
        """Run one call; the observation's `error` describes any fault of the call. EngineError if a server fails."""
        before = own_state(state, SparqlState)
        results = before.results
        try:
            if before.answer is not None:
                raise SparqlError("the question is answered already")
            if self.answered and call.tool == FINISH:
                given = answer_of(call, len(results), lambda number: results[number].texts)
                return replace(before, answer=given), Observation({ANSWER: answer_text(given)})
            made, result, value = await self._asked(lambda: self._run(results, call))
        except CallError as error:
            return before, Observation({ERROR: f"{error}."}, failed=True)
        after = SparqlState((*before.calls, made), None, (*results, result))
        return after, Observation({RESULT: handle(len(results)), "value": value})

    async def identifiers(self, state: State, call: ToolCall) -> Mapping[str, Expected]:
        """The names that a call expects: names in the graph's schema, and names of the graph's entities.

        The candidates for a relation are the relations of the entities given to the call; if it is given none, all
        relations to literals. The result is empty if the graph raises SparqlError; an EngineError is not caught.
        """
        results = own_state(state, SparqlState).results
        try:
            words, given = _arguments(call, results)
            return await self._asked(lambda: expected(self.graph, self.mentions, call.tool, words, given))
        except CallError:
            return {}

    def answer(self, state: State) -> str | None:
        """The answer as a text, with its values separated by `; `; None until an answer is given."""
        found = self._found(state)
        return None if found is None else answer_text(found)

    def resolved(self, state: State) -> bool:
        """Whether the answer has the values of the reference's answer, compared as a set (see `answers`)."""
        found = self._found(state)
        return found is not None and answers(found, self.reference, self.names)

    def _found(self, state: State) -> tuple[str, ...] | None:
        now = own_state(state, SparqlState)
        if self.answered:
            return now.answer
        return now.results[-1].texts if now.results else None

    async def _asked(self, question: Callable[[], T]) -> T:
        """Ask the graph a question and return its answer. If the graph uses a network, other work continues."""
        return await asyncio.to_thread(question) if self.graph.waits else question()

    def _run(self, results: Sequence[Result], call: ToolCall) -> tuple[tuple[str, ...], Result, str]:
        """Run a call.

        Returns the call as stored in a state, the result, and the result's text; raises CallError if there is no
        result.
        """
        words, given = _arguments(call, results)
        if call.tool == EXTRACT:
            found: list[Expression] = [resolve(self.graph, self.mentions, words["input_value"])]
        else:
            found = expressions(call.tool, words, given)
        parts = parts_of(*given.values())
        for expression in found:
            nodes = self.graph.denotes(expression)
            if nodes:
                made = (call.tool, *(str(call.arguments[p.name]) for p in TOOLS[call.tool].parameters))
                return made, Result(expression, nodes, parts), told(self.graph, nodes)
        raise SparqlError(self._unknown(words) or nothing(call.tool, words))

    def _unknown(self, words: Mapping[str, str]) -> str | None:
        """The message that a call's relation is not in the graph.

        None if the call has no relation, its relation is in the graph, or the graph cannot list its relations.
        """
        for name in filter(words.__contains__, RELATIONS):
            known = self.graph.vocabularies["relation"]
            if known and words[name] not in known:
                return f"there is no relation {shown(words[name])}"
        return None


def _arguments(call: ToolCall, results: Sequence[Result]) -> tuple[dict[str, str], dict[str, Result]]:
    """The text arguments, and the earlier results named by the other arguments; raises CallError if one is invalid."""
    tool = TOOLS.get(call.tool)
    if tool is None:
        raise SparqlError(f"there is no tool {shown(call.tool)}")
    texts = texts_of(call, [parameter.name for parameter in tool.parameters])
    given = {
        parameter.name: results[place(parameter.name, texts[parameter.name], len(results))]
        for parameter in tool.parameters
        if parameter.type == RESULT
    }
    return {name: text for name, text in texts.items() if name not in given}, given


# The names that a call expects, which are the relations of the entities given to it (planning_horizon B.1.2).


def expected(
    graph: KnowledgeGraph, mentions: Mapping[str, str], tool: str, words: Mapping[str, str], given: Mapping[str, Result]
) -> dict[str, Expected]:
    """The names that a call expects, for each parameter; empty if no parameter takes a name.

    Raises:
        SparqlError: a limit is exceeded, the graph fails, or `input_value` is an invalid literal.
        EngineError: the graph's server fails.
    """
    if tool == tools.EXTRACT:
        return _input(graph, mentions, words["input_value"])
    ids = next((result.ids for result in given.values()), ())
    match tool:
        case tools.FIND if words["direction"] in tools.DIRECTIONS:
            here = graph.relations(ids, words["direction"]) if ids else graph.vocabularies["property"].names
            return _of(graph, "relation", here)
        case tools.ORDER:
            return _of(graph, "property_relation", graph.properties(ids))
        case tools.COMPARE:
            return _of(graph, "property_relation", graph.vocabularies["property"].names)
        case tools.TIME:
            dated = [name for name in graph.properties(ids) if ending(name) is not None]
            return _of(graph, "temporal_relation", dated)
    return {}


def _input(graph: KnowledgeGraph, mentions: Mapping[str, str], text: str) -> dict[str, Expected]:
    """The expected names of entities, classes and mentions; empty for an id or a literal, which no name can replace."""
    if ENTITY.fullmatch(text) or read(text) is not None:
        return {}
    vocabulary = graph.vocabularies["input"].with_names(mentions)
    return {"input_value": Expected(vocabulary, vocabulary.names, "name")}


def _of(graph: KnowledgeGraph, parameter: str, here: Sequence[str]) -> dict[str, Expected]:
    vocabulary = graph.vocabularies["relation"]
    if not all(name in vocabulary for name in here):  # the graph does not list all of them
        vocabulary = Vocabulary(vocabulary.noun, here)
    return {parameter: Expected(vocabulary, here)}


# Finds the meaning of the text that is given to extract_entity.


MAX_CHARACTERS = 1_000
_LISTED = 10  # maximum number of listed entities with one name
_CLASSES = 3  # maximum number of listed classes per entity


def resolve(graph: KnowledgeGraph, mentions: Mapping[str, str], text: str) -> Entity | Class | Value:
    """The first of these meanings that fits: mention, number or date, entity's id or name, class, other literal.

    Raises:
        SparqlError: the text has none of these meanings, is empty or too long, or is an invalid literal (a date that
            does not exist, for example); several entities have the name; or the graph fails.
        EngineError: the graph's server fails.
    """
    text = text.strip()
    if not text or len(text) > MAX_CHARACTERS:
        raise SparqlError(f"input_value: a text of 1 to {MAX_CHARACTERS:,} characters is expected")
    if text in mentions:
        return atom(mentions[text])
    literal = literals.read(text)
    if literal is not None and literal.datatype != f"{XSD}string":
        return literal
    if ENTITY.fullmatch(text):
        if graph.has(text):
            return Entity(text)
        raise SparqlError(f"there is no entity {shown(text)}")
    named = graph.named(text)
    if len(named) > 1:
        raise SparqlError(_several(graph, text, named))
    if named:
        return Entity(named[0]) if ENTITY.fullmatch(named[0]) else Class(named[0])
    if NAME.fullmatch(text):
        return Class(text)
    if literal is not None:
        return literal
    raise SparqlError(
        f"there is no entity of the name {shown(text)}; a name, an id, a class's identifier, a number, a date "
        "(YYYY-MM-DD) or a year (YYYY) is expected"
    )


def _several(graph: KnowledgeGraph, text: str, ids: Sequence[str]) -> str:
    """The message that several entities have the same name, with a list of these entities."""
    types = graph.types(ids[:_LISTED])
    found = [f"{one} ({', '.join(types[one][:_CLASSES])})" if one in types else one for one in ids[:_LISTED]]
    more = f", and {len(ids) - _LISTED:,} more" if len(ids) > _LISTED else ""
    return f"{len(ids):,} entities have the name {shown(text)}: {', '.join(found)}{more}; give the id of one"


# Converts a call to the expressions that it may represent (planning_horizon §B.1.2: the hidden function list).


_TIME = re.compile(rf"[0-9]{{4}}|{NOW}")
_OPERATORS: Mapping[str, Comparison] = {sign: operator for operator, sign in SIGNS.items()}
_EXTREMES: Mapping[str, Extreme] = {"ARGMAX": "ARGMAX", "ARGMIN": "ARGMIN"}


def expressions(tool: str, words: Mapping[str, str], given: Mapping[str, Result]) -> list[Expression]:
    """The possible expressions of a call, in the order in which they are tried, for any tool but extract_entity.

    There is a second expression if a literal of four digits may be a year or a number. The second expression is used if
    the first denotes nothing. Raises SparqlError if an argument is not valid.
    """
    for name in RELATIONS:
        if name in words and not NAME.fullmatch(words[name]):
            raise SparqlError(f"{name}: {shown(words[name])} is no relation's identifier")
    for parameter in tools.TOOLS[tool].parameters:
        if parameter.values and words[parameter.name] not in parameter.values:
            allowed = ", ".join(parameter.values)
            raise SparqlError(f"{parameter.name}: {shown(words[parameter.name])} is none of {allowed}")
    operands = [result.expression for result in given.values()]
    match tool:
        case tools.FIND:
            backward = words["direction"] == tools.BACKWARD
            return [Join(words["relation"], target, backward) for target in _readings(operands[0])]
        case tools.MERGE:
            return [And(*operands)]
        case tools.ORDER:
            return [Arg(_EXTREMES[words["mode"]], operands[0], words["property_relation"])]
        case tools.COMPARE:
            value = given["literal_ref"].literal
            if value is None:
                raise SparqlError("literal_ref: that step's result is not one literal")
            operator = _OPERATORS[words["operator"]]
            return [Compare(operator, words["property_relation"], found) for found in _values(value)]
        case tools.TIME:
            time = words["temporal_literal"]
            if not _TIME.fullmatch(time):
                raise SparqlError(f"temporal_literal: {shown(time)} is neither a year of four digits nor {NOW}")
            return [TimeConstraint(operands[0], words["temporal_relation"], time)]
        case tools.COUNT:
            return [Count(operands[0])]
    raise SparqlError(f"there is no tool {shown(tool)}")


RELATIONS = ("relation", "property_relation", "temporal_relation")
"""The parameters that take a relation's identifier."""
_NOTHING = {
    tools.EXTRACT: "there is no entity or class {input_value}",
    tools.FIND: "nothing is connected with the target by {relation} ({direction})",
    tools.MERGE: "the two sets have nothing in common",
    tools.ORDER: "no member of the set has a value of {property_relation}",
    tools.COMPARE: "no entity has a value of {property_relation} that is {operator} the literal",
    tools.TIME: "no member of the set holds at {temporal_literal} by {temporal_relation}",
}


def nothing(tool: str, words: Mapping[str, str]) -> str:
    """The message for an empty result."""
    return _NOTHING[tool].format_map({name: shown(text) for name, text in words.items()})


def _readings(target: Expression) -> list[Expression]:
    return list(_values(target)) if isinstance(target, Value) else [target]


def _values(value: Value) -> list[Value]:
    """The literal and, if it is a year of four digits, also the number with the same digits."""
    return list(dict.fromkeys([value, number(value)]))


# A graph at a SPARQL endpoint, such as Freebase in Virtuoso (planning_horizon appendix A: a server of your own).


MAX_BYTES = 64 * 2**20
"""The maximum size of a server's answer, in bytes."""
_JSON = "application/sparql-results+json"
_SHOWN = 200  # maximum characters of a server's text in an error message
_GRACE = 5.0  # seconds added to the server's time limit
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds between two attempts
_SLOW = re.compile(r"S1T00|estimated execution time|timed? ?out", re.I)  # as in Virtuoso's messages
_PARTIAL = "S1TAT"  # Virtuoso's state for an incomplete answer


class _TryAgainError(Exception):
    """A failure that may be temporary. `wait` is the number of seconds to wait, as the server asked."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        self.wait = wait
        super().__init__(message)


class EndpointGraph(SelectGraph):
    """A graph on a server. Only SELECT queries are sent, and only JSON is accepted.

    If a query has too many rows or bytes, takes too much time at the server, or is refused with the status 400, a
    SparqlError is raised, which counts as the query's result. If the server cannot be reached, hangs, or answers with
    anything but SPARQL's JSON, an EngineError is raised. If such a failure may be temporary, the query is sent again,
    and the error is raised only after the last attempt.

    Args:
        url: the endpoint's URL, without a user and password.
        name: the graph's IRI at the endpoint; None for the default graph.
        dialect: with `virtuoso`, the time limit is sent to the server, and dates are as in Freebase's dump in Virtuoso.
        limits: the limits on the cost of one question.
        tries: the maximum number of times that a query is sent.
        key: the config key that error messages name.

    Raises:
        ConfigError: `url` is not a URL of http or https, or has a user, a password, a query or a fragment.
    """

    waits = True
    sleep = staticmethod(time.sleep)

    def __init__(
        self,
        url: str,
        name: str | None = None,
        dialect: Dialect = "virtuoso",
        limits: Limits | None = None,
        tries: int = 3,
        key: str = "dataset.endpoint",
    ) -> None:
        self.url = plain_url(key, url, "http://127.0.0.1:8890/sparql")
        self.limits = limits or Limits()
        self._name, self._dialect, self._tries, self._key = name, dialect, tries, key

    def denotes(self, expression: Expression) -> tuple[Node, ...]:
        """The distinct nodes that an expression denotes, sorted; raises SparqlError and EngineError."""
        if isinstance(expression, Entity | Value):
            return (expression,)
        asked = f"{query(expression, self._dialect)} LIMIT {self.limits.rows + 1}"
        return ordered(node for (node,) in self.rows(asked) if node is not None)

    def rows(self, query: str) -> Iterator[Row]:
        """The rows of a SELECT; raises SparqlError and EngineError."""
        headers, data = self._answer(query)
        table = _table(data)
        if table is None:
            raise self._broken(f"the answer does not have the form of {_JSON}")
        names, bindings = table
        most = headers.get("x-sparql-maxrows", "")
        if most.isdecimal() and len(bindings) >= int(most):
            raise SparqlError(f"the endpoint sends at most {int(most):,} rows")
        if len(bindings) > self.limits.rows:
            raise self.limits.too_many()
        return ([self._node(row.get(name)) for name in names] for row in bindings)

    @cached_property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        """All relations and classes that Freebase's own schema declares, without names of entities.

        The declarations are requested only once.
        """
        return vocabularies(
            self.schema(tools.declared_relations()),
            self.schema(tools.declared_relations(literals=True)),
            self.schema(tools.declared_classes()),
            (),
        )

    def _answer(self, query: str) -> tuple[Mapping[str, str], Any]:
        """The headers and the JSON of the server's answer to a query."""
        for again in range(self._tries):
            try:
                return self._once(query)
            except _TryAgainError as error:
                last = error
            if again + 1 < self._tries and last.wait <= _LONGEST_WAIT:
                self.sleep(max(last.wait, min(_FIRST_WAIT * 2**again, _LONGEST_WAIT)))
            elif last.wait > _LONGEST_WAIT:
                raise self._broken(
                    f"{last}; the server asks to wait {last.wait:,.0f} s, more than the limit of {_LONGEST_WAIT:,.0f} s"
                )
        raise self._broken(f"{last} (tried {self._tries} times)")

    def _once(self, query: str) -> tuple[Mapping[str, str], Any]:
        client = self._http  # before the import, because its error says how to install httpx
        import httpx

        try:
            status, headers, body = self._exchange(client, query)
        except httpx.TimeoutException:
            raise _TryAgainError(f"no answer within {self.limits.seconds + _GRACE:g} s") from None
        except httpx.HTTPError as error:
            raise _TryAgainError(one_line(f"{type(error).__name__} {error}", _SHOWN)) from None
        said = one_line(body.decode(errors="replace"), _SHOWN)
        if status in range(200, 300):
            if headers.get("x-sql-state") == _PARTIAL:
                raise self.limits.too_slow()
            return headers, self._json(headers.get("content-type", ""), body, said)
        if status >= 400 and _SLOW.search(body[:10_000].decode(errors="replace")):
            raise self.limits.too_slow()
        if status in PASSING:
            wait = retry_after(headers.get("retry-after"), time.time())
            raise _TryAgainError(f"HTTP {status}: {said}", wait)
        if status == 400:
            raise SparqlError(f"the endpoint does not take the query: {said}")
        raise self._broken(f"HTTP {status}: {said}")

    def _exchange(self, client: httpx.Client, query: str) -> tuple[int, Mapping[str, str], bytes]:
        """The status, the headers (their names are case-insensitive) and the body.

        Raises SparqlError if the body is too large, and httpx's errors.
        """
        import httpx

        until = time.monotonic() + self.limits.seconds + _GRACE
        data = bytearray()
        fields = {"query": query}
        if self._name is not None:
            fields["default-graph-uri"] = self._name
        if self._dialect == "virtuoso":
            fields["timeout"] = str(int(self.limits.seconds * 1000))
        with client.stream("POST", self.url, data=fields) as response:
            for part in response.iter_raw():
                data += part
                if len(data) > MAX_BYTES:
                    raise SparqlError(f"the endpoint's answer has more than {MAX_BYTES:,} bytes")
                if time.monotonic() > until:
                    raise httpx.ReadTimeout("the body")
            return response.status_code, response.headers, bytes(data)

    def _json(self, kind: str, body: bytes, said: str) -> Any:
        try:
            return loads(body)
        except (ValueError, RecursionError):
            raise _TryAgainError(f"the answer ({one_line(kind, _SHOWN) or 'of no type'}) is not JSON: {said}") from None

    def _node(self, term: object) -> Node | None:
        """The node for a term in SPARQL's JSON."""
        match term:
            case None:
                return None
            case {"type": "uri", "value": str(text)}:
                name = text.removeprefix(NS)
                return Value(text, f"{XSD}anyURI") if name == text else Entity(name)
            case {"type": "literal" | "typed-literal", "value": str(text), "datatype": str(datatype)}:
                dated = self._dialect == "virtuoso" and datatype.startswith(XSD) and datatype != f"{XSD}string"
                return Value(text.removesuffix(OFFSET) if dated else text, datatype)
            case {"type": "literal", "value": str(text)}:
                return Value(text)
        raise self._broken(f"{one_line(term, _SHOWN)} is neither an IRI nor a literal")

    def _broken(self, reason: str) -> EngineError:
        return EngineError(f"{self.url}: {reason}")

    @cached_property
    def _http(self) -> httpx.Client:
        try:
            import httpx
        except ImportError:
            raise ConfigError(
                self._key, self.url, "a package is not installed: pip install 'agent-grid[openai]'"
            ) from None
        return httpx.Client(
            headers={"Accept": _JSON, "Accept-Encoding": "identity"},  # a compressed answer could unpack to any size
            timeout=self.limits.seconds + _GRACE,
            follow_redirects=False,
            trust_env=not is_loopback(self.url),
        )


def _table(data: Any) -> tuple[list[str], list[Mapping[str, Any]]] | None:
    """The variables and rows in SPARQL's JSON; None if the JSON has a different structure."""
    match data:
        case {"head": {"vars": [*names]}, "results": {"bindings": [*rows]}}:
            if all(isinstance(name, str) for name in names) and all(isinstance(row, dict) for row in rows):
                return names, rows
    return None
