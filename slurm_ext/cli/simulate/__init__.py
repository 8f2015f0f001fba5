"""`dlqueue simulate`: replays a trace under policies."""
