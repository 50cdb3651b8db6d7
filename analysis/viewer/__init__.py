"""A local web page over results folders: settings, cases by planners, episodes, search trees, prompts.

`reading` is DuckDB over a folder's files, `index` the part of a folder that is held in memory, `runs` the folders that
are shown. `matrix` reads the page of cases by planners (which cases, in which order), `episodes` the page of one case's
episodes, `addresses` has the targets of its links, `pages` fills the templates (`templates/episode.html` is an
episode's page). `app` serves them, `exporting` writes them as files, `inspect_logs` writes the episodes for other
viewers.

It imports `load`, and `tables` for the classes of failed cells.
"""
