"""How far scorers of plans agree: judges, what is computed, and people (agent_planning_benchmark §D)."""
