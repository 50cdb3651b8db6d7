"""A SLATE of your own domain: `python -m grid.synthesis.slate model=NAME domain=NAME out=FOLDER KEY=VALUE`.

A model writes tools, plans, queries, substeps, outcomes, equivalents and distractors (egb_slate §3, appendix D). With
order=queries it writes queries first, then plans, tools, categories and merges, as the paper does. Rules check every
answer. The same command continues where it was stopped. Keys: conf/construct.yaml.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from rich.console import Console

from grid.core.errors import ConfigError, EngineError, GridError, UnfinishedError, one_line
from grid.core.untrusted import shown_lines
from grid.synthesis.slate.config import Construction, read

RAN, UNFINISHED, CANNOT_RUN = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0, 1 where it could not be finished, 2 for what cannot run."""
    parser = argparse.ArgumentParser(
        prog="python -m grid.synthesis.slate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("values", nargs="*", metavar="KEY=VALUE", help="model, domain and out have no default")
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
        print("stopped: what was answered stays; the same command continues", file=sys.stderr)
        return UNFINISHED
    return RAN


def _run(wanted: Construction) -> None:
    # Not before all keys are known to be right: what follows takes longer to import.
    from grid.cluster.answering import Answering, loaded
    from grid.core.engine import ACTOR, SAMPLE, SIMULATOR
    from grid.engines.hosted import Probe
    from grid.settings.build import build_engine
    from grid.settings.make import unpriced
    from grid.settings.roles import prices_of
    from grid.synthesis.slate import tables
    from grid.synthesis.slate.pipeline import construct, expect_same, held

    engine = build_engine(unpriced(wanted.model))
    if engine.sampler is None or SAMPLE not in engine.provides:
        raise ConfigError("model", wanted.label, "a language model: this one writes nothing of its own")
    price = prices_of({"model": wanted.model}, {ACTOR: engine})[ACTOR]
    console = Console(soft_wrap=True, highlight=False, emoji=False)

    def say(line: str) -> None:
        console.print(shown_lines(line), markup=False)

    probes = (Probe(SIMULATOR, wanted.temperature),)  # words, as those of who plays a tool
    asking = Answering(wanted.label, unpriced(wanted.model), wanted.cluster, probes)
    with held(wanted.out), ExitStack() as stack:
        expect_same(wanted)
        status = stack.enter_context(console.status("begins"))
        asker = asyncio.run(construct(wanted, partial(loaded, asking, say, stack), price, say, status.update))
    console.print(tables.stages(asker.stages))
    gates = tables.gates(asker.stages)
    console.print(gates if gates.row_count else "No gate refused an answer.")
    _quality(console, wanted)


def _quality(console: Console, wanted: Construction) -> None:
    """The figures of the set as a benchmark, read from its files."""
    from grid.datasets.slate.dataset import Slate
    from grid.synthesis.slate.tables import quality

    dataset = Slate(path=str(wanted.out))
    try:
        console.print(quality(dataset))
    except ModuleNotFoundError as error:
        print(f"no figures of its quality: {error.name} is not installed; the extra `dev` has it", file=sys.stderr)
    told = f"{len(dataset.tools)} tools, {len(dataset.records)} cases, {dataset.version}"
    console.print(f"{told}: dataset=slate dataset.path={wanted.out}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
