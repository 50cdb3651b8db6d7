"""The construction pipeline of egb_slate (§3, appendix D): a SLATE of one's own domain, written by a model."""
