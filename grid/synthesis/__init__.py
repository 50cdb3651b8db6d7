"""Making data with a model: your own benchmark, which the model writes and which is checked by running it.

(Cases that code draws from a seed are made in `datasets`.) This package is above all packages that a sweep uses, and no
sweep imports it. `slate` constructs sets like egb_slate's; it contains the command and the order of the stages.
`config` has the keys of a construction; `asking` asks the model and checks its answers. The stages are in `tools`,
`plans`, `queries` and `substeps` (with the outcomes of calls). `by_queries` follows the paper's order, with queries
first.
"""
