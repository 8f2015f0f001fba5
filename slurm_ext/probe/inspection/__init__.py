"""Looks at what the user made: a loader's parts, its indices, its dataset, a fetch's draws."""
