"""A sweep whose files are damaged while it runs mends itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from grid import store
from grid.store.schema import TABLES, TIMES

SWEEP = Path(__file__).parents[2] / "launch" / "sweep.py"
# After the cells have run: what they wrote is kept elsewhere, and a bit of each table's first file is flipped.
_THEN_BREAK = """
import os, runpy, shutil, sys
from pathlib import Path
sys.path.insert(0, os.path.dirname(sys.argv[0]))
from launch import session
run, root, ran = session._run, Path("results/x"), []

def then_break(*arguments):
    stopped = run(*arguments)
    if not ran:
        shutil.copytree(root, "before")
        for table in ("episodes", "steps", "attempts", "messages", "sections"):
            path = min((root / table).iterdir())
            content = bytearray(path.read_bytes())
            content[500] ^= 1
            path.write_bytes(content)
    ran.append(1)
    return stopped

session._run = then_break
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_files_that_break_while_a_sweep_runs_are_put_aside_and_their_cells_run_again(tmp_path: Path) -> None:
    arguments = ["-m", "planner=react", "robustness=none", "dataset.limit=40", "trials=1", "name=x"]
    code = f"import sys; sys.argv = {[str(SWEEP), *arguments, 'cluster.dashboard=false']}\n{_THEN_BREAK}"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    root = tmp_path / "results" / "x"
    moved = sorted((root / ".aside").glob("*/*.parquet"))
    assert [path.parent.name for path in moved] == ["attempts", "episodes", "messages", "sections", "steps"]
    for path in moved:
        assert f"results/x/{path.parent.name}/{path.name} is damaged" in ended.stdout
    tables: tuple[store.Table, ...] = ("episodes", "steps")
    for table in tables:
        names = [name for name in TABLES[table].names if name not in TIMES]
        now, before = (store.read(place, table, names) for place in (root, tmp_path / "before"))
        assert now.equals(before)
        assert now.num_rows >= 40
