"""Makes data with a model: a benchmark of one's own, written by it and checked by running it.

Cases that code draws from a seed are made in `datasets`. This room stands above all that a sweep uses, and no sweep
imports it. `slate` is egb_slate's construction: its command and the order of its stages. `config` says what is wanted,
`asking` asks the model and checks what it says. The stages are `tools`, `plans`, `queries`, `substeps` (with
outcomes); `by_queries` is the paper's order, queries first.
"""
