"""The curve itself: its costs, its formulas, and one point of it."""
