"""A table as terminal text, Markdown, CSV and LaTeX."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Drawn
from rich.text import Text

from analysis.page.table import MISSING, NONE, Table
from grid.core.untrusted import shown, shown_lines

_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~&])")
_endless = Console(width=10_000)
READABLE = 100
"""The terminal width, in columns, for which a report's tables are made."""
_WIDTH = 160
"""The width of tables of a sweep's replicas and settings, in terminal columns.

These tables keep this width on a narrower terminal.
"""
_BETWEEN = 2
"""The number of terminal columns between two columns of a table, and at each edge of the table."""
_LABEL = 14
"""Minimum width of a label, in terminal columns, if there is little room."""
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
_MARKED = re.compile(r".*[\d\]]([*†]+)")
_TWO_LINES = 130  # maximum length of a caption, in characters
_TEXT_POINTS = 345.0  # width in points of a line in LaTeX's article class
_LABEL_POINTS = 120.0  # width in points at which a label wraps
_CHARACTER, _GAP = 4.25, 3.0  # width in points: of a character in footnote size, and of the gap beside a column
_BESIDE = ("95% interval", "bounds", "low", "high", "raw low", "raw high")
"""Prefixes of the headers of columns that belong to the column before them."""
_LATIN = frozenset(map(chr, range(0xA0, 0x180))) - frozenset("ĦħĸĿŀŉŦŧſ") | frozenset("–—‘’“”")
"""The non-ASCII characters that LaTeX's T1 fonts have."""


def wide(console: Console, width: int = _WIDTH) -> Console:
    """A console that writes to the same output as `console` and has at least `width` columns."""
    return _like(console, max(console.width, width))


def _like(console: Console, width: int) -> Console:
    return Console(
        file=console.file, width=width, highlight=False, emoji=False, force_jupyter=False,
        force_terminal=console.is_terminal,
    )  # fmt: skip


def text(table: Table) -> str:
    """A table as a terminal shows it, with all its columns."""
    out = io.StringIO()
    show(Console(file=out, force_jupyter=False, force_terminal=False), table, wide=True)
    return out.getvalue().rstrip("\n")


def show(console: Console, table: Table, wide: bool = False) -> bool:
    """Print a table with its title and captions; if the console is too narrow, print nothing and return False.

    Labels and headers take several lines if there is little room. If `wide` is set, all columns are shown, on lines as
    long as necessary.
    """
    figures, rows = table.brief() if not wide else (table.columns, table.rows)
    headers = [column.header for column in figures]
    drawn = _drawn(table, headers, rows, wide)
    if wide:
        width = max(console.width, _endless.measure(drawn).maximum)
        console = _like(console, width)
    elif _narrowest(table, headers, rows) > console.width:
        words = [max(header.split(), key=len, default="") for header in headers]
        if _narrowest(table, words, rows) > console.width:
            return False
        drawn = _drawn(table, headers, rows, wide, folded=True)
    console.print(Text(shown(table.title), style="bold"))
    console.print(drawn)
    for text in (*table.reading.splitlines(), table.caption if wide else table.short, *table.notes):
        console.print(Text(shown(text), style="dim"))
    console.print()
    return True


def _narrowest(table: Table, figures: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """The number of terminal columns that a table needs if its labels are spread over several lines."""
    columns = zip([*table.labels, *figures], *rows, strict=True)
    widest = sum(max(cell_len(shown(text)) for text in column) + _BETWEEN for column in columns)
    lengths = [max(len(shown(row[place])) for row in (table.labels, *rows)) for place in range(len(table.labels))]
    return widest - sum(max(length - _LABEL, 0) for length in lengths)


def _drawn(
    table: Table, figures: Sequence[str], rows: Sequence[Sequence[str]], wide: bool, folded: bool = False
) -> Drawn:
    """A table for a terminal; labels may wrap unless `wide` is set, and headers wrap only if `folded` is set."""
    drawn = Drawn(box=box.SIMPLE_HEAD, collapse_padding=True, pad_edge=False)
    for name in table.labels:
        drawn.add_column(_rich(name), no_wrap=wide, overflow="fold")
    for place, name in enumerate(figures, len(table.labels)):
        longest = max((cell_len(shown(row[place])) for row in rows), default=0)  # figures stay on one line
        drawn.add_column(_rich(name), justify="right", no_wrap=not folded, min_width=longest if folded else None)
    for place, row in enumerate(rows):
        if place in table.sections:
            drawn.add_section()
        drawn.add_row(*map(_rich, row))
    return drawn


def _rich(text: str) -> str:
    return escape(shown(text))


def markdown(table: Table) -> str:
    """A pipe table, as on GitHub, under the table's title in bold."""
    rule = ["---"] * len(table.labels) + ["---:"] * len(table.figures)
    lines = [_piped([*table.labels, *table.figures], _markdown), _piped(rule, str)]
    lines += [_piped(row, _markdown) for row in table.rows]
    notes = "".join(f"- {_markdown(note)}\n" for note in table.notes)
    cells = "\n".join(lines)
    said = table.reading.splitlines()
    reading = "".join(f"{'- ' * (len(said) > 1)}{_markdown(line)}\n" for line in said)
    told = f"{reading}{chr(10) * bool(said)}{_markdown(table.caption)}\n" + (f"\n{notes}" if notes else "")
    return f"**{_markdown(table.title)}**\n\n{cells}\n\n{told}"


def _piped(cells: Sequence[str], written: Callable[[str], str]) -> str:
    return f"| {' | '.join(map(written, cells))} |"


def _markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", shown(text)).strip()


def csv(table: Table) -> str:
    """The unrounded values as CSV, which follows RFC 4180 except for line ends; missing values are empty.

    A text that a spreadsheet would take for a formula has an apostrophe in front of it (OWASP, CSV injection).
    """
    values = table.values.rename(columns=_inert)
    for name in values.columns[[kind.kind not in "biufM" for kind in values.dtypes]]:
        values[name] = values[name].map(_inert)
    return values.to_csv(index=False, lineterminator="\n")


def _inert(value: Any) -> Any:
    """A text without control characters that no spreadsheet takes for a formula; other types of value are unchanged."""
    if not isinstance(value, str):
        return value
    formula = value[:1] in _FORMULA and not _NUMBER.fullmatch(value)
    return ("'" if formula else "") + shown_lines(value)


def latex(table: Table) -> str:
    """A floating table with booktabs' rules, a short caption, and all further information in a note below.

    A table that is wider than a page's text is split into several parts below one another. Each part has all labels and
    some of the figures; a figure and its interval are in the same part. Columns without any value are left out, and the
    note names them.
    """
    table = _with_values(table)
    caption, note = _captioned(table)
    parts = [_tabular(table, places) for places in _parts(table)]
    return "\n".join(
        [
            "% needs \\usepackage{booktabs} and \\usepackage[T1]{fontenc}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex(caption)}}}",
            rf"\label{{tab:{re.sub('[^a-z0-9]+', '-', table.name)}}}",
            rf"\par\medskip\footnotesize\setlength{{\tabcolsep}}{{{_GAP:g}pt}}",
            "\n\n\\medskip\n".join(parts),
            *([rf"\par\medskip\parbox{{\linewidth}}{{\scriptsize {_latex(note)}}}"] if note else []),
            r"\end{table}",
            "",
        ]
    )


def _with_values(table: Table) -> Table:
    """The table without the columns of figures for which no row has a value."""
    first = len(table.labels)
    known = [
        any(row[first + place] not in (NONE, MISSING, "") for row in table.rows) for place in range(len(table.figures))
    ]
    left_out = [name for name, there in zip(table.figures, known, strict=True) if not there]
    if not left_out or not table.rows:
        return table
    columns = [column for column, there in zip(table.columns, known, strict=True) if there]
    return replace(
        table, columns=columns, notes=[*table.notes, f"no row has a value in these columns: {', '.join(left_out)}"]
    )


def _captioned(table: Table) -> tuple[str, str]:
    """The short caption of a table in LaTeX, and the note below the table.

    The short caption is the title with as many clauses as fit into two lines; the note has the other clauses and the
    table's notes.
    """
    first, rest = table.title, [clause for clause in table.caption.split("; ") if clause]
    while rest and len(first) + len(rest[0]) + 2 <= _TWO_LINES:
        first += f"{'. ' if first == table.title else '; '}{rest.pop(0)}"
    return first, ". ".join([*filter(None, ["; ".join(rest)]), *table.notes])


def _parts(table: Table) -> list[list[int]]:
    """The column indices of each part: all labels, and as many figures as fit into the text's width, at least one.

    A column whose header starts with a prefix in `_BESIDE` is in the same part as the column before it, unless the two
    do not fit together. A table whose texts wrap has a single part.
    """
    widths = [_points(max((len(shown(row[place])) for row in (_heads(table), *table.rows)), default=0))
              for place in range(len(_heads(table)))]  # fmt: skip
    labels = [*range(len(table.labels))]
    if table.wraps:
        return [[*range(len(widths))]]
    room = _TEXT_POINTS - sum(min(widths[place], _LABEL_POINTS) for place in labels)
    groups: list[list[int]] = []
    for place in range(len(labels), len(widths)):
        if groups and _heads(table)[place].startswith(_BESIDE):
            groups[-1].append(place)
        else:
            groups.append([place])
    fitting = [sum(widths[place] for place in group) <= room for group in groups]
    split = [[group] if fits else [[place] for place in group] for group, fits in zip(groups, fitting, strict=True)]
    parts, used = [list(labels)], 0.0
    for group in chain.from_iterable(split):
        width = sum(widths[place] for place in group)
        if used + width > room and len(parts[-1]) > len(labels):
            parts.append(list(labels))
            used = 0.0
        parts[-1] += group
        used += width
    return parts


def _points(characters: int) -> float:
    return characters * _CHARACTER + 2 * _GAP


def _heads(table: Table) -> list[str]:
    return [*table.labels, *table.figures]


def _tabular(table: Table, places: Sequence[int]) -> str:
    labels = len(table.labels)
    marks = {place: max((_marks(row[place]) for row in table.rows), key=len, default="") for place in places}

    def line(row: Sequence[str]) -> str:
        cells = (_latex(row[place]) if place < labels else _aligned(row[place], marks[place]) for place in places)
        return " & ".join(cells) + r" \\"

    lines = [" & ".join(_latex(_heads(table)[place]) for place in places) + r" \\", r"\midrule"]
    for place, row in enumerate(table.rows):
        lines += [r"\midrule"] if place in table.sections else []
        lines.append(line(row))
    head = rf"\begin{{tabular}}{{{''.join(_column(table, place) for place in places)}}}"
    return "\n".join([head, r"\toprule", *lines, r"\bottomrule", r"\end{tabular}"])


def _column(table: Table, place: int) -> str:
    """A column's letter in LaTeX: figures are right-aligned, so that digits align; long texts take several lines."""
    longest = max((len(shown(row[place])) for row in table.rows), default=0)
    if table.wraps:
        return "l" if longest <= 20 else r"p{0.38\linewidth}"
    if place >= len(table.labels):
        return "r"
    return "l" if _points(longest) <= _LABEL_POINTS else rf"p{{{_LABEL_POINTS - 2 * _GAP:g}pt}}"


def _aligned(text: str, marks: str) -> str:
    """A figure with room for the marks that other figures of its column have, so that their digits are aligned."""
    own = _marks(text)
    return _latex(text) + (rf"\phantom{{{_latex(marks[len(own) :])}}}" if len(own) < len(marks) else "")


def _marks(text: str) -> str:
    found = _MARKED.fullmatch(text)
    return found[1] if found else ""


def _latex(text: str) -> str:
    """A text escaped for LaTeX; a hyphen before a number becomes a minus sign, and two hyphens never become a dash.

    Characters that LaTeX's fonts lack are written as their code points, because LaTeX would stop at them.
    """
    signed = re.sub(r"(?<![\w.-])-(?=[\d.]|inf)", "−", shown(text))
    return "".join(_LATEX.get(char) or _in_font(char) for char in signed)


def _in_font(char: str) -> str:
    return char if char.isascii() or char in _LATIN else f"U+{ord(char):04X}"


FORMATS: dict[str, Callable[[Table], str]] = {"md": markdown, "csv": csv, "tex": latex}
"""Map each file extension to the function that writes a table in that format."""
