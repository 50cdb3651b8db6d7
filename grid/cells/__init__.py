"""One cell, and a chunk of them: from a built setting to rows.

Read it in this order: `environment` (the case's world and roles), `run` (one cell, and what is written of it),
`deadline` (its own time), `rows`, `costs`, `attempts` and `transcripts` (of a chunk), `endings` and `expected`.
`pilot` and `forecast` run a few cells to tell what all would take; `limits` is a worker's memory.

It imports `settings` and all below; it knows no Ray.
"""
