"""Benchmarks: each folder answers one question; `python -m contrib.bench.NAME [--quick] [--json]`.

README.md beside this file maps each claim of the project to its benchmark. Nothing of the product
imports this package.
"""
