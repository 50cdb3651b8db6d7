"""What every other room speaks of, and nothing else: it imports nothing of the project but itself.

Read it in this order: `types` (tools, calls, observations, steps, trajectories, predicted plans), `problem` (what a
data set gives: cases, references, outcomes, and which tools are offered), `world` (what tools do, and when a case is
resolved), `engine` (prompts, the answers that are wanted, the two verbs `sample` and `choose`, and the roles in which
models are asked), `metric` (what is measured, and what each name means), `errors`, `places` (where results lie).

The rest is small: `untrusted` reads and shows what others wrote; `util` caches what is made once, derives seeds from
names and checks the values that YAML gives a class; `labels` are how settings are called; `surroundings` is what
commands begin with where the output or the cache cannot take all; `beside` finds `analysis` and `launch` whatever
folders of these names a user has; `moved` has the names that modules had before.
"""
