"""The work of the command line and of `from grid import sweep`: settings are composed, checked, run and reported.

Read it in this order: `arguments` (the command line, with its secrets removed, and the messages about one that Hydra
cannot read), `composing` (Hydra), `jobs` (its jobs become settings), `session` (a checked sweep from its announcement
to its first screen), `ending` (the limits that end a sweep early), `progress` (a running sweep's messages, and the file
with its state), `traces` (episodes for collectors of OpenTelemetry), `dry_run`, `inline` (a sweep without a cluster),
`rescore` (scoring a folder again: each value beside the stored one, and the rows for it), `api` (the same from Python),
`notebook` (a sweep's messages as one output of a cell). It imports everything but `launch`.
"""
