"""Models of the environment, besides the planner's own: they play a user, simulate a tool, or judge an answer.

`evaluation` asks a model whether two values mean the same, if rules cannot decide, and corrects a judge from the
reference (grades of final answers are in `datasets/grading`); `simulation` plays tools; `grounding` says which name of
a schema a call meant; `customer` plays the user of a conversation (τ²-bench); `comparing` judges pairs of episodes. It
imports `episode`, `engines` and `core`, and of the planners only `planners/restoring`.
"""
