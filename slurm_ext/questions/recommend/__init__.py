"""Documents of `recommend`: ranks of a GPU, and node types, from what runs measured."""
