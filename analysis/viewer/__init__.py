"""A local web page over results folders: settings, cases against planners, episodes, search trees and prompts.

`reading` runs DuckDB over a folder's files, `index` has the part of a folder that is kept in memory, and `runs` has the
folders that are shown. `matrix` reads the data for the page of cases against planners (which cases, in which order),
and `episodes` reads the data for an episode's page. `addresses` has the targets of links. `pages` fills the templates
(`templates/episode.html` is an episode's page). `app` serves the pages, `exporting` writes them as files, and
`inspect_logs` writes the episodes for other viewers.

This package imports `load`, and `tables` for the classes of failed cells.
"""
