"""Words: what every room shares and no room owns. Standard library only."""
