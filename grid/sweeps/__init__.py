"""What the command line and `from grid import sweep` do: settings are composed, checked, run and told of.

Read it in this order: `arguments` (what a command line says, without secrets, and what is said of a command line that
Hydra cannot read), `composing` (Hydra), `jobs` (its jobs become settings), `session` (a checked sweep from its
announcement to its first screen), `ending` (what ends one early), `progress` (what is told while it runs, and in a
file), `traces` (episodes for collectors of OpenTelemetry), `dry_run`, `inline` (a sweep without a cluster), `rescore`
(a folder scored again: each value beside the stored one, and what is written of it), `api` (the same from Python),
`notebook` (what is said of a sweep as one output of a cell). It imports everything but `launch`.
"""
