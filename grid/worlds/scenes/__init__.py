"""Fourteen tools on images that are described by facts, with GTA's signatures."""
