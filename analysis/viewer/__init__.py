"""A local web page over results folders: settings, cases by planners, episodes, search trees, prompts.

`reading` is DuckDB over a folder's files, `index` what is held of one in memory, `runs` the folders that are looked at.
`matrix` reads the page of cases by planners (which cases, in which order), `episodes` the page of one case's episodes,
`addresses` says where its links lead, `pages` fills the templates (`templates/episode.html` is an episode's page).
`app` serves them, `exporting` writes them as files, `inspect_logs` the episodes for others' viewers.

It imports `load`, and `tables` for the classes of failed cells.
"""
