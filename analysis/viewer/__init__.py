"""A local web page over results folders: settings, cases by planners, episodes, search trees, prompts.

`reading` is DuckDB over a folder's files, `index` the part of a folder that is kept in memory, `runs` the folders that
are shown. `matrix` reads the data of the page of cases by planners (which cases, in which order), and `episodes` those
of an episode's page. `addresses` has the targets of links. `pages` fills the templates (`templates/episode.html` is an
episode's page). `app` serves the pages, `exporting` writes them as files, and `inspect_logs` writes the episodes for
other viewers.

It imports `load`, and `tables` for the classes of failed cells.
"""
