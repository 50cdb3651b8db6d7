"""A local web page over results folders: settings, cases by planners, episodes, search trees, prompts."""
