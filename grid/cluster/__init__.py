"""All code that uses Ray: the driver, its workers, and the replicas that answer for models.

Read the driver and the workers first. `connection` starts or joins a cluster; `watcher` ends the processes that a
killed driver leaves behind. `batch` is the driver: it chooses the chunks in flight, and runs cells again if their
worker died or was silent for too long. `lanes` groups the work that needs the same models, and limits how much of it is
in flight. `worker` runs a chunk in a task, and `signs` has the messages between the driver and its workers. `money`
limits cells and requests to a budget. `pilots` runs a few cells in advance.

Then read the replicas. `fleet` has all models of a sweep; `turns` chooses which models are loaded together if the GPUs
cannot hold all of them. `pool` starts and stops replicas, `replica` is an actor with an engine, `client` sends a cell's
requests to it, and `ready` waits for replicas. `gpus` finds the GPUs that exist and those that are free. `answering`
provides one engine outside a sweep. `metrics` has a replica's figures for Prometheus (a sweep's figures are in
`sweeps/session`).

This package is the top layer of the code that runs cells: it imports `cells`, `settings` and all layers below.
"""
