"""Whole studies with planted truths, which tests run few of and `-m slow` many."""
