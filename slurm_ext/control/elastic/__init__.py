"""The loop that resizes jobs whose owners allow it."""
