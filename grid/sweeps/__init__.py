"""The work of the command line and of `from grid import sweep`: settings are composed, checked, run and reported.

Read it in this order. `arguments` checks the command line, removes secrets from it, and formulates the messages about
arguments that Hydra cannot read. `composing` composes settings with Hydra, and `jobs` makes one checked sweep of them.
`session` runs a checked sweep, from its announcement to its first screen. `ending` has the limits that end a sweep
early. `progress` prints a running sweep's messages, and writes the file with its state. `traces` sends episodes to
collectors of OpenTelemetry. Then come `dry_run`, `inline` (a sweep without a cluster), `rescore` (scores a folder
again, and shows and keeps the new values next to the stored ones), `api` (sweeps from Python), and `notebook` (a
sweep's messages as one output of a cell). This package imports everything but `launch`.
"""
