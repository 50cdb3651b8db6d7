"""The types that every other package uses, and nothing else: this package imports nothing of the project but itself.

Read it in this order: `types` (tools, calls, observations, steps, trajectories, predicted plans), `problem` (what a
data set gives: cases, references, outcomes, and which tools are offered), `world` (what tools do, and when a case is
resolved), `engine` (prompts, the answers that are wanted, the two verbs `sample` and `choose`, and the roles in which
models are asked), `metric` (what is measured, and what each name means), `errors`, `places` (where results lie).

The rest is small: `untrusted` reads and shows what others wrote; `util` caches what is made once, derives seeds from
names and checks the values that YAML gives a class; `labels` makes the labels of settings; `surroundings` prepares
commands for an output that cannot show all letters and for a cache that cannot be written; `beside` finds `analysis`
and `launch` whatever folders of these names a user has; `moved` has the names that modules had before.
"""
