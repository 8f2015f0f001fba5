"""Programs on libraries that came last: tables, series, recommendation, simulation, play."""

from contrib.bench.foreign.program import Program

ARRIVALS_LIBRARIES = (
    "sbi",
    "neuraloperator",
    "pytorch_tabular",
    "darts",
    "setfit",
    "spacy",
    "botorch",
    "d3rlpy",
    "tianshou",
    "torchrl",
)

_FITTED = {
    "recbole": "recbole",
    "sbi": "sbi",
    "neural_operator": "neuralop",
    "pytorch_tabular": "pytorch_tabular",
    "darts": "darts",
    "setfit": "setfit",
    "spacy": "spacy",
    "neural_search": "botorch",
    "flair": "flair",
}
_PLAYED = ("d3rlpy", "tianshou", "torchrl")

ARRIVALS = (
    *(Program(f"arrivals.fitted.{name}", library) for name, library in _FITTED.items()),
    *(Program(f"arrivals.played.{library}", library) for library in _PLAYED),
)
