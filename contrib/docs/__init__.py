"""The documentation site: reference pages, links, pictures, and the program that builds it.

`make docs` writes it to build/docs, without network. Pages are in docs/; README.md is its first.
Nothing of the product imports this.
"""
