"""Fourteen tools that work on images, with GTA's signatures. The images are described by facts."""
