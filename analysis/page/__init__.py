"""Tables and figures, and how they are written: for a terminal, a file, a page.

Read it in this order. `table`: columns, each with its format and its sentence in the caption; also how numbers,
intervals and p values are formatted. `render` makes terminal text, Markdown, CSV and LaTeX from a table. `drawing`: an
SVG with its caption and query, panels, colours, a legend. `html`: one page of tables and figures, which loads nothing.

It knows nothing about results folders, and imports nothing from the other rooms.
"""
