"""Programs written at once, by their documentations, and run before anything was mended."""
