"""Number that stands for the data of a training: runs over other data teach another one."""

from functools import lru_cache
from hashlib import blake2b


@lru_cache(maxsize=1024, typed=True)  # most runs are over few sets of data
def data_key(
    dataset: str | None, length: float | None = None, batch_size: float | None = None
) -> int | None:
    """24 bits, which a float32 holds, for a loader's dataset class, length and batch size.

    None where its class is not known. Never 0.
    """
    if not dataset:
        return None
    text = repr((dataset, length, batch_size))
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=3).digest()
    return int.from_bytes(digest, "big") or 1
