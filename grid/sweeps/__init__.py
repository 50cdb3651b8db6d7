"""What the command line and `from grid import sweep` do: settings are composed, checked, run and told of.

Read it in this order: `arguments` (what a command line says, and how a key that cannot be right is refused),
`composing` (Hydra), `jobs` (its jobs become settings), `session` (a checked sweep from its announcement to its first
screen), `progress` (what is printed while it runs), `progress_file` (the same for whoever follows it from elsewhere),
`dry_run`, `api` (the same from Python).

The rest is small: `command` (a command line without secrets), `folders` (where data sets' files lie), `summary` (of
replicas), `metrics` (for Prometheus). It imports everything but `launch`.
"""
