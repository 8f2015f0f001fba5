"""Lists on the command line: the shapes that `predict --what-if` compares."""

import argparse

MOST = 65536  # CPUs, workers or GPUs of one job: beyond any cluster


def counts(least: int, text: str) -> tuple[int, ...]:
    """`1,2,4`: counts of an axis."""
    words = text.split(",")
    fine = all(word.isascii() and word.isdecimal() and len(word) < 9 for word in words)
    if not fine or not all(least <= int(word) <= MOST for word in words):
        said = f"{text!r}: expected counts from {least} to {MOST} such as 1,2,4"
        raise argparse.ArgumentTypeError(said)
    return tuple(dict.fromkeys(map(int, words)))


def names(text: str) -> tuple[str, ...]:
    """`a100,h100`: GPU types."""
    words = tuple(word.strip() for word in text.split(","))
    if not all(word and word.isprintable() and ":" not in word for word in words):
        said = f"{text!r}: expected names such as a100,h100"
        raise argparse.ArgumentTypeError(said)
    return tuple(dict.fromkeys(words))
