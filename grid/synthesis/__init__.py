"""Making data with a model: your own benchmark, which the model writes and which is checked by running it.

(The code that draws cases from a seed is in `datasets`.) This package is a layer above the packages that a sweep uses,
and no sweep imports it. `slate` constructs sets like egb_slate's; it contains the command and the order of the stages.
`config` has the keys of a construction; `asking` asks the model and checks its answers. The stages are in `tools`,
`plans`, `queries` and `substeps` (which also writes the outcomes of calls). `by_queries` follows the paper's order,
with queries first.
"""
