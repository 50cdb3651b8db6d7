"""Models behind the world, besides the planner's own: who answers as a user, simulates a tool, or judges an answer.

`evaluation` asks a model whether two values mean the same, where rules cannot tell, and corrects a judge from the
reference (grades of final answers are in `datasets/grading`); `simulation` plays tools; `grounding` says which name of
a schema a call meant; `customer` plays the user of a conversation (τ²-bench); `comparing` judges pairs of episodes. It
imports `episode`, `engines` and `core`, and of the planners only `planners/restoring`.
"""
