"""What a trajectory is worth."""
