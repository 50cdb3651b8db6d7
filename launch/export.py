"""Export a sweep's episodes for another tool's viewer: `agent-grid export inspect results/<name>`.

`inspect`: logs of Inspect (UK AI Security Institute), which `inspect view --log-dir results/<name>/inspect` lists. Each
setting has one log, or several of 1,000 cells if it is large; cells are samples, and trials are epochs. This format
needs an extra: pip install 'agent-grid[inspect]'.

`otel`: OpenTelemetry traces, sent to the collector at OTEL_EXPORTER_OTLP_ENDPOINT, like the traces of a sweep with
tracing=otel; --content adds prompts, answers, arguments and results. This format needs an extra: pip install
'agent-grid[otel]'.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from grid.core.errors import ConfigError, GridError, StoreError, one_line
from grid.core.places import expect_folder, folder_at

INSPECT, OTEL = "inspect", "otel"
_INSTALL = (
    "must be installed: pip install 'agent-grid[inspect]' (in a separate environment if other packages pin fsspec)"
)


def main() -> int:
    """Exit status 1 if a collector did not accept all episodes, 2 if the export cannot be made, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", choices=[INSPECT, OTEL], help="the format to write")
    parser.add_argument("results", type=folder_at, help="the folder of a sweep, results/<name>")
    parser.add_argument(
        "--into", type=folder_at, help="the folder for the logs (default: the folder `inspect` in the sweep's folder)"
    )
    parser.add_argument("--content", action="store_true", help="with otel: send all texts too")
    given = parser.parse_args()
    try:
        if given.format == OTEL:
            return _traced(given.results, given.content)
        into = given.into or given.results / INSPECT
        expect_folder("--into", into)
        count = export(given.results, into)
    except GridError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 2
    where = one_line(into)
    print(f"{count:,} logs: {where}\ninspect view --log-dir {where} shows them")
    return 0


def _traced(root: Path, content: bool) -> int:
    """Send all episodes to a collector; returns the exit status, which is 1 if it did not accept all of them."""
    from grid import store
    from grid.sweeps import traces

    store.check_there(root)
    store.check(root)
    traces.expect_exporter()
    sent, all_of_them = traces.send(root, content)
    print(f"{sent:,} of {all_of_them:,} episodes were sent to the collector at OTEL_EXPORTER_OTLP_ENDPOINT")
    return int(sent < all_of_them)


def export(root: Path, into: Path) -> int:
    """Write all logs or none, replacing the logs of an earlier export; returns the number of logs.

    Raises:
        ConfigError: inspect_ai is not installed.
        StoreError: the results cannot be read or have no episodes, or `into` cannot be written to or contains other
            files.
    """
    from grid import store

    store.check_there(root)
    store.check(root)
    _check_target(into)
    if find_spec("inspect_ai") is None:
        raise ConfigError("inspect_ai", None, _INSTALL)
    from analysis.viewer import inspect_logs

    draft = into.with_name(f".{into.name}.{os.getpid()}")
    try:
        draft.mkdir(parents=True)
        count = sum(1 for _ in inspect_logs.write(root, draft))
        if not count:
            raise StoreError(f"{one_line(root, 200)}: the folder has no episodes yet")
        if into.is_dir():
            shutil.rmtree(into)
        os.replace(draft, into)
    except OSError as error:
        raise StoreError(f"{one_line(into, 200)}: cannot be written to ({error.strerror or error})") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return count


def _check_target(into: Path) -> None:
    """Raise StoreError if the export would remove anything but an earlier export's logs, or if this is not known."""
    try:
        others = [path.name for path in into.iterdir() if path.suffix != ".eval"] if into.is_dir() else []
        wrong = others[:1] or ([into.name] if (into.exists() and not into.is_dir()) or into.is_symlink() else [])
    except (OSError, ValueError) as error:
        raise StoreError(f"{one_line(into, 200)}: cannot be read ({error})") from None
    if wrong:
        raise StoreError(
            f"{one_line(into, 200)}: may contain only .eval logs, but has {one_line(wrong[0], 80)}; give another folder"
        )


if __name__ == "__main__":
    sys.exit(main())
