"""The kernel that search planners share: the tree, proposing, executing with a cache, judging, what is best so far.

Each planner is a file of its own beside this folder.
"""
