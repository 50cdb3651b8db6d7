"""One cell, and a chunk of them: from a built setting to rows.

Read it in this order: `environment` (the case's world and roles), `run` (one cell, and what is written of it),
`deadline` (a case's own seconds, and the memory that its process may take), `rows` (of a cell: how it ended, what it
took, what it asked; of a chunk's tries), `metered` (engines whose requests somebody hears of), `paying` (each request
written down as it is answered, for limits on money), `printed` (what planners print), `expected`, `rescoring` (a stored
cell's trajectory made again, and today's scores of it; `sweeps/rescore` compares them). `pilot` runs a few cells to
tell what all would take.

It imports `settings` and all below; it knows no Ray.
"""
