"""A generated closed set over the signatures of GTA's tools."""
