"""What branching corrects of what a first pass failed, and by which mechanism (egb_slate B.2)."""
