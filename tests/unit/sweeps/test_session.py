"""What a sweep says of names and messages that others wrote."""

from __future__ import annotations

import io

from rich.console import Console

from grid.sweeps.session import say


def test_a_models_words_can_neither_colour_nor_move_nor_add_a_line() -> None:
    out = io.StringIO()
    say(
        Console(file=out, width=20, force_terminal=True, highlight=False),
        "1 failed: [red]\x1b[2J\nsweep done\u202e\u2028\x9b1A",
    )
    assert out.getvalue() == "1 failed: [red]\\x1b[2J\\nsweep done\\u202e\\u2028\\x9b1A\n"
