"""One cell, and a chunk of them: from a built setting to rows.

Read it in this order: `environment` (the case's world and roles), `run` (one cell), `deadline` (its own time), `rows`,
`case_rows` and `tree_rows` (what is written of it), `identity`, `costs`, `attempts` and `transcripts` (of a chunk),
`endings`, `failures` and `expected`. `pilot`, `capped` and `forecast` run a few cells to tell what all would take;
`limits` is a worker's memory.

It imports `settings` and all below; it knows no Ray.
"""
