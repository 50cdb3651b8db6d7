"""Two runs side by side: settings and cases matched, what changed, and what was different about the runs."""
