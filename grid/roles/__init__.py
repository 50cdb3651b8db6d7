"""The roles of models in the environment, besides the planner's own model: to play a user, to play a tool, or to judge.

`evaluation` asks a model whether two values mean the same thing, if rules cannot decide, and audits a judge against the
reference (grades of final answers are in `datasets/grading`). `simulation` plays tools. `grounding` says which name in
a schema a call meant. `customer` plays the user in a conversation (τ²-bench). `comparing` judges pairs of episodes.
This package imports `episode`, `engines`, `worlds`, `text` and `core` and, from other packages, only
`datasets/grading` and `planners/restoring`.
"""
