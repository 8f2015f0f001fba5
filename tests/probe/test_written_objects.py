"""Code that writes to annotations, and code that only looks as if it did."""

import ast
import random
from typing import Any

import pytest

from slurm_ext.probe.program.marked_names import MarkedNames
from slurm_ext.probe.program.marks import CONTAINER, WAY
from slurm_ext.probe.program.program_trees import Tree
from slurm_ext.probe.program.written_objects import WrittenObjects

AROUND = """
class Data:
    def __init__(self, notes):
        self.notes = notes

    def __getitem__(self, index):
        return self.notes[index]

    @property
    def first(self):
        return self.notes[0]

    def fresh(self, index):
        return {**self.notes[index], "seen": False}


def take(note, table=None):
    return note


def raise_weight(note, *rest):
    note["weight"] += 1


def each(table):
    for note in table:
        yield note


def step(data, k, other, model, batch):
"""

HARMLESS = [
    "other['weight'] = data.notes[k]['weight']",
    "note = dict(data.notes[k])\n    note['weight'] = 1",
    "note = data.notes[k].copy()\n    note.update(weight=1)",
    "note = {**data.notes[k]}\n    note['weight'] += 1",
    "weight = data.notes[k]['weight']\n    weight += 1",
    "some = [note for note in data.notes if note['weight']]\n    some.append(other)",
    "some = sorted(data.notes, key=len)\n    some.sort()",
    "some = data.notes[k:]\n    some[0] = other",
    "total = sum(len(note) for note in data.notes)\n    total += 1",
    "data.fresh(k)['seen'] = True",
    "for name, value in other.items():\n        other[name] = value * 2",
    "for number, note in enumerate(data.notes):\n        other[number] = note['weight']",
    "batch['x'].mul_(2)\n    model.weight[0] = 1",
    "model.count = len(data.notes)",
    "random.choice(data.notes)",
    "copy = random.sample(data.notes, 3)\n    copy.clear()",
    "raise_weight(other)",
    "raise_weight({'weight': data.notes[k]['weight']})",
    "del other[k]",
]

HARMFUL = [
    "data.notes[k]['weight'] = 1",
    "data.notes[k] = other",
    "data.notes.append(other)",
    "data.notes += [other]",
    "del data.notes[k]",
    "note = data.notes[k]\n    note['weight'] += 1",
    "note = dict(data.notes[k])\n    note['boxes']['x'] = 1",
    "note = data.fresh(k)\n    note['boxes'].append(1)",
    "data[k]['weight'] = 1",
    "for note in data:\n        note['weight'] = 1",
    "data.first['weight'] = 1",
    "for note in data.notes:\n        note.clear()",
    "for number, note in enumerate(data.notes):\n        note['weight'] = number",
    "for note, more in zip(data.notes, other):\n        note.update(more)",
    "for note in each(data.notes):\n        note['weight'] = 1",
    "some = [note for note in data.notes]\n    some[0]['weight'] = 1",
    "other.append(data.notes[k])\n    other[0]['weight'] = 1",
    "other['kept'] = data.notes[k]\n    other['kept']['weight'] = 1",
    "model.worst = data.notes[k]\n    model.worst['weight'] = 1",
    "raise_weight(data.notes[k])",
    "raise_weight(*data.notes[k:])",
    "take(data.notes[k])['weight'] = 1",
    "take(other, table=data.notes)\n    random.shuffle(data.notes)",
    "model.unknown(data.notes[k])",
    "random.choice(data.notes).mul_(2)",
    "random.sample(data.notes, 3)[0]['weight'] = 1",
    "max(data.notes, key=len)['weight'] = 1",
    "getattr(data, 'notes')[k]['weight'] = 1",
    "data.__dict__['notes'][k]['weight'] = 1",
    "vars(data)['notes'][k]['weight'] = 1",
    "setattr(data.notes[k], 'weight', 1)",
    "if (note := data.notes[k]):\n        note['weight'] = 1",
    "first, *rest = data.notes\n    rest[0]['weight'] = 1",
    "(data.notes or other)[k]['weight'] = 1",
    "again = Data(data.notes)\n    again.notes[k]['weight'] = 1",
    "fix = lambda: data.notes[k].update(weight=1)\n    fix()",
]


def writes(statements: str) -> bool:
    """The verdict on a function with these statements, in which all can run."""
    tree = Tree(f"{AROUND}    {statements}\n", "program.py", {"random": random})
    names = MarkedNames([tree], frozenset(["weight"]))
    names.mark(("Data", ".notes"), CONTAINER)
    (step,) = (scope for scope in tree.scopes if scope.name == "step")
    names.mark((step, "data"), WAY)
    makers = [scope for scope in tree.scopes if scope.name == "__init__"]

    def may_run(scope: Any, node: ast.AST) -> bool:
        return scope not in makers

    return WrittenObjects(names, strange=False).may_come(may_run)


@pytest.mark.parametrize("statements", HARMLESS)
def test_other_objects_may_be_written_to(statements: str) -> None:
    """New containers, numbers taken out, and objects that merely have such names."""
    assert not writes(statements)


@pytest.mark.parametrize("statements", HARMFUL)
def test_a_write_is_seen_by_whatever_name(statements: str) -> None:
    """Aliases, parts, results, parameters, attributes: all lead to the annotations."""
    assert writes(statements)
