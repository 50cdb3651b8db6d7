"""Why cells did not resolve their cases, told by rules from the tables alone."""
