"""Tables and figures, and how they are written to a terminal, a file or a page.

Read this package in this order. `table`: columns, each with its format and its clause of the caption; also the formats
of numbers, intervals and p values. `render` makes terminal text, Markdown, CSV and LaTeX from a table. `drawing`: an
SVG with its caption and query, panels, colours, a legend. `html`: one page of tables and figures, which loads nothing.

This package knows nothing about results folders, and imports nothing from the other rooms.
"""
