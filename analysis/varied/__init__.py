"""One planner with two of its numbers varied: success over both (egb_slate, figure 6)."""
