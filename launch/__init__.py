"""The commands: `main` names them, each is a file that reads its arguments and calls what does the work.

`sweep` composes settings with Hydra (`composing`, `jobs`), runs them (`session`, with `progress`, `recording`,
`spending`) and prints `analysis.screen`; `api` is the same from Python. `report`, `view`, `power`, `replicas`, `new`
and the others stand beside them; `bench` measures (`benchmarks`). It imports everything, and nothing imports it but
`from grid import sweep`.
"""
