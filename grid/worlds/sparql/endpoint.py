"""A graph behind a SPARQL endpoint, as Freebase in Virtuoso (planning_horizon appendix A: a server of one's own)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from grid.core.errors import ConfigError, EngineError, one_line
from grid.core.untrusted import loads
from grid.text.http import PASSING, is_loopback, plain_url, retry_after
from grid.worlds.schema import Vocabulary
from grid.worlds.sparql import tools
from grid.worlds.sparql.graph import Limits, Node, Row, SelectGraph, ordered, vocabularies
from grid.worlds.sparql.queries import NS, OFFSET, XSD, Dialect, Entity, Expression, SparqlError, Value, query

if TYPE_CHECKING:
    import httpx

MAX_BYTES = 64 * 2**20
"""Of an answer."""
_JSON = "application/sparql-results+json"
_SHOWN = 200  # characters of a server's text in an error
_GRACE = 5.0  # seconds beyond those that the server is given
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds between two tries
_SLOW = re.compile(r"S1T00|estimated execution time|timed? ?out", re.I)  # as Virtuoso words it
_PARTIAL = "S1TAT"  # Virtuoso's state of an answer that it broke off


class _TryAgainError(Exception):
    """A failure that may pass; `wait` is how many seconds the server asked for."""

    def __init__(self, message: str, wait: float = 0.0) -> None:
        self.wait = wait
        super().__init__(message)


class EndpointGraph(SelectGraph):
    """A graph that a server answers for. Only SELECT is ever sent, and only JSON taken.

    What a query cannot have (too many rows, too much time at the server) is a SparqlError, a result. A server that is
    unreachable, hangs, or answers with other content than SPARQL's JSON is an EngineError, after all tries where that
    may pass.

    Args:
        url: of the endpoint, without user and password.
        name: the graph's IRI at the endpoint; None: its default graph.
        dialect: `virtuoso` sends the time limit along, and dates as Freebase's dump has them there.
        limits: what one question may cost.
        tries: how often a query is sent at most.
        key: the config's, for errors.

    Raises:
        ConfigError: `url` is none, or holds a password.
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
        """What an expression denotes, each once, sorted; raises SparqlError and EngineError."""
        if isinstance(expression, Entity | Value):
            return (expression,)
        asked = f"{query(expression, self._dialect)} LIMIT {self.limits.rows + 1}"
        return ordered(node for (node,) in self.rows(asked) if node is not None)

    def rows(self, query: str) -> Iterator[Row]:
        """The rows of a SELECT; raises SparqlError and EngineError."""
        headers, data = self._answer(query)
        table = _table(data)
        if table is None:
            raise self._broken(f"the answer has another shape than {_JSON}")
        names, bindings = table
        most = headers.get("x-sparql-maxrows", "")
        if most.isdecimal() and len(bindings) >= int(most):
            raise SparqlError(f"the endpoint sends at most {int(most):,} rows")
        if len(bindings) > self.limits.rows:
            raise self.limits.too_many()
        return ([self._node(row.get(name)) for name in names] for row in bindings)

    @cached_property
    def vocabularies(self) -> Mapping[str, Vocabulary]:
        """All relations and classes that Freebase's own schema declares, asked for once; no names of entities."""
        return vocabularies(
            self.schema(tools.declared_relations()),
            self.schema(tools.declared_relations(literals=True)),
            self.schema(tools.declared_classes()),
            (),
        )

    def _answer(self, query: str) -> tuple[Mapping[str, str], Any]:
        """The answer's headers and JSON."""
        for again in range(self._tries):
            try:
                return self._once(query)
            except _TryAgainError as error:
                last = error
            if again + 1 < self._tries and last.wait <= _LONGEST_WAIT:
                self.sleep(max(last.wait, min(_FIRST_WAIT * 2**again, _LONGEST_WAIT)))
            elif last.wait > _LONGEST_WAIT:
                raise self._broken(f"{last}; it asks to wait {last.wait:,.0f} s, more than {_LONGEST_WAIT:,.0f} s")
        raise self._broken(f"{last} (tried {self._tries} times)")

    def _once(self, query: str) -> tuple[Mapping[str, str], Any]:
        import httpx

        try:
            status, headers, body = self._exchange(query)
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

    def _exchange(self, query: str) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers (names in any case) and the body; raises SparqlError where that is too large."""
        import httpx

        until = time.monotonic() + self.limits.seconds + _GRACE
        data = bytearray()
        fields = {"query": query}
        if self._name is not None:
            fields["default-graph-uri"] = self._name
        if self._dialect == "virtuoso":
            fields["timeout"] = str(int(self.limits.seconds * 1000))
        with self._http.stream("POST", self.url, data=fields) as response:
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
            raise _TryAgainError(f"the answer ({one_line(kind, _SHOWN) or 'of no type'}) is no JSON: {said}") from None

    def _node(self, term: object) -> Node | None:
        """A term of SPARQL's JSON."""
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
            raise ConfigError(self._key, self.url, "installed: pip install 'agent-grid[openai]'") from None
        return httpx.Client(
            headers={"Accept": _JSON, "Accept-Encoding": "identity"},  # a compressed answer could grow without bounds
            timeout=self.limits.seconds + _GRACE,
            follow_redirects=False,
            trust_env=not is_loopback(self.url),
        )


def _table(data: Any) -> tuple[list[str], list[Mapping[str, Any]]] | None:
    """The variables and rows of SPARQL's JSON; None of another shape."""
    match data:
        case {"head": {"vars": [*names]}, "results": {"bindings": [*rows]}}:
            if all(isinstance(name, str) for name in names) and all(isinstance(row, dict) for row in rows):
                return names, rows
    return None
