"""Two runs side by side: settings and cases matched, what changed, and what was different about the runs.

`runs` matches them and counts, `tables` shows it, figures too; `tables.compare` is what a command asks.

It imports `page`, `stats` and `load`.
"""
