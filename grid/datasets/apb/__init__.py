"""Agent Planning Benchmark: the released JSON Lines as cases."""
