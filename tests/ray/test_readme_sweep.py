"""README's figures of a sweep: its tables and its times."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from launch import readme

NULL = (
    "python launch/sweep.py -m model=null_engine dataset=null_cases dataset.cases=2 planner=react robustness=none "
    "trials=1 cluster.dashboard=false"
)


@pytest.mark.slow  # .ci/run holds the default sweep against README
def test_a_sweeps_tables_and_times_are_written_into_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "README.md"
    monkeypatch.setattr(readme, "FILES", (page,))
    mark = f"<!-- figures one (results, robustness=none): {NULL} -->\n"
    behind = "<!-- end of figures -->\nbetween\n<!-- figures other: x -->\nkept\n<!-- end of figures -->\nbehind\n"
    page.write_text(f"before\n{mark}old\n{behind}")
    assert readme.main(["write", "one"]) == 0, capsys.readouterr().err
    said = page.read_text(encoding="utf-8")
    assert said.startswith(f"before\n{mark}\n```bash\n{NULL}\n```\n\n**")
    assert said.endswith(behind)
    table, ran, measured = said.removesuffix(f"\n{behind}").strip().rsplit("\n\n", 2)
    assert "| none | react | 2 | 1 | 2 | 0 | " in table
    assert re.fullmatch(
        r"ran 2 cells in .* s: 2 ok, 0 failed; the first cell was done .* s after the command began; "
        r"the command took .* s",
        ran,
    )
    assert re.fullmatch(r"measured at (\w+(-dirty)?|no commit) on \d{4}-\d\d-\d\d, in [\d,]+ s", measured)
