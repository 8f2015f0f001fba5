"""One submission's journey: parse, predict, decide, edits; and the advisor service."""
