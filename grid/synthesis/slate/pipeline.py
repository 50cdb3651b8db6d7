"""The whole construction: its stages in their order, and the files that `dataset=slate` reads."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from grid.core.engine import Engine
from grid.core.errors import ConfigError, StoreError, UnfinishedError
from grid.core.untrusted import loads
from grid.core.util import derive_seed
from grid.datasets.slate.records import CASES, TOOLS, CaseRecord, ToolRecord
from grid.settings.make import unpriced
from grid.settings.roles import Price
from grid.synthesis.slate import by_queries, outcomes, plans, queries, shapes, substeps, tools
from grid.synthesis.slate.asking import Asker, How, kept
from grid.synthesis.slate.config import Construction
from grid.synthesis.slate.journal import as_line, write

STAGES = "stages"
"""The folder of the stages' files."""
SETTINGS = "construction.json"


def asked(wanted: Construction) -> How:
    """How the model is asked; how requests are batched and what they cost is no part of it."""
    model = {key: value for key, value in unpriced(wanted.model).items() if key != "serving"}
    return How(model, wanted.seed, wanted.repairs, wanted.temperature, wanted.max_tokens, wanted.at_once)


def expect_same(wanted: Construction) -> None:
    """Write what the set is made with; raises ConfigError where the folder holds one that is made otherwise.

    Sizes and repairs may change: what was answered before is used as far as it is asked for again.
    """
    how = asked(wanted)
    settings: dict[str, Any] = {
        "model": how.model,
        "domain": wanted.domain.model_dump(),
        "seed": how.seed,
        "complexity": {key: value for key, value in wanted.complexity.items() if value},
        "temperature": how.temperature,
        "max_tokens": how.max_tokens,
        **({"order": wanted.order} if wanted.order != "tools" else {}),  # sets were made before there was another
    }
    path = wanted.out / SETTINGS
    if not path.exists():
        write(path, json.dumps(settings, indent=1, ensure_ascii=False).encode() + b"\n")
        return
    try:
        known = loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError("out", str(wanted.out), f"a folder whose {SETTINGS} can be read ({error})") from None
    before, now = _flat("", known), _flat("", settings)
    for key in sorted(before.keys() | now.keys()):
        if before.get(key) != now.get(key):
            allowed = f"as the set in out={wanted.out} is made: {json.dumps(before.get(key))[:200]}; or another folder"
            raise ConfigError(key, now.get(key), allowed)


def _flat(key: str, value: object) -> dict[str, object]:
    """Values by dotted key; lists are values."""
    if not isinstance(value, dict):
        return {key: value}
    parts = (_flat(f"{key}.{name}" if key else str(name), part) for name, part in value.items())
    return {name: part for found in parts for name, part in found.items()}


@contextmanager
def held(out: Path) -> Iterator[None]:
    """Hold a folder for one construction.

    Raises:
        StoreError: another process has it, or it cannot be written to.
    """
    lock = FileLock(out / ".lock", timeout=0)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise StoreError(f"out={out}: another process constructs there; wait for it") from None
    except OSError as error:
        raise StoreError(f"out={out}: cannot be written to ({error.strerror})") from None
    try:
        yield
    finally:
        lock.release()


async def construct(
    wanted: Construction,
    engine: Callable[[], Awaitable[Engine]],
    price: Price | None,
    say: Callable[[str], None],
    progress: Callable[[str], None],
) -> Asker:
    """Run all stages, and write the set; returns what each stage asked and got.

    Raises:
        UnfinishedError: a stage kept nothing.
        EngineError: the model does not answer.
        DataError, StoreError: a stage's file.
    """
    asker = Asker(wanted.out / STAGES, asked(wanted), engine, price, say, progress)
    make = by_queries.cases if wanted.order == "queries" else _cases
    library, cases = await make(asker, wanted, say)
    library = await _beside(asker, wanted, library, cases)
    names = sorted(library, key=lambda tool: tool.name)
    random.Random(derive_seed(wanted.seed, "order")).shuffle(names)  # so that places tell nothing
    for name, records in ((TOOLS, names), (CASES, cases)):
        write(wanted.out / name, b"".join(as_line(record.model_dump()) for record in records))
    return asker


async def _cases(
    asker: Asker, wanted: Construction, say: Callable[[str], None]
) -> tuple[list[ToolRecord], list[CaseRecord]]:
    """The stages up to whole cases, tools first: the library of the topics, and the cases."""
    domain, sizes = wanted.domain, wanted.sizes
    topics = [*domain.topics]
    made = await asker.run("tools", (tools.of_topic(asker, domain, topic, sizes.tools) for topic in topics))
    library = kept(made, tools.distinct())
    asker.end()
    if len(library) < 2:
        raise UnfinishedError("stage tools: a library of 1 tool leaves nothing to choose; raise sizes.tools")
    drawn = {
        topic: shapes.drawn(wanted.seed, topic, domain.users, wanted.complexity, sizes.workflows) for topic in topics
    }
    planned = await asker.run(
        "plans", (plans.of_topic(asker, domain, topic, library, drawn[topic]) for topic in topics)
    )
    workflows = kept(planned, plans.distinct())
    asker.end()
    said = await asker.run("queries", (queries.of_workflow(asker, domain, plan, sizes.queries) for plan in workflows))
    texts = kept(said, queries.distinct())
    asker.end()
    written = await asker.run("substeps", (substeps.of_query(asker, domain, query) for query in texts))
    outlined = kept(written, lambda _: None)
    asker.end()
    known = {tool.name: tool for tool in library}
    played = await asker.run("outcomes", (outcomes.of_case(asker, domain, one, known) for one in outlined))
    cases = kept(played, outcomes.coherent())
    asker.end()
    return library, cases


async def _beside(
    asker: Asker, wanted: Construction, library: Sequence[ToolRecord], cases: Sequence[CaseRecord]
) -> list[ToolRecord]:
    """The library with equivalents and distractors of the tools that the cases use."""
    domain, sizes, found = wanted.domain, wanted.sizes, [*library]
    names = {sub.call.tool for case in cases for sub in case.substeps() if sub.call}
    used = [tool for tool in library if tool.name in names]
    rng = random.Random(derive_seed(wanted.seed, "equivalents"))
    chosen = rng.sample(used, min(len(used), round(sizes.equivalents * len(used))))
    if chosen:
        same = await asker.run("equivalents", (tools.equivalent(asker, domain, host, library) for host in chosen))
        found += kept(same, tools.distinct(found))
        asker.end()
    if sizes.distractors:
        words = [len(tool.description.split()) for tool in used]
        style = range(min(words), max(words) + 1)
        known = [*found]
        near = await asker.run(
            "distractors", (tools.near(asker, domain, host, known, style, sizes.distractors) for host in used)
        )
        found += kept(near, tools.distinct(found))
        asker.end()
    return found
