"""Models behind the world, besides the planner's own: who answers as a user, simulates a tool, or judges an answer.

`evaluation` asks a model whether two values mean the same, and sets a judge right from the reference (grades of final
answers are in `datasets/grading`); `simulation` and `grounding` are tools that a model plays, `customer` is the user
of a conversation (τ²-bench), `comparing` judges pairs of episodes. It imports `episode`, `engines` and `core`, and no
planner but for what restores a judge's decisions.
"""
