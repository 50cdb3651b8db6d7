"""All code that uses Ray: the driver, its workers, and the replicas that answer for models.

Read it in this order: `connection` (to a cluster; `watcher` ends the processes that a killed driver leaves), `batch`
(the driver: which of the plan's chunks are in flight, and which cells are tried again if a worker died or has been
silent for too long), `lanes` (work that needs the same models, and how much of it may be in flight), `worker` (a chunk
in a task), `signs` (a worker's messages while it runs), `money` (how many cells and which requests there is money for),
`pilots` (a few cells in advance); `fleet` (all models of a sweep), `turns` (which models are loaded together if the
GPUs do not hold all), `pool`, `replica` (an actor with an engine), `client` (how a cell asks it), `ready` (waiting for
replicas), `gpus` (which there are, and which are free), `answering` (one engine outside a sweep), `metrics` (a
replica's figures for Prometheus; a sweep's are in `sweeps/session`).

It is the top layer of the code that runs cells: it imports `cells`, `settings` and all layers below.
"""
