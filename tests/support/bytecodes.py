"""Work counted in executed bytecodes: the same on a machine of any speed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def executed(work: Callable[[], object], home: str) -> int:
    """The bytecodes that some work executes in files whose path begins with `home`, comprehensions included."""
    counted = 0

    def trace(frame: FrameType, event: str, argument: object) -> Callable[..., Any] | None:
        nonlocal counted
        if not frame.f_code.co_filename.startswith(home):
            return None
        frame.f_trace_opcodes = True
        counted += event == "opcode"
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 begins to report opcodes with the next settrace only
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return counted
