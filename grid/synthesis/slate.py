"""A set like SLATE for your own domain: `python -m grid.synthesis.slate model=NAME domain=NAME out=FOLDER KEY=VALUE`.

A model writes tools, plans, queries, substeps, outcomes, equivalents and distractors (egb_slate §3, appendix D). With
order=queries, the model writes queries first, then plans, tools, categories and merges, as in the paper. Rules check
every answer. The same command resumes an interrupted construction. Keys: conf/construct.yaml.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from grid.core.engine import Engine
from grid.core.errors import ConfigError, EngineError, GridError, StoreError, UnfinishedError, one_line
from grid.core.untrusted import loads, shown_lines
from grid.core.util import derive_seed
from grid.datasets.slate.dataset import Slate
from grid.datasets.slate.drafts import CASES, TOOLS, CaseRecord, ToolRecord
from grid.settings.make import unpriced
from grid.settings.roles import Price
from grid.synthesis import by_queries, config, plans, queries, substeps, tools
from grid.synthesis.asking import Asker, How, Line, Settled, Stage, as_line, kept, write
from grid.synthesis.config import Construction, read

# The whole construction: its stages in order, and the files that `dataset=slate` reads.


STAGES = "stages"
"""The folder with the stages' files."""
SETTINGS = "construction.json"


def asked(wanted: Construction) -> How:
    """The parameters of the model's requests; the model's config is in them without its price and its key `serving`."""
    model = {key: value for key, value in unpriced(wanted.model).items() if key != "serving"}
    return How(model, wanted.seed, wanted.repairs, wanted.temperature, wanted.max_tokens, wanted.at_once)


def expect_same(wanted: Construction) -> None:
    """Write the set's settings to its folder, or compare them with the settings that the folder already has.

    Sizes and repairs may change, because requests that were answered before are not sent again.

    Raises:
        ConfigError: the folder has different settings, or its settings cannot be read.
        StoreError: the settings cannot be written.
    """
    how = asked(wanted)
    settings: dict[str, Any] = {
        "model": how.model,
        "domain": wanted.domain.model_dump(),
        "seed": how.seed,
        "complexity": {key: value for key, value in wanted.complexity.items() if value},
        "temperature": how.temperature,
        "max_tokens": how.max_tokens,
        **({"order": wanted.order} if wanted.order != "tools" else {}),  # older sets lack this key
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
            allowed = (
                f"the value of the set in out={wanted.out}: {json.dumps(before.get(key))[:200]}; or give another folder"
            )
            raise ConfigError(key, now.get(key), allowed)


def _flat(key: str, value: object) -> dict[str, object]:
    """The values of a nested object, under dotted keys; a list counts as one value."""
    if not isinstance(value, dict):
        return {key: value}
    parts = (_flat(f"{key}.{name}" if key else str(name), part) for name, part in value.items())
    return {name: part for found in parts for name, part in found.items()}


@contextmanager
def held(out: Path) -> Iterator[None]:
    """Hold a folder's lock during one construction; the folder is created if it does not exist.

    Raises:
        StoreError: another process holds the lock, or the folder cannot be written to.
    """
    lock = FileLock(out / ".lock", timeout=0)
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise StoreError(f"out={out}: another construction runs in this folder; wait until it has ended") from None
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
    """Run all stages, and write the set; returns the asker, which has the requests and results of each stage.

    Raises:
        UnfinishedError: none of a stage's products was kept, or the library has only one tool.
        ConfigError: the retriever cannot be used (only with order=queries).
        EngineError: the model does not answer.
        DataError: a stage's file is not valid.
        StoreError: a file cannot be read or written.
        GridError: any error of `engine`.
    """
    asker = Asker(wanted.out / STAGES, asked(wanted), engine, price, say, progress)
    make = by_queries.cases if wanted.order == "queries" else _cases
    library, cases = await make(asker, wanted, say)
    library = await _beside(asker, wanted, library, cases)
    names = sorted(library, key=lambda tool: tool.name)
    random.Random(derive_seed(wanted.seed, "order")).shuffle(names)  # so that tools' places reveal nothing
    for name, records in ((TOOLS, names), (CASES, cases)):
        write(wanted.out / name, b"".join(as_line(record.model_dump()) for record in records))
    return asker


async def _cases(
    asker: Asker, wanted: Construction, say: Callable[[str], None]
) -> tuple[list[ToolRecord], list[CaseRecord]]:
    """Run the stages that lead to complete cases, starting with the tools; returns the library and the cases."""
    domain, sizes = wanted.domain, wanted.sizes
    topics = [*domain.topics]
    made = await asker.run("tools", (tools.of_topic(asker, domain, topic, sizes.tools) for topic in topics))
    library = kept(made, tools.distinct())
    asker.end()
    if len(library) < 2:
        raise UnfinishedError("stage tools: a library of 1 tool leaves nothing to choose; raise sizes.tools")
    drawn = {
        topic: config.drawn(wanted.seed, topic, domain.users, wanted.complexity, sizes.workflows) for topic in topics
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
    played = await asker.run("outcomes", (substeps.of_case(asker, domain, one, known) for one in outlined))
    cases = kept(played, substeps.coherent())
    asker.end()
    return library, cases


async def _beside(
    asker: Asker, wanted: Construction, library: Sequence[ToolRecord], cases: Sequence[CaseRecord]
) -> list[ToolRecord]:
    """The library, with equivalents and distractors added for tools that the cases use."""
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


# The results of a construction, as tables.


_PADDING = (0, 1, 0, 0)


def stages(found: Sequence[Stage]) -> Table:
    """The table of stages: the numbers of products requested, kept, repaired and refused, and the answers' cost."""
    table = Table(
        title="Stages",
        box=SIMPLE,
        padding=_PADDING,
        caption="Asked, kept and refused count tools, plans and so on. Repaired: kept after a repair. Answers, tokens "
        "and dollars are those of all answers in the stage's file.",
    )
    for column in ("stage", "asked", "kept", "repaired", "refused", "answers", "tokens in", "out", "dollars"):
        table.add_column(column, justify="left" if column == "stage" else "right", no_wrap=True)
    every: list[Line] = []
    for stage in found:
        lines = [*stage.journal.lines.values()]
        every += lines
        wanted = sum(one.item.wanted for one in stage.settled)
        kept = sum(map(_kept, stage.settled))
        repaired = sum(_kept(one) for one in stage.settled if one.best)
        table.add_row(stage.name, *(f"{count:,}" for count in (wanted, kept, repaired, wanted - kept)), *_spent(lines))
    table.add_section()
    table.add_row("all", "", "", "", "", *_spent(every))
    return table


def gates(found: Sequence[Stage]) -> Table:
    """The table of rules: the numbers of answers that broke each rule, and of items that still broke it at the end."""
    table = Table(
        title="Gates",
        box=SIMPLE,
        padding=_PADDING,
        caption="An answer may break several rules. In the end: in the answer whose products were kept; if no answer "
        "had any, in the last one.",
    )
    for column in ("stage", "gate", "answers refused", "% of answers", "in the end"):
        table.add_column(column, justify="left" if column in ("stage", "gate") else "right")
    for stage in found:
        answers = sum(len(one.tries) for one in stage.settled)
        refused: Counter[str] = Counter()
        ended: Counter[str] = Counter()
        for one in stage.settled:
            for _, checked in one.tries:
                refused.update({broken.gate for broken in checked.broken})
            last = {broken.gate for broken in one.tries[one.best if one.products else -1][1].broken}
            ended.update(last | {broken.gate for broken in one.dropped})
            refused.update({broken.gate for broken in one.dropped} - last)
        for gate, count in refused.most_common():
            table.add_row(stage.name, gate, f"{count:,}", f"{100 * count / answers:.0f}", f"{ended[gate]:,}")
    return table


def quality(dataset: Slate) -> Table:
    """The figures that a benchmark's reviewer would measure; if the set is too small for a figure, a row says so.

    Raises:
        ModuleNotFoundError: scikit-learn is not installed.
    """
    from grid.datasets.slate.quality import groups  # only this table needs it

    table = Table(
        title="The set as a benchmark", box=SIMPLE, padding=_PADDING, caption="Targets are those of SLATE itself."
    )
    for column in ("figure", "here", "target"):
        table.add_column(column, justify="left" if column == "figure" else "right")
    for group in groups(dataset):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about folds with few items
            try:
                for figure in group:
                    table.add_row(figure.name, f"{figure.value:.3g} {figure.unit}".strip(), figure.target)
            except (ValueError, IndexError, ZeroDivisionError):
                table.add_row("further figures of this kind", "too few", "")
    return table


def _kept(one: Settled[object]) -> int:
    return len(one.products) - len(one.dropped)


def _spent(lines: Sequence[Line]) -> tuple[str, str, str, str]:
    return (
        f"{len(lines):,}",
        _sum([line.input_tokens for line in lines], ","),
        _sum([line.output_tokens for line in lines], ","),
        _sum([line.money for line in lines], ".4f"),
    )


def _sum(values: Sequence[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    return f"{sum(known):{form}}" if len(known) == len(values) else "unknown"


# A set like SLATE for your own domain: `python -m grid.synthesis.slate model=NAME domain=NAME out=FOLDER KEY=VALUE`.


RAN, UNFINISHED, CANNOT_RUN = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Return the exit status: 0 on success, 1 if the construction could not be finished, or 2 if it cannot run."""
    parser = argparse.ArgumentParser(
        prog="python -m grid.synthesis.slate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "values", nargs="*", metavar="KEY=VALUE", help="a key and its value; model, domain and out have no default"
    )
    given = parser.parse_args(arguments)
    try:
        _run(read(given.values))
    except (EngineError, UnfinishedError) as error:
        print(f"stopped: {one_line(error)}", file=sys.stderr)
        return UNFINISHED
    except GridError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return CANNOT_RUN
    except KeyboardInterrupt:
        print("stopped: all answers are kept; the same command continues", file=sys.stderr)
        return UNFINISHED
    return RAN


def _run(wanted: Construction) -> None:
    # These imports are slow, so they come after the check of all keys.
    from grid.cluster.answering import Answering, loaded
    from grid.core.engine import ACTOR, SAMPLE, SIMULATOR
    from grid.engines.hosted import Probe
    from grid.settings.build import build_engine
    from grid.settings.make import unpriced
    from grid.settings.roles import prices_of

    engine = build_engine(unpriced(wanted.model))
    if engine.sampler is None or SAMPLE not in engine.provides:
        raise ConfigError("model", wanted.label, "a language model; this model writes no texts of its own")
    price = prices_of({"model": wanted.model}, {ACTOR: engine})[ACTOR]
    console = Console(soft_wrap=True, highlight=False, emoji=False)

    def say(line: str) -> None:
        console.print(shown_lines(line), markup=False)

    probes = (Probe(SIMULATOR, wanted.temperature),)  # free text, as from a model that plays a tool
    asking = Answering(wanted.label, unpriced(wanted.model), wanted.cluster, probes)
    with held(wanted.out), ExitStack() as stack:
        expect_same(wanted)
        status = stack.enter_context(console.status("begins"))
        asker = asyncio.run(construct(wanted, partial(loaded, asking, say, stack), price, say, status.update))
    console.print(stages(asker.stages))
    refusals = gates(asker.stages)
    console.print(refusals if refusals.row_count else "No gate refused an answer.")
    _quality(console, wanted)


def _quality(console: Console, wanted: Construction) -> None:
    """Print the figures that describe the set as a benchmark, computed from its files."""
    from grid.datasets.slate.dataset import Slate

    dataset = Slate(path=str(wanted.out))
    try:
        console.print(quality(dataset))
    except ModuleNotFoundError as error:
        print(
            f"the set's quality is not measured: {error.name} is not installed; the extra `dev` has it", file=sys.stderr
        )
    told = f"{len(dataset.tools)} tools, {len(dataset.records)} cases, {dataset.version}"
    console.print(f"{told}: dataset=slate dataset.path={wanted.out}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
