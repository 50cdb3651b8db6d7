"""The roles of models in the environment, beside the planner's own model: to play a user, play a tool, or judge.

`evaluation` asks a model whether two values mean the same, if rules cannot decide, and audits a judge by the reference
(grades of final answers are in `datasets/grading`). `simulation` plays tools. `grounding` says which name of a schema a
call meant. `customer` plays the user of a conversation (τ²-bench). `comparing` judges pairs of episodes. This room
imports `episode`, `engines` and `core`, and of the planners only `planners/restoring`.
"""
