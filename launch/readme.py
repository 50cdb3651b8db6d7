"""The figures of README.md and BENCHMARKS.md: every block names the command that gives it, and holds what that printed.

`python launch/readme.py` lists the blocks; `write NAME...` (or `all`) runs their commands and writes what they print;
`check NAME RESULTS` compares a block's tables with a sweep's results, and no time.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grid.core.errors import GridError, one_line
from grid.core.untrusted import shown_lines
from launch import measuring
from launch.commits import commit_of

FILES = (measuring.ROOT / "README.md", measuring.ROOT / "BENCHMARKS.md")
_BEGIN, _END = "<!-- figures ", "<!-- end of figures -->\n"
_BLOCK = re.compile(
    rf"^{_BEGIN}(?P<name>\w+)(?: \((?P<shown>[^)\n]+)\))?:\s(?P<command>.+?)\s-->\n(?P<content>.*?)^{_END}", re.S | re.M
)
_ALL = "all"


@dataclass(frozen=True)
class Block:
    """A command as a reader types it, what is shown of the tables of a sweep, and what stands in its file now."""

    file: Path
    name: str
    shown: tuple[str, ...]
    command: str
    content: str

    @property
    def head(self) -> str:
        """What a reader sees first."""
        return f"```bash\n{self.command}\n```"

    @property
    def measured(self) -> str:
        """Its last line."""
        return self.content.rstrip().rpartition("\n")[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 0; 1 where a command fails or a table differs; 2 where a file or results cannot be read."""
    given = _parser().parse_args(arguments)
    try:
        blocks = every(FILES)
        if given.verb == "write":
            folders = {flag: getattr(given, flag) for flag in measuring.FOLDERS.values()}
            return _write(list(blocks) if given.names == [_ALL] else given.names, blocks, folders)
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
    write = verbs.add_parser("write", help="run the commands of blocks and write what they print")
    write.add_argument("names", nargs="+", metavar="NAME", help=f"of a block; or {_ALL}")
    for flag in sorted(set(measuring.FOLDERS.values())):
        told = " and ".join(f"{before}..." for before, name in measuring.FOLDERS.items() if name == flag)
        write.add_argument(f"--{flag}", type=Path, metavar="FOLDER", help=f"for {told}")
    check = verbs.add_parser("check", help="compare a block's tables with a sweep's results")
    check.add_argument("name", metavar="NAME")
    check.add_argument("results", type=Path, metavar="RESULTS", help="the folder of a sweep, results/<name>")
    return parser


def every(files: Sequence[Path]) -> dict[str, Block]:
    """The blocks of the files by name, in their order.

    Raises:
        GridError: two have one name, or a marker has no end or is no marker.
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
        raise GridError(f"{file.name}: figures stand between `{_BEGIN}NAME (SHEETS): COMMAND -->` and `{_END.strip()}`")


def _replace(block: Block, content: str) -> None:
    """Write other content into a block of a file, as the file is now.

    Raises:
        GridError: it has no such block any more.
    """
    text = block.file.read_text(encoding="utf-8")
    for match in _BLOCK.finditer(text):
        if match["name"] == block.name:
            changed = text[: match.start("content")] + content + text[match.end("content") :]
            block.file.write_text(changed, encoding="utf-8")
            return
    raise GridError(f"{block.file.name} has no block of figures {block.name} any more")


def _named(name: str, blocks: Mapping[str, Block]) -> Block:
    if name not in blocks:
        raise GridError(f"no block of figures has the name {name}; there are {', '.join(blocks)}")
    return blocks[name]


def _write(names: Sequence[str], blocks: Mapping[str, Block], folders: Mapping[str, Path | None]) -> int:
    """Measure one block after another; each is written as soon as it is there."""
    failed = []
    for block in [_named(name, blocks) for name in names]:
        print(f"{block.name}:\n{_indented(block.command)}", flush=True)
        commit = commit_of(measuring.ROOT)
        try:
            found = measuring.measured(block.command, block.shown, folders)
        except GridError as error:
            print(f"error: {block.name} stays as it was: {shown_lines(str(error))}", file=sys.stderr)
            failed.append(block.name)
            continue
        measured = f"measured at {commit or 'no commit'} on {found.began:%Y-%m-%d}"
        _replace(block, _paragraphs(block.head, found.figures, found.times, measured))
        print(f"  {found.seconds:,.0f} s", flush=True)
    if failed:
        print(f"not written: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _check(block: Block, results: Path) -> int:
    figures = measuring.tables(results, block.shown)
    if block.content.startswith(_paragraphs(block.head, figures, measuring.RAN).rstrip("\n")):
        return 0
    told = f"{block.file.name} has other figures in {block.name} than {results}; these are right:"
    print(f"{told}\n\n{figures}", file=sys.stderr)
    return 1


def _paragraphs(*texts: str) -> str:
    return "".join(f"\n{text}\n" for text in texts if text) + "\n"


def _indented(command: str) -> str:
    return "\n".join(f"  {line}" for line in command.split("\n"))


if __name__ == "__main__":
    sys.exit(main())
