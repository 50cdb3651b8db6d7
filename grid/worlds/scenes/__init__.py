"""Fourteen tools that work on images, with the same signatures as in GTA. Each image is described by facts."""
