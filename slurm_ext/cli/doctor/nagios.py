"""`dlqueue doctor --nagios`: one line that says all, and the exit status of a Nagios plugin.

0 ok, 1 warning, 2 critical, 3 unknown (Monitoring Plugins Development Guidelines).
"""

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

from slurm_ext.cli.doctor.finding import FAIL, OK, WARN, Finding

WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
UNKNOWN = 3
_STATES = {OK: 0, WARN: 1, FAIL: 2}
_MOST_NAMED = 5


def run(args: argparse.Namespace, look: Callable[[argparse.Namespace], list[Finding]]) -> int:
    """Print what `look` finds; an error is "unknown", in one line."""
    try:
        findings = look(args)
    except Exception as error:  # a plugin that ends by a traceback tells nothing
        why = _plain(str(error) or type(error).__name__)
        document = {"state": WORDS[UNKNOWN].lower(), "error": why, "findings": []}
        print(json.dumps(document) if args.json else f"DLQUEUE UNKNOWN - {why}")
        return UNKNOWN
    state = state_of(findings)
    if args.json:
        documents = [asdict(finding) for finding in findings]
        print(json.dumps({"state": WORDS[state].lower(), "findings": documents}))
        return state
    print(summary(findings))
    for worst_first in sorted(findings, key=lambda finding: -_STATES[finding.status]):
        if worst_first.status != OK:
            word = WORDS[_STATES[worst_first.status]]
            print(_plain(f"{word}: {worst_first.name}: {worst_first.seen}; {worst_first.advice}"))
    return state


def state_of(findings: Sequence[Finding]) -> int:
    """The worst of them."""
    return max((_STATES[finding.status] for finding in findings), default=UNKNOWN)


def summary(findings: Sequence[Finding]) -> str:
    """Status, the worst by name, and counts as performance data."""
    state = state_of(findings)
    worst = [finding.name for finding in findings if state and _STATES[finding.status] == state]
    named = ", ".join(worst[:_MOST_NAMED]) + (", ..." if len(worst) > _MOST_NAMED else "")
    counts = {
        word: sum(finding.status == status for finding in findings)
        for word, status in (("ok", OK), ("warning", WARN), ("critical", FAIL))
    }
    data = " ".join(f"{word}={count}" for word, count in counts.items())
    text = named or f"{counts['ok']} checks"
    return f"DLQUEUE {WORDS[state]} - {_plain(text)} | {data}"


def _plain(text: str) -> str:
    """One line without the bar, behind which Nagios expects figures."""
    return " ".join(text.replace("|", "/").split())
