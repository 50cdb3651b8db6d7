"""Models behind the world, besides the planner's own: who answers as a user, simulates a tool, or judges an answer.

`asked_once` keeps what one of them said; `evaluation` judges answers, `simulation` and `grounding` are tools that a
model plays, `customer` is the user of a conversation, `audit` sets a judge right from the reference, `comparing`
judges pairs of episodes. It imports `episode`, `engines` and `core`, and no planner but for what restores a judge's
decisions.
"""
