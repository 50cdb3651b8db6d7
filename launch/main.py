"""The command `agent-grid`: the project's scripts under one name.

`agent-grid sweep ...` is `python launch/sweep.py ...`, and so on.
A command's modules are only imported when the command is called.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from importlib import import_module, metadata
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

CANNOT_RUN = 2
_NO_READER = 128 + 13  # a shell's status for SIGPIPE
_COMPLETION = ("-sc", "--shell-completion")
_LISTED = re.compile(r"^([\w./@+]+=[\w./:-]*),.*")
"""A key with several values, of which only the first is kept; one value is enough to find out which keys exist."""


class Command(NamedTuple):
    """A module with `main() -> int`, which reads `sys.argv`, and a text that says what the command does."""

    module: str
    text: str


COMMANDS = {
    "sweep": Command("launch.sweep", "run a grid: model x planner x dataset x robustness, on Ray"),
    "report": Command("launch.report", "print a sweep's tables and write its page; follow a running sweep"),
    "gallery": Command("launch.gallery", "run every preset at a small size, with an index of all reports"),
    "view": Command(
        "launch.view", "show a sweep in a browser: cases, decisions, search trees, prompts; or export these pages"
    ),
    "rescore": Command("launch.rescore", "score a sweep's episodes again, with today's scorers or another judge"),
    "export": Command(
        "launch.export", "export a sweep's episodes for other viewers, as Inspect logs or OpenTelemetry traces"
    ),
    "import": Command("launch.importing", "import Inspect logs and τ²-bench results into a results folder"),
    "show": Command("grid.show", "show a planner's requests in one case, word for word"),
    "data": Command("grid.data", "show what a dataset contains: counts, rules, cases call by call"),
    "power": Command(
        "launch.power", "compute how many cases and trials are needed to see a difference between two planners"
    ),
    "threshold": Command("launch.threshold", "learn, from a pilot, the entropy above which egb_tree branches"),
    "replicas": Command("launch.replicas", "start, check and stop models that stay loaded between sweeps"),
    "new": Command("launch.new", "create the files of your own planner, dataset or robustness setting"),
    "bench": Command("launch.bench", "measure speed and memory, with their spread"),
}


def main() -> int:
    """Run the named command; returns its exit status, or 2 if there is no such command.

    If the reader of the output has ended (`| head`), nothing more is written, and the status is the one that shells
    give for SIGPIPE.
    """
    try:
        status = _main()
        sys.stdout.flush()
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # Python flushes stdout once more at its end
        return _NO_READER
    return status


def _main() -> int:
    program, given = Path(sys.argv[0]).name, sys.argv[1:]
    if given and given[0] in _COMPLETION:
        return _complete(program, given)
    if not given or given[0] in ("-h", "--help"):
        print(_help(program))
        return 0
    if given[0] in ("-V", "--version"):
        print(f"agent-grid {metadata.version('agent-grid')}")
        return 0
    name, rest = given[0], given[1:]
    if name not in COMMANDS:
        close = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f" (did you mean {close[0]}?)" if close else ""
        print(f"error: command={name!r}: one of {', '.join(COMMANDS)}{hint}", file=sys.stderr)
        return CANNOT_RUN
    # argparse and Hydra's tab completion read the program's name from `sys.argv`; for the completion, the name must be
    # just `agent-grid`.
    sys.argv = [sys.argv[0] if name == "sweep" else f"{program} {name}", *rest]
    from grid.core.surroundings import usable

    with usable():
        status: int = import_module(COMMANDS[name].module).main()
    return status


def _help(program: str) -> str:
    lines = [f"  {name:<9} {command.text}" for name, command in COMMANDS.items()]
    about = "The experiment grid for tool-using LLM agents. Results go to results/NAME in the current folder."
    more = f"{program} COMMAND --help explains a command; {program} --version prints the version."
    return "\n".join([f"usage: {program} COMMAND ...", "", about, "", *lines, "", more])


def _complete(program: str, given: Sequence[str]) -> int:
    """Complete a word for the shell: a command, its flags or, after `agent-grid sweep`, Hydra's keys and values."""
    line = os.environ.get("COMP_LINE", "")
    words = line.split(maxsplit=2)
    begun = words[1] if len(words) > 1 else ""
    if line and (len(words) < 2 or (words == [words[0], begun] and not line.endswith(" "))):
        print(" ".join(name for name in COMMANDS if name.startswith(begun)))
        return 0
    word = line.rpartition(" ")[2]
    if line and begun != "sweep":
        if begun in COMMANDS and word.startswith("-"):
            print(" ".join(flag for flag in _flags(begun) if flag.startswith(word)))
        return 0  # the shell completes files itself
    sys.argv = [program, *given]
    main: Callable[[], int] = import_module(COMMANDS["sweep"].module).main
    return _complete_key(f"{program} {line.partition(begun)[2].lstrip()}", word, main) if line else main()


def _flags(name: str) -> list[str]:
    """A command's flags, as its help lists them."""
    sys.argv = [name, "--help"]
    with redirect_stdout(StringIO()) as shown, suppress(SystemExit):
        import_module(COMMANDS[name].module).main()
    return re.findall(r"^  (?:-\w, )?(--[\w-]+)", shown.getvalue(), re.MULTILINE)


def _complete_key(line: str, word: str, main: Callable[[], int]) -> int:
    """Complete the last word of a sweep's line with Hydra; Hydra itself cannot complete lists (`planner=react,...`)."""
    from hydra.plugins.completion_plugin import CompletionPlugin
    from omegaconf import OmegaConf

    matches = CompletionPlugin._get_matches

    def with_lists(config: Any, word: str) -> list[str]:
        """Hydra's matches; a list is completed as a whole (`dataset.args=`), with no keys below it."""
        found = matches(config, word)
        lists = {one for one in found if one.endswith(".") and OmegaConf.is_list(OmegaConf.select(config, one[:-1]))}
        return [f"{one[:-1]}=" if one in lists else one for one in found]

    CompletionPlugin._get_matches = staticmethod(with_lists)
    key, _, values = word.partition("=")
    given = [] if set("[{(") & set(values) else values.split(",")[:-1]
    earlier = (_LISTED.sub(r"\1", one) for one in line[: len(line) - len(word)].split())
    os.environ["COMP_LINE"] = " ".join([*earlier, f"{key}={values.rpartition(',')[2]}" if given else word])
    with redirect_stdout(StringIO()) as shown:
        status = main()
    found = shown.getvalue().split()
    if given:
        found = [f"{key}={','.join([*given, value])}" for one in found if (value := one.partition("=")[2]) not in given]
    print(" ".join(found))
    return status


if __name__ == "__main__":
    sys.exit(main())
