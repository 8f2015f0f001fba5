"""The house as a table: its rooms, floor by floor, and each room's sub-rooms, lowest first.

CONTRIBUTING.md shows this table; tests/test_floors.py checks it against every import.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "slurm_ext"
BENCH = PACKAGE.parent / "contrib" / "bench"

# room: the rooms whose files it may import
MAY_IMPORT: dict[str, set[str]] = {
    "core": set(),
    "node": set(),
    "probe": set(),
    "ranks": set(),
    "spatial": {"ranks"},
    "slurm": {"core"},
    "history": {"core", "node"},
    "model": {"core"},
    "policy": {"core", "model"},
    "training": {"core", "history", "model"},
    "advisor": {"core", "history", "model", "policy", "slurm"},
    "control": {"core", "node", "history", "model", "policy", "slurm"},
    "simulate": {"core", "model", "policy", "slurm"},
    "report": {"core", "history", "model"},
    "questions": {"core", "node", "slurm", "history", "model", "policy"}
    | {"training", "advisor", "control", "report"},
    "sandbox": {"core", "node", "slurm"},
    "install": {"core"},
}
MAY_IMPORT["cli"] = set(MAY_IMPORT)

# room: its sub-rooms, each of which may import those named before it; "" is the room's own files
SUB_ROOMS: dict[str, tuple[str, ...]] = {
    "core": ("findings", "commands", "", "settings", "stalls", "advice"),
    "node": (
        "common",
        "kernel",
        "counters.gpu",
        "counters.perf",
        "counters",
        "mps",
        "record",
        "sampling",
        "transport",
        "hooks",
        "",
    ),
    "probe": (
        "program",
        "inspection",
        "lending",
        "buckets",
        "stalls",
        "counters",
        "workers",
        "passes",
        "streams",
        "tuner",
        "",
        "windows",
        "site",
    ),
    "spatial": ("geometry", "planning", "calls", "layers", "measuring", ""),
    "history": ("", "store", "ingest", "imports", "views"),
    "model": (
        "",
        "throughput.curve",
        "throughput",
        "scaling",
        "duration",
        "demand",
        "slowdown",
        "node_speed",
        "communication",
    ),
    "policy": ("", "allocator", "colocation", "elastic", "queue", "ranks"),
    "training": ("", "throughput", "duration", "demand", "scaling", "slowdown"),
    "advisor": (
        "",
        "limits",
        "evidence",
        "sharing",
        "buckets",
        "pipeline",
        "own_runs",
        "what_if",
        "history_writer",
        "service",
    ),
    "control": (
        "",
        "loops",
        "allocator.cgroup",
        "allocator",
        "lending",
        "coscheduling",
        "queue",
        "elastic",
        "energy",
    ),
    "report": ("", "sections"),
    "simulate": ("", "trace", "planning", "limits", "outages", "queue", "elastic", "energy"),
    "questions": ("waiting", "explain", "recommend", ""),
    "cli": (
        "common",
        "",
        "predict",
        "recommend",
        "explain",
        "run",
        "profile",
        "control",
        "doctor",
        "sandbox",
        "demo",
        "history",
        "jobs",
        "report",
        "install",
        "simulate",
    ),
}
MOST_FILES, MOST_BENCH_FILES = 20, 17


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name, without `slurm_ext.`; packages too."""
    return {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
        if path != PACKAGE / "__init__.py"
    }


@cache
def imports(module: str) -> frozenset[str]:
    """The package's modules that `module` imports, at its top or inside a function."""
    tree = ast.parse(modules()[module].read_bytes())
    named = {name for node in ast.walk(tree) for name in _named(module, node)}
    return frozenset(found for name in named if (found := _nearest(name)) and found != module)


def _named(module: str, node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name.removeprefix("slurm_ext.") for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = (node.module or "").removeprefix("slurm_ext").lstrip(".")
        if node.level:
            base = ".".join([*module.split(".")[: -node.level], *filter(None, [node.module])])
        elif not (node.module or "").startswith("slurm_ext"):
            return
        yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)


def _nearest(name: str) -> str | None:
    """The module itself, or the one that holds the name."""
    if name in modules():
        return name
    holder = name.rpartition(".")[0]
    return holder if holder in modules() else None


def place_of(module: str) -> tuple[str, str]:
    """The room and the sub-room that a module stands in."""
    room, _, rest = module.partition(".")
    folder = rest if modules()[module].name == "__init__.py" else rest.rpartition(".")[0]
    return room, folder


def circles(graph: dict[str, frozenset[str]]) -> list[list[str]]:
    """Groups of modules that import each other, by networkx."""
    import networkx as nx

    whole = nx.DiGraph(graph)
    return [sorted(found) for found in nx.strongly_connected_components(whole) if len(found) > 1]


def table() -> str:
    """The table as CONTRIBUTING.md shows it: a row a room, lowest first."""
    rows = [
        "| room | its sub-rooms, lowest first (`.`: its own files) | may import |",
        "|---|---|---|",
    ]
    for room, others in MAY_IMPORT.items():
        subs = ", ".join(name.replace(".", "/") or "." for name in SUB_ROOMS.get(room, ("",)))
        below = "every room" if room == "cli" else ", ".join(sorted(others)) or "\u2013"
        rows.append(f"| `{room}` | {subs} | {below} |")
    return "\n".join(rows)
