"""Trace-driven, event-based replay of the policies that decide live."""
