"""Checks of `doctor`: gres.conf where jobs are to share GPUs; none where sharing.mode is off.

Of `mps` Slurm lets only one GPU of a node be shared at a time, unless its line says all_sharing; of
`shard` all, unless one_sharing. The flag of one line holds for the whole cluster (gres.conf(5)).
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from slurm_ext.cli.doctor.finding import FAIL, OK, WARN, Finding, judged
from slurm_ext.core.settings.document import Settings

ALL, ONE = "all_sharing", "one_sharing"


def sharing(settings: Settings, config: Mapping[str, str]) -> Iterator[Finding]:
    """Check that parts of GPUs exist as sharing.gres wants; `config`: scontrol show config."""
    if settings["sharing.mode"] == "off":
        return
    kind = settings["sharing.gres"]
    types = config.get("GresTypes", "(null)")
    advice = f"add {kind} to GresTypes, or set sharing.gres to what is there (INSTALL.md)"
    yield judged("sharing.gres", kind in types.split(","), f"{kind}; GresTypes={types}", advice)
    path = Path(config.get("SLURM_CONF", "/etc/slurm/slurm.conf")).with_name("gres.conf")
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        yield Finding("gres.conf", WARN, f"{path}: {error.strerror}", "its flags are not known")
        return
    yield judge_gres(text, kind)


def judge_gres(text: str, kind: str) -> Finding:
    """Judge the lines of a gres.conf for `kind` (mps or shard). Pure."""
    lines = [line for line in map(_options, text.splitlines()) if kind in line.get("name", ())]
    if not lines:
        return Finding(
            "gres.conf", FAIL, f"no Name={kind}", f"add Name={kind} Count=N (INSTALL.md)"
        )
    flags = {flag for line in lines for flag in line.get("flags", ())}
    state = f"Name={kind} Flags={','.join(sorted(flags)) or '(none)'}"
    if ONE in flags and ALL in flags:
        advice = f"a flag holds for the whole cluster: write {ALL} on every line of {kind}"
        return Finding("gres.conf", WARN, state, advice)
    shares_all = ALL in flags or (kind == "shard" and ONE not in flags)
    advice = f"only one GPU of a node serves {kind} at a time: add Flags={ALL}"
    return (
        Finding("gres.conf", OK, state) if shares_all else Finding("gres.conf", WARN, state, advice)
    )


def _options(line: str) -> dict[str, list[str]]:
    """`Name=mps Flags=a,b` by lower-case key, without its comment; values as lower-case lists."""
    words = (word.partition("=") for word in line.partition("#")[0].split())
    return {key.lower(): value.strip('"').lower().split(",") for key, _, value in words}
