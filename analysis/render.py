"""A table with its title and caption, as terminal text, Markdown, CSV and LaTeX."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from grid.core.untrusted import shown, shown_lines
from grid.store import sql

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~&])")
_ENDLESS = 10_000
READABLE = 100
"""Columns that a report's tables are made for."""
_WIDTH = 160
"""Columns that tables of a sweep's replicas and settings need; narrower terminals get this many all the same."""
_LABEL = 14
"""Columns that a label keeps where there is little room."""
_FORMULA = frozenset("=+-@\t\r\n＝＋－＠")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "[": "{[}", "]": "{]}", "-": "{-}", "−": "$-$", "±": r"$\pm$",
    "×": r"$\times$", "∞": r"$\infty$", "→": r"$\to$", "√": r"$\surd$", "≤": r"$\le$", "≥": r"$\ge$", "≈": r"$\approx$",
    "τ": r"$\tau$", "π": r"$\pi$", "Δ": r"$\Delta$", "α": r"$\alpha$", "β": r"$\beta$", "κ": r"$\kappa$",
    "χ": r"$\chi$", "ρ": r"$\rho$", "§": r"\S{}", "†": r"\textdagger{}", "…": r"\dots{}", "·": r"$\cdot$",
}  # fmt: skip
_LATIN = frozenset(map(chr, range(0xA0, 0x180))) - frozenset("ĦħĸĿŀŉŦŧſ") | frozenset("–—‘’“”")
"""What LaTeX's T1 fonts have besides ASCII."""


@dataclass(frozen=True)
class Sheet:
    """A table as it is shown, and the values behind it.

    `labels` are the names of its first columns, texts; `figures` those of the others, aligned to the right. Every row
    of `rows` has a text for each; `breaks` are the rows before which a line is drawn. `values` are the unrounded
    values, for CSV; `query` is what gives them (SQL, or a line of Python), `notes` what is to be known of the table,
    `reading` what it says in words, a line a statement. `section` is the heading of a page under which it stands with
    others. `wraps`: its texts are long, and take several lines. `printed` are the rows as a terminal shows them, where
    it has less room; elsewhere they are `rows`. `unprinted` are figures that a terminal leaves out, and `short` is the
    caption of the others. `data` are the labels of the data sets that it is of, where no column `dataset` has them.
    """

    name: str
    title: str
    caption: str
    labels: Sequence[str]
    figures: Sequence[str]
    rows: Sequence[Sequence[str]]
    values: pd.DataFrame
    query: str
    notes: Sequence[str] = field(default_factory=list)
    breaks: frozenset[int] = frozenset()
    reading: str = ""
    section: str = ""
    wraps: bool = False
    printed: Sequence[Sequence[str]] = ()
    unprinted: frozenset[str] = frozenset()
    short: str = ""
    data: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuse rows of other widths: a renderer would shift or drop their cells. `query` names what it reads."""
        object.__setattr__(self, "query", sql.joined(self.query))
        width = len(self.labels) + len(self.figures)
        if any(len(row) != width for row in (*self.rows, *self.printed)):
            raise ValueError(f"{self.name}: a row without {width} cells")


def wide(console: Console, width: int = _WIDTH) -> Console:
    """A console for the same place that has so many columns, or more."""
    return Console(file=console.file, width=max(console.width, width), highlight=False, emoji=False)


def show(console: Console, sheet: Sheet, wide: bool = False) -> bool:
    """Print a table with its title and captions; False, and nothing, where the console is too narrow.

    Texts of labels take several lines where there is little room. `wide`: all columns and figures, on lines as long as
    they need.
    """
    table = _table(sheet, wide)
    needed = Console(width=_ENDLESS).measure(table)
    if wide:
        width = max(console.width, needed.maximum)
        console = Console(file=console.file, width=width, highlight=False, emoji=False)
    elif _narrowest(sheet, needed.maximum) > console.width:
        return False
    console.print(Text(shown(sheet.title), style="bold"))
    console.print(table)
    caption = sheet.caption if wide or not sheet.short else sheet.short
    for text in (*sheet.reading.splitlines(), caption, *sheet.notes):
        console.print(Text(shown(text), style="dim"))
    console.print()
    return True


def _table(sheet: Sheet, wide: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for name in sheet.labels:
        table.add_column(_rich(name), no_wrap=wide, overflow="fold")
    unprinted = frozenset[str]() if wide else sheet.unprinted
    kept = [True] * len(sheet.labels) + [name not in unprinted for name in sheet.figures]
    for name in sheet.figures:
        if name not in unprinted:
            table.add_column(_rich(name), justify="right", no_wrap=True)
    for place, row in enumerate(sheet.rows if wide or not sheet.printed else sheet.printed):
        if place in sheet.breaks:
            table.add_section()
        table.add_row(*map(_rich, itertools.compress(row, kept)))
    return table


def _narrowest(sheet: Sheet, widest: int) -> int:
    """The columns that a table of `widest` columns needs where its labels take several lines."""
    rows = [sheet.labels, *(sheet.printed or sheet.rows)]
    labels = [max(len(shown(row[place])) for row in rows) for place in range(len(sheet.labels))]
    return widest - sum(max(length - _LABEL, 0) for length in labels)


def _rich(text: str) -> str:
    return escape(shown(text))


def markdown(sheet: Sheet) -> str:
    """A pipe table (GitHub's) under its title in bold."""
    rule = ["---"] * len(sheet.labels) + ["---:"] * len(sheet.figures)
    lines = [_piped([*sheet.labels, *sheet.figures], _markdown), _piped(rule, str)]
    lines += [_piped(row, _markdown) for row in sheet.rows]
    notes = "".join(f"- {_markdown(note)}\n" for note in sheet.notes)
    table = "\n".join(lines)
    said = sheet.reading.splitlines()
    reading = "".join(f"{'- ' * (len(said) > 1)}{_markdown(line)}\n" for line in said)
    told = f"{reading}{chr(10) * bool(said)}{_markdown(sheet.caption)}\n" + (f"\n{notes}" if notes else "")
    return f"**{_markdown(sheet.title)}**\n\n{table}\n\n{told}"


def _piped(cells: Sequence[str], written: Callable[[str], str]) -> str:
    return f"| {' | '.join(map(written, cells))} |"


def _markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", shown(text)).strip()


def csv(sheet: Sheet) -> str:
    """The unrounded values, RFC 4180 but for line ends; missing ones are empty.

    A text that a spreadsheet would take for a formula has an apostrophe in front of it (OWASP, CSV injection).
    """
    values = sheet.values.rename(columns=_inert)
    for name in values.columns[[kind.kind not in "biufM" for kind in values.dtypes]]:
        values[name] = values[name].map(_inert)
    return values.to_csv(index=False, lineterminator="\n")


def _inert(value: Any) -> Any:
    """A text that is no formula and holds no control characters; anything else as it is, and numbers too."""
    if not isinstance(value, str):
        return value
    formula = value[:1] in _FORMULA and not _NUMBER.fullmatch(value)
    return ("'" if formula else "") + shown_lines(value)


def latex(sheet: Sheet) -> str:
    """A floating table with booktabs' rules, made smaller where it is wider than the text."""
    columns = _columns(sheet)
    lines = [_ampersands([*sheet.labels, *sheet.figures]), r"\midrule"]
    for place, row in enumerate(sheet.rows):
        lines += [r"\midrule"] if place in sheet.breaks else []
        lines.append(_ampersands(row))
    caption = ". ".join(_latex(text) for text in (sheet.title, sheet.caption, *sheet.notes))
    return "\n".join(
        [
            "% needs \\usepackage{booktabs,graphicx} and \\usepackage[T1]{fontenc}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{caption}}}",
            rf"\label{{tab:{re.sub('[^a-z0-9]+', '-', sheet.name)}}}",
            r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\toprule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
            "",
        ]
    )


def _columns(sheet: Sheet) -> str:
    """A letter a column; long texts share what the line has left."""
    if not sheet.wraps:
        return "l" * len(sheet.labels) + "r" * len(sheet.figures)
    return "".join("l" if len(max(cells, key=len, default="")) <= 20 else r"p{0.38\linewidth}"
                   for cells in zip(*sheet.rows, strict=True))  # fmt: skip


def _ampersands(cells: Sequence[str]) -> str:
    return " & ".join(map(_latex, cells)) + r" \\"


def _latex(text: str) -> str:
    """Escaped; a minus before a number is one, and no two hyphens join to a dash.

    Characters that LaTeX's fonts do not have are written by their numbers: it would stop at them.
    """
    signed = re.sub(r"(?<![\w.-])-(?=[\d.]|inf)", "−", shown(text))
    return "".join(_LATEX.get(char) or _in_font(char) for char in signed)


def _in_font(char: str) -> str:
    return char if char.isascii() or char in _LATIN else f"U+{ord(char):04X}"


FORMATS: dict[str, Callable[[Sheet], str]] = {"md": markdown, "csv": csv, "tex": latex}
"""What a folder of tables holds of each, by the file's ending."""
