"""Commands of a batch script as one line of text: its words, its programs, its numbers. Pure."""
