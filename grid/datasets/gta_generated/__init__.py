"""A closed-set benchmark generated from the signatures of GTA's tools."""
