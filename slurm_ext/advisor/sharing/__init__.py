"""Decide if a submission takes a part of a GPU instead of a whole one."""
