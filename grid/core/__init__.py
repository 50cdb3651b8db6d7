"""The types that every other package uses. This package imports no other package of the project.

Read it in this order: `types` (tools, calls, observations, steps, trajectories, predicted plans), `problem` (the
contents of a data set: cases, references, and the tools that are offered), `world` (the effects of tools, and when a
case is resolved), `engine` (prompts, the forms of answers, the two verbs `sample` and `choose`, and the roles in which
models are asked), `metric` (the meaning of each metric), `errors`, `places` (the places of results).

The rest is small. `untrusted` reads and shows texts from models, files and servers. `util` caches values that are made
once, derives seeds from names, and checks the values that YAML gives to a class. `labels` makes the labels of settings.
`surroundings` prepares commands for an output that cannot show all letters and for a cache that cannot be written.
`beside` finds `analysis` and `launch`, even if the user has folders of these names. `moved` has the earlier names of
modules.
"""
