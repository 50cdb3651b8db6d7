"""Cost against success: what each planner takes a case, what it solves, and who is on the frontier."""
