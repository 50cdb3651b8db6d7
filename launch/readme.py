"""The figures of README.md and BENCHMARKS.md: every block names a command and contains its output.

`python launch/readme.py` lists the blocks; `write NAME...` runs the commands of these blocks and writes the output into
the blocks. `write all` begins with the quickest block and can be resumed, because it skips blocks already measured with
this code. `check NAME RESULTS` compares a block's tables with a sweep's results, but not the times.
"""

from __future__ import annotations

import argparse
import ast
import datetime as dt
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import OmegaConf
from rich.console import Console

from grid.core.errors import GridError, one_line
from grid.core.untrusted import shown_lines

if TYPE_CHECKING:
    from analysis.page.table import Table


# Writing the output of a command in the form that README.md and BENCHMARKS.md use.


ROOT = Path(__file__).resolve().parents[1]
WIDTH = 130
"""The maximum width of a block of text, in columns."""
FOLDERS = {
    "dataset.path=": "ultratool",
    "--ultratool ": "ultratool",
    "--traject ": "traject",
    "--stable ": "stable",
    "--against ": "against",
    "--lats ": "lats",
    "--toolbench ": "toolbench",
}
"""For each text that stands before `...` (the reader's folder) in a command: the flag that gives this folder."""
RAN = "ran "
"""The beginning of the line that says how long a sweep took."""
_SWEEP = "launch/sweep.py"
_SCRIPTS = (_SWEEP, "launch/report.py", "launch/bench.py")
_COLOURS = ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "CLICOLOR_FORCE")
_TAIL = 2_000  # number of characters shown from the end of a failed command's output


@dataclass(frozen=True)
class Measured:
    """Figures as Markdown, the line about a sweep's times, the command's start time, and the seconds that it took."""

    figures: str
    times: str
    began: dt.datetime
    seconds: float


def measured(command: str, shown: Sequence[str], folders: Mapping[str, Path | None]) -> Measured:
    """Run a command. For a sweep, returns the tables to show and its times; for any other command, its output.

    Raises:
        GridError: the command does not belong to this project, a folder is not given, the command fails, it prints a
            line that is too long, or a sweep writes no results or does not have a table to show.
    """
    arguments = command_line(command, folders)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch, "results")
        sweep = arguments[1] == _SWEEP
        began = dt.datetime.now(dt.UTC)
        said = _said([*arguments, f"store.root={root}"] if sweep else arguments, Path(scratch))
        seconds = (dt.datetime.now(dt.UTC) - began).total_seconds()
        for folder in filter(None, (*folders.values(), ROOT)):
            said = said.replace(str(folder.resolve()), "...")
        if not sweep:
            return Measured(_fenced(said), "", began, seconds)
        if not root.is_dir():
            raise GridError("the sweep wrote no results")
        (results,) = root.iterdir()
        return Measured(tables(results, shown), _times(said, results, began, seconds), began, seconds)


def tables(results: Path, shown: Sequence[str]) -> str:
    """A sweep's tables whose names begin with a text in `shown`, as Markdown; `label=value` selects rows.

    The result is empty if `shown` is empty.

    Raises:
        GridError: the folder cannot be read, or there is no such table.
    """
    from analysis.page.render import markdown
    from analysis.report import print_report
    from grid import store

    store.check_there(results)
    if not shown:
        return ""
    tables = print_report(results, Console(file=io.StringIO()), papers=True)
    kept = dict(one.split("=", 1) for one in shown if "=" in one)
    found = []
    for begins in (one for one in shown if "=" not in one):
        named = [table for table in tables if table.name.startswith(begins)]
        if not named:
            raise GridError(
                f"no table has a name that begins with {begins}; the tables are {', '.join(one.name for one in tables)}"
            )
        found += [markdown(_only(table, kept)).strip() for table in named]
    return "\n\n".join(found)


def _only(table: Table, kept: Mapping[str, str]) -> Table:
    """The table with only the rows that have these label values."""
    places = {place: kept[label] for place, label in enumerate(table.labels) if label in kept}
    pairs = zip(table.read, table.rows, strict=True)
    lines = [line for line, row in pairs if all(row[place] == value for place, value in places.items())]
    return table if len(lines) == len(table.rows) else replace(table, lines=lines, breaks=frozenset())


def command_line(command: str, folders: Mapping[str, Path | None]) -> list[str]:
    """The command as a process's arguments, with its folders filled in.

    Raises:
        GridError: the command cannot be read or does not belong to this project, or a folder is not given.
    """
    line = command.replace("\\\n", " ")
    for before, flag in FOLDERS.items():
        if f"{before}..." in line:
            folder = folders.get(flag)
            if folder is None:
                raise GridError(f"{before}... stands for a folder of yours: give it with --{flag} FOLDER")
            line = line.replace(f"{before}...", before + shlex.quote(str(folder.resolve())))
    try:
        parts = shlex.split(line)
    except ValueError as error:
        raise GridError(f"{command}: {error}") from None
    if len(parts) < 2 or parts[0] != "python" or parts[1] not in _SCRIPTS:
        raise GridError(f"{command}: must begin with python and one of {', '.join(_SCRIPTS)}")
    return [sys.executable, *parts[1:]]


def _said(arguments: Sequence[str], scratch: Path) -> str:
    """A command's output, made the same on any machine: without colours, and with a fixed width.

    The output goes to files, because child processes could keep a pipe open.
    """
    environment = {key: value for key, value in os.environ.items() if key not in _COLOURS}
    environment |= {"COLUMNS": str(WIDTH), "PYTHONUTF8": "1"}
    out, err = scratch / "out", scratch / "err"
    with out.open("w") as stdout, err.open("w") as stderr:
        ended = subprocess.run(
            arguments, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, check=False
        )
    said, wrong = (path.read_text(encoding="utf-8", errors="replace") for path in (out, err))
    if ended.returncode:
        raise GridError(f"exit status {ended.returncode}\n{(wrong.strip() or said.strip())[-_TAIL:]}")
    return said


def _fenced(said: str) -> str:
    lines = [line.rstrip() for line in said.strip("\n").split("\n")]
    widest = max(lines, key=len)
    if len(widest) > WIDTH:
        raise GridError(f"a line has {len(widest)} columns, more than {WIDTH}: {widest}")
    return "\n".join(["```text", *lines, "```"])


def _times(said: str, results: Path, began: dt.datetime, seconds: float) -> str:
    """The line that says how long a sweep took, and how long until its first cell was done."""
    from grid import store

    ran = " ".join(re.findall(rf"^{RAN}\d.*", said, re.M))
    made: dt.datetime = min(store.read(results, "episodes", ["created_at"])["created_at"].to_pylist())
    first = (made - began).total_seconds()
    return f"{ran}; the first cell was done {first:.1f} s after the command began; the command took {seconds:.1f} s"


FILES = (ROOT / "README.md", ROOT / "BENCHMARKS.md")
_BEGIN, _END = "<!-- figures ", "<!-- end of figures -->\n"
_BLOCK = re.compile(
    rf"^{_BEGIN}(?P<name>\w+)(?: \((?P<shown>[^)\n]+)\))?:\s(?P<command>.+?)\s-->\n(?P<content>.*?)^{_END}", re.S | re.M
)
_ALL = "all"


@dataclass(frozen=True)
class Block:
    """A command as a reader types it, the names of the sweep's tables to show, and the current content of the block."""

    file: Path
    name: str
    shown: tuple[str, ...]
    command: str
    content: str

    @property
    def head(self) -> str:
        """The first part of the block, with the command."""
        return f"```bash\n{self.command}\n```"

    @property
    def measured(self) -> str:
        """The last line of the block, which says when it was measured."""
        return self.content.rstrip().rpartition("\n")[2]

    @property
    def seconds(self) -> float | None:
        """The seconds that the last measurement took; None if the block does not state this."""
        found = re.search(r", in ([\d,]+) s$", self.measured)
        return float(found[1].replace(",", "")) if found else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 1 if a command fails or a table differs, 2 for an unknown block or an unreadable file, else 0."""
    given = _parser().parse_args(arguments)
    try:
        blocks = every(FILES)
        if given.verb == "write":
            folders = {flag: getattr(given, flag) for flag in FOLDERS.values()}
            chosen = [_named(name, blocks) for name in given.names] if given.names != [_ALL] else _left(blocks, folders)
            return _write(chosen, folders)
        if given.verb == "check":
            return _check(_named(given.name, blocks), given.results)
    except (GridError, OSError) as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 2
    for block in blocks.values():
        print(f"{block.name}: {block.measured}\n{_indented(block.command)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb")
    write = verbs.add_parser("write", help="run the commands of blocks and write their output")
    write.add_argument("names", nargs="+", metavar="NAME", help=f"the name of a block, or {_ALL}")
    for flag in sorted(set(FOLDERS.values())):
        told = " and ".join(f"{before}..." for before, name in FOLDERS.items() if name == flag)
        write.add_argument(f"--{flag}", type=Path, metavar="FOLDER", help=f"the folder for {told}")
    check = verbs.add_parser("check", help="compare a block's tables with a sweep's results")
    check.add_argument("name", metavar="NAME")
    check.add_argument("results", type=Path, metavar="RESULTS", help="the folder of a sweep, results/<name>")
    return parser


def every(files: Sequence[Path]) -> dict[str, Block]:
    """The blocks of the files by name, in the order in which they occur.

    Raises:
        GridError: two blocks have the same name, or a marker is malformed or has no end.
        OSError: a file cannot be read.
    """
    blocks: dict[str, Block] = {}
    for block in (block for file in files for block in _read(file)):
        if block.name in blocks:
            first = blocks[block.name].file.name
            raise GridError(f"{block.file.name}: two blocks of figures have the name {block.name} (one in {first})")
        blocks[block.name] = block
    return blocks


def _read(file: Path) -> Iterator[Block]:
    text = file.read_text(encoding="utf-8")
    found = list(_BLOCK.finditer(text))
    for match in found:
        shown = tuple(filter(None, (match["shown"] or "").split(", ")))
        yield Block(file, match["name"], shown, match["command"], match["content"])
    if not len(found) == text.count(_BEGIN) == text.count(_END):
        raise GridError(
            f"{file.name}: figures must stand between `{_BEGIN}NAME (SHEETS): COMMAND -->` and `{_END.strip()}`"
        )


def _replace(block: Block, content: str) -> None:
    """Replace the content of a block in the current text of its file.

    Raises:
        GridError: the file no longer has this block.
    """
    text = block.file.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        if match["name"] == block.name:
            changed = text[: match.start("content")] + content + text[match.end("content") :]
            block.file.write_text(changed, encoding="utf-8")
            return
    raise GridError(f"{block.file.name} no longer has the block of figures {block.name}")


def _named(name: str, blocks: Mapping[str, Block]) -> Block:
    if name not in blocks:
        raise GridError(f"no block of figures has the name {name}; the blocks are {', '.join(blocks)}")
    return blocks[name]


def _left(blocks: Mapping[str, Block], folders: Mapping[str, Path | None]) -> list[Block]:
    """The blocks not yet measured with this code, quickest first; prints the skipped blocks and the time for the rest.

    A block whose folder is not given is skipped. The time is that of the last measurement, if the block states it.
    """
    found = []
    for block in blocks.values():
        if is_of_this_code(block.measured):
            print(f"{block.name}: {block.measured}; only texts without influence have changed since then")
        elif lacking := [flag for text, flag in FOLDERS.items() if f"{text}..." in block.command and not folders[flag]]:
            print(f"{block.name}: left out, because it needs {' and '.join(f'--{flag} FOLDER' for flag in lacking)}")
        else:
            found.append(block)
    known = [block.seconds for block in found if block.seconds is not None]
    if found:
        minutes = sum(known) / 60
        print(
            f"{len(found)} blocks to measure; the last measurements of {len(known)} of these blocks took "
            f"{minutes:,.0f} minutes"
        )
    return sorted(found, key=lambda block: (block.seconds is None, block.seconds or 0.0))


def _write(chosen: Sequence[Block], folders: Mapping[str, Path | None]) -> int:
    """Measure one block after another; each is written as soon as it is measured."""
    failed = []
    for block in chosen:
        print(f"{block.name}:\n{_indented(block.command)}", flush=True)
        commit = commit_of(ROOT)
        try:
            found = measured(block.command, block.shown, folders)
        except GridError as error:
            print(f"error: {block.name} is unchanged: {shown_lines(str(error))}", file=sys.stderr)
            failed.append(block.name)
            continue
        last = f"measured at {commit or 'no commit'} on {found.began:%Y-%m-%d}, in {found.seconds:,.0f} s"
        _replace(block, _paragraphs(block.head, found.figures, found.times, last))
        print(f"  {found.seconds:,.0f} s", flush=True)
    if failed:
        print(f"not written: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _check(block: Block, results: Path) -> int:
    figures = tables(results, block.shown)
    if block.content.startswith(_paragraphs(block.head, figures, RAN).rstrip("\n")):
        return 0
    told = f"{block.file.name}: the figures in {block.name} differ from {results}; the correct ones are:"
    print(f"{told}\n\n{figures}", file=sys.stderr)
    return 1


def _paragraphs(*texts: str) -> str:
    return "".join(f"\n{text}\n" for text in texts if text) + "\n"


def _indented(command: str) -> str:
    return "\n".join(f"  {line}" for line in command.split("\n"))


# The commit with which a figure was measured.


# These files contain the figures; if the files counted as code, writing one figure would make the code look changed
# for the next figure.
_NO_CODE = (":!README.md", ":!BENCHMARKS.md")
_NO_FIGURES = (":!*.md", ":!docs", ":!tests", ":!.ci", ":!launch/readme.py")  # files on which no figure depends
_METRICS, _PROSE = "grid/core/declared.txt", 5  # the fields from this place on are prose


def commit_of(folder: Path) -> str | None:
    """The short commit of a checkout; None outside a checkout.

    The commit ends in `-dirty` if files other than those with figures have changed.
    """
    try:
        commit = _git(folder, "rev-parse", "--short", "HEAD")
        return f"{commit}-dirty" if _git(folder, "status", "--porcelain", "--", ".", *_NO_CODE) else commit
    except (OSError, subprocess.SubprocessError):
        return None


def is_of_this_code(measured: str) -> bool:
    """Whether only pages, docstrings, comments and metrics' meanings have changed since the commit of a block.

    Files on which no figure depends (`_NO_FIGURES`) do not count. `measured` is the block's last line, which names the
    commit. False if the commit is not known, or had changes that were not committed (`-dirty`).
    """
    found = re.match(r"measured at ([0-9a-f]{7,40}) on ", measured)
    if found is None:
        return False
    try:
        changed = _git(ROOT, "diff", "--name-only", "--no-renames", found[1], "--", ".", *_NO_FIGURES).splitlines()
        return all(
            _code(path, (ROOT / path).read_text(encoding="utf-8"))
            == _code(path, _git(ROOT, "show", f"{found[1]}:{path}"))
            for path in changed
        )
    except (OSError, SyntaxError, subprocess.SubprocessError):  # the commit is unknown, or a file is new or gone
        return False


def _code(path: str, text: str) -> object:
    """A file without the texts that change no figure, in a comparable form.

    These texts are the docstrings and comments of a Python or YAML file, and the meanings of metrics.
    """
    if path == _METRICS:
        return [line.split("|")[:_PROSE] for line in text.splitlines() if not line.startswith("#")]
    if path.endswith(".yaml"):
        return OmegaConf.create(text)
    if not path.endswith(".py"):
        return text.strip()
    return ast.dump(_Bare().visit(ast.parse(text)))


class _Bare(ast.NodeTransformer):
    """Leaves out docstrings, wherever they are, and other statements that are only a constant."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        return None if isinstance(node.value, ast.Constant) else node


def _git(folder: Path, *arguments: str) -> str:
    found = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return found.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
