"""Runs one cell, or a chunk of cells, of a built setting, and makes rows of the results.

Read it in this order: `environment` (the models of the case's world), `run` (one cell, and its rows), `deadline` (a
case's own seconds, and the memory that its process may use), `rows` (the rows of a cell, including its end, costs and
requests; the rows of attempts at a chunk), `metered` (engines whose requests go through a meter), `paying` (records the
cost of each request, for limits on money), `printed` (the output of planners), `expected` (the expected success),
`rescoring` (rebuilds a stored cell's trajectory and scores it with today's code; `sweeps/rescore` compares the scores),
`pilot` (runs a few cells to estimate the costs of all).

The package imports `settings` and the layers below `settings`, and does not use Ray.
"""
