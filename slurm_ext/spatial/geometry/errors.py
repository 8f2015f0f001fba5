"""The error of this room."""


class SpatialError(ValueError):
    """A model, a size or a mesh that cannot be divided exactly.

    Every rank of a mesh raises it with the same message, before anything is sent: no rank is left
    waiting for another.
    """
