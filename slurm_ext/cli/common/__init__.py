"""Shared by commands: argument types, output, streams, parsers. No command."""
