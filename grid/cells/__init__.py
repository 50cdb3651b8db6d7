"""One cell, and a chunk of cells: from a built setting to rows.

Read it in this order: `environment` (the case's world and roles), `run` (one cell, and its rows), `deadline` (a case's
own seconds, and the memory that its process may use), `rows` (the rows of a cell: its end, its costs, its requests; and
of a chunk's tries), `metered` (engines whose requests are reported to a meter), `paying` (each request is written down
when it is answered, for limits on money), `printed` (the output of planners), `expected` (the expected success),
`rescoring` (rebuilds a stored cell's trajectory and scores it with today's code; `sweeps/rescore` compares the scores).
`pilot` runs a few cells to estimate the costs of all.

It imports `settings` and everything below; it does not know Ray.
"""
