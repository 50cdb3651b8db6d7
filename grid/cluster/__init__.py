"""What knows Ray: the driver, its workers, and the replicas that answer for models.

Read it in this order: `connection` (to a cluster; `watcher` ends what a killed driver leaves), `batch` (the driver:
which of the plan's chunks are in flight, and what is tried again if a worker died or has been silent for too long),
`lanes` (what waits for the same models, and how much of it may be in flight), `worker` (a chunk in a task), `signs`
(what it says while it runs), `money` (how many cells and which requests there is money for), `pilots` (a few cells in
advance); `fleet` (all models of a sweep), `turns` (which are loaded together where GPUs do not hold all), `pool`,
`replica` (an actor with an engine), `client` (how a cell asks it), `ready` (waiting for replicas), `gpus` (which there
are, and which are free), `answering` (one engine beside a sweep), `metrics` (a replica's figures for Prometheus; a
sweep's are in `sweeps/session`).

It is the top of what runs cells: it imports `cells`, `settings` and all below.
"""
