"""All processes that an engine starts, ended with the process that started it."""

from __future__ import annotations

import os
import subprocess
import uuid

_MARK = "AGENT_GRID_ENGINE"
# Looked for by their environment: a child that ended has left its own children to another parent.
_SCRIPT = """
read -r _
for turn in 1 2 3; do
    for file in $(grep -lszxF "$1" /proc/[0-9]*/environ); do
        file=${file%/environ}
        kill -9 "${file#/proc/}"
    done
    sleep 0.1
done
"""


class Offspring:
    """From its creation on, processes that this one starts bear a mark, which their own children inherit.

    A shell waits for the end of its input, which comes with this process's end, whichever way that comes, with `end`,
    or when nobody holds the object any more. Then all that bear the mark are killed: they would live on and hold
    their memory. Linux only.
    """

    def __init__(self) -> None:
        mark = uuid.uuid4().hex
        self._watch = subprocess.Popen(  # noqa: S603 - a constant and a mark of our own
            ["/bin/sh", "-c", _SCRIPT, "sh", f"{_MARK}={mark}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", os.defpath)},  # without a mark of an engine before this one
            start_new_session=True,  # a Ctrl-C ends it too early otherwise
        )
        os.environ[_MARK] = mark

    def end(self) -> None:
        """Kill them now."""
        self._watch.communicate()
