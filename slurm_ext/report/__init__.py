"""Queries and one jinja2 environment: what people read."""
