"""Planes of slabs: what each part has, needs and can do alone. Pure."""
