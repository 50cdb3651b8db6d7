"""What a table and a figure are, and how they are written: for a terminal, a file, a page.

Read it in this order. `table`: columns that know how a row is written and what the caption says of it, and how numbers,
intervals and p values are written. `render` makes terminal text, Markdown, CSV and LaTeX of it. `drawing`: an SVG with
its caption and query, panels, colours, a legend. `html`: one page of tables and figures, which loads nothing.

It knows of no results folder, and imports nothing of the other rooms.
"""
