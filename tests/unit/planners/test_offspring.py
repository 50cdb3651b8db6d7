"""No process of an engine outlives the process that started it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from pathlib import Path


def test_an_engines_processes_end_with_one_that_is_killed_grandchildren_too(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent("""
            import subprocess, time
            from grid.engines.vllm.engine import Offspring
            offspring = Offspring()
            # The first child ends at once, so that nobody knows any more whose child the second one is.
            subprocess.run(["/bin/sh", "-c", "setsid sleep 300 & echo $!"], check=True)
            print(subprocess.Popen(["sleep", "300"]).pid, flush=True)
            time.sleep(300)
        """)
    )
    bystander = subprocess.Popen(["sleep", "300"])
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        processes = [int(parent.stdout.readline()) for _ in range(2)]
        assert all(map(alive, processes))
        parent.kill()
    deadline = time.monotonic() + 60
    while any(map(alive, processes)):
        assert time.monotonic() < deadline, "one lives on"
        time.sleep(0.05)
    assert alive(bystander.pid)
    bystander.kill()
    bystander.wait()


def alive(process: int) -> bool:
    """Whether it runs; one that has ended and that nobody has waited for does not."""
    status = Path(f"/proc/{process}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
