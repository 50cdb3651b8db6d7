"""The documentation: pages in Markdown, and what they take from the code (`facts`)."""
