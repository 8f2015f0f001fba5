"""The decision on one submission (parse, predict, decide, edit), and the advisor service."""
