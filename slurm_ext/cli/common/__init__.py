"""What commands share: argument types, output, streams, parsers."""
