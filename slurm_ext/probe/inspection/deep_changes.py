"""Long lists of things that a loop could write to, one of them at a time, without being seen.

A look before each batch sees the first items of a container. Where a dataset keeps more than those,
the program's own code tells: some of it that can still run in this pass writes to one of them, or
none does.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

from ..program import careful
from ..program.holders import Holders
from ..program.lines_ahead import lines_ahead, program_frames
from ..program.marked_names import MarkedNames
from ..program.marks import AN_ITEM, CONTAINER, CONTAINER_OF_PLAIN, GROUP, WAY
from ..program.program_files import all_trees, has_any, read_all, tree_of
from ..program.program_trees import Scope
from ..program.reach import Reach
from ..program.written_objects import WrittenObjects
from .hidden_items import HiddenItems
from .looks import MOST_ITEMS
from .samplers import set_of

_verdicts: dict[Any, tuple[Any, bool]] = {}


def may_come(iterator: Any) -> bool:
    """True if the program's code may write where a dataset has items out of a look's reach.

    So it is with long lists of a sampler. The answer is kept for the place of the program.
    """
    dataset, frames = iterator._dataset, list(program_frames())
    places = tuple((frame.f_code, frame.f_lineno) for frame, here in frames if here)
    reference, verdict = _verdicts.get(places, (None, False))
    if reference is None or reference() is not dataset:
        lists = [one for one in set_of(iterator._index_sampler) if type(one) is list]
        hidden = HiddenItems(dataset, [one for one in lists if len(one) > MOST_ITEMS])
        verdict = hidden.some and _writes(hidden, frames, iterator)
        if type(dataset).__weakrefoffset__:
            _verdicts[places] = weakref.ref(dataset), verdict
    return verdict


def may_come_to_list(sampled: list[Any], iterator: Any) -> bool:
    """True if the program's code may write to a list from which a loader takes its indices."""
    return _writes(HiddenItems(None, [sampled]), list(program_frames()), iterator)


def _writes(hidden: HiddenItems, frames: list[Any], iterator: Any) -> bool:
    marked = [
        (Holders(hidden.containers), CONTAINER),
        (Holders(hidden.long), CONTAINER_OF_PLAIN),
        (Holders(hidden.shared, besides=hidden.containers), AN_ITEM | GROUP),
        (Holders(hidden.ways), WAY),
    ]
    hides = gc.get_freeze_count() > 0  # holders from the collector, and so from us
    if hides or any(holders.unknown for holders, _ in marked[:-1]):
        return True
    wanted = {name for holders, _ in marked[:-1] for name in holders.names()}
    live = {}
    for frame, _ in frames:
        tree = tree_of(frame.f_code.co_filename, frame.f_globals)
        live[frame] = tree.scope_of(frame.f_code) if tree is not None else None
    if None in live.values():
        return careful.may_write(live, wanted)
    if any(has_any(path, wanted) for path in read_all()):
        return True
    names = MarkedNames(all_trees(), hidden.plain)
    for holders, marks in marked:
        _mark(names, holders, marks)
    reach = Reach(names.scopes, _lines(frames, live, _is_kept(iterator)))
    return WrittenObjects(names, hidden.strange).may_come(reach.may_run)


def _is_kept(iterator: Any) -> bool:
    """True if more than frames have the iterator: the pass does not end with its loop."""
    holders = Holders([iterator])
    return bool(holders.attributes or holders.of_modules or holders.unknown)


def _lines(
    frames: list[Any], scopes: dict[Any, Any], kept: bool
) -> dict[Scope, list[tuple[int, int]]]:
    """Lines ahead of all frames, up to the one with which the pass ends."""
    lines: dict[Scope, list[tuple[int, int]]] = {}
    ended = False
    for frame, here in frames:
        if not (here and ended):
            found, ends = lines_ahead(frame, scopes[frame], kept)
            lines.setdefault(scopes[frame], []).extend(found)
            ended = ended or (here and ends)
    return lines


def _mark(names: MarkedNames, holders: Holders, marks: int) -> None:
    for name, kinds in holders.attributes.items():
        for kind in kinds:
            names.mark((kind.__name__, "." + name), marks)
    for name in holders.of_modules:
        names.mark((None, name), marks)
    for code, name in holders.of_functions:
        trees = [tree for tree in all_trees() if tree.path == code.co_filename]
        scope = trees[0].scope_of(code) if trees else None
        names.mark((scope.home(name) if scope is not None else None, name), marks)
