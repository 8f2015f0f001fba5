"""The table for people: written, and read again where rows are kept."""
