"""Programs on libraries that nobody had tried before: `python -m ...arrivals.FILE NAME`."""
