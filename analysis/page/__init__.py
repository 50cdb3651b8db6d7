"""Tables and figures, and the code that writes them to a terminal, a file or a page.

Read the modules of this package in this order. `table`: columns, each with its format and its clause of the caption;
also the formats of numbers, intervals and p values. `render` makes terminal text, Markdown, CSV and LaTeX from a table.
`drawing`: an SVG with its caption and query, and its panels, colours and legend. `html`: one page of tables and
figures, which loads no other files.

This package knows nothing about results folders, and imports nothing from other packages of the analysis.
"""
