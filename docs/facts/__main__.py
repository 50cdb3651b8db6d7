"""Write the facts that pages get from the code into the pages' files: `python -m docs.facts`."""

from __future__ import annotations

from pathlib import Path

from docs.facts import written

for page in sorted(Path(__file__).parents[1].glob("*.md")):
    before = page.read_text(encoding="utf-8")
    after = written(before)
    if after != before:
        page.write_text(after, encoding="utf-8")
        print(f"wrote {page.name}")
