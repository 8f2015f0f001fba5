"""The table for people, as Markdown: a row for each file of tests, a column for each release."""

import os
import platform
from collections import Counter
from collections.abc import Iterator, Sequence

from contrib.bench.matrix.reports import FAILED, OUTCOMES, SKIPPED, Release


def page(releases: Sequence[Release]) -> str:
    """The page: how it was measured, the table, what failed, and why others were left out."""
    files = sorted({case.file for release in releases for case in release.cases})
    lines = [
        "# Every Slurm",
        "",
        "Written by `python -m contrib.bench.matrix`; do not edit. Tests that start a real Slurm,",
        "under each release, from Debian's own packages in private roots (CI runs a part of them).",
        f"Written on {os.cpu_count()} cores, {platform.machine()}.",
        "",
        *_row("tests", *(f"Slurm {release.version}" for release in releases)),
        f"|{'---|' * (1 + len(releases))}",
    ]
    for file in files:
        lines += _row(file, *(_cell(release.counts(file)) for release in releases))
    lines += _row("**all**", *(_cell(release.counts()) for release in releases))
    lines += _row("minutes", *(f"{release.seconds / 60:.0f}" for release in releases))
    lines += _row("commit", *(release.commit for release in releases))
    return "\n".join([*lines, *_failed(releases), *_skipped(releases), ""])


def _row(*cells: str) -> list[str]:
    return [f"| {' | '.join(cells)} |"]


def _cell(counts: Counter[str]) -> str:
    words = (f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
    return ", ".join(f"**{one}**" if one.endswith(FAILED) else one for one in words) or "none"


def _failed(releases: Sequence[Release]) -> Iterator[str]:
    failed = [(release, case) for release in releases for case in release.of(FAILED)]
    if failed:
        yield from ("", "## Failed", "")
    for release, case in failed:
        yield f"- {release.version}: `{case.file}::{case.name}`: {case.why}"


def _skipped(releases: Sequence[Release]) -> Iterator[str]:
    """Each reason once for each release, with how many tests it kept."""
    if any(release.of(SKIPPED) for release in releases):
        yield from ("", "## Skipped", "")
    for release in releases:
        for why, count in sorted(Counter(case.why for case in release.of(SKIPPED)).items()):
            yield f"- {release.version}: {count} with: {why}"
