"""One setting: model, planner, data set and robustness, read from a config, checked and built.

Read it in this order: `config` (the keys of a whole sweep: store, trials, budget, cluster), `setting` (a setting, its
cells, and the cells' ids and seeds), `make` (makes an object by its class's name and checks the object's values),
`parts` (planner, data set and robustness; the questions that these parts ask models; the order of options), `roles`
(the model of each role, and the cost of the model's tokens), `remembered` (reads the traces of an earlier sweep's
cases), `build` (builds a whole setting without loading engines), `named` (the cases that a sweep names), `served` (rows
whose ids include the place of a model), `weights` (the identity of a model in your own folder), `check` (checks a whole
sweep before a model is loaded), `extras` (packages that parts need), `plan` (the schedule: chunks, and how settings
take turns).

Nothing here runs a cell or uses Ray.
"""
