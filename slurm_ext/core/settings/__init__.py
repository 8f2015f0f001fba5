"""dlqueue.toml: the table of settings, the parser, and the files rendered from it."""
