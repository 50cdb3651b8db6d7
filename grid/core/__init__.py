"""The types that every other package uses. This package imports no other package of the project.

Read its modules in this order: `types` (tools, calls, observations, steps, trajectories, predicted plans), `problem`
(the contents of a data set: cases, references, and the tools that are offered), `world` (the effects of tools, and when
a case is resolved), `engine` (prompts, the forms of answers, the two verbs `sample` and `choose`, and the roles in
which models are asked), `metric` (the meaning of each metric), `errors`, `places` (where results are stored).

The remaining modules are small. `untrusted` reads and shows texts from models, files and servers. `util` caches values
that are computed once, derives seeds from names, and checks the values that YAML passes to a class. `labels` creates
the labels of settings. `surroundings` prepares commands for an output that cannot show all characters, and for a cache
that is not writable. `beside` finds `analysis` and `launch`, even if the user has folders with these names. `moved`
contains the former names of modules.
"""
