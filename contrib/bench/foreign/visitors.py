"""Programs of kits and loops that nobody had tried, and data that the loop itself changes."""

from contrib.bench.foreign.program import Program

VISITORS_LIBRARIES = (
    "torchtnt",
    "setuptools<81",  # torchtnt asks it for versions
    "torchbearer",
    "pytorch-accelerated",
    "torchtuples",
    "deepxde",
    "pykeen",
    "optuna",
    "schedulefree",
    "kornia",
    "lion-pytorch",
    "diffusers",
    "torchio",
    "snntorch",
    "torchopt",
    "optree",
    "pytorch-forecasting",
    "gluonts",
)

_OF_TORCH = {
    "shared_state": (
        "difficulty_by_step labels_corrected mined_by_the_model sampled_by_loss"
        " transform_by_a_global scaled_by_the_loop"
    ),
    "schemes": (
        "truncated_backpropagation gradient_cache lookahead physics_informed neighbourhoods"
        " seeds_by_collate statistics_renewed profiled mixed_from_two evolved"
        " several_epochs_of_minibatches"
    ),
    "worlds": "averaged_by_hand",
}
_OF_TWO_RANKS = "local_sgd zero_redundancy pipelined tensor_parallel"
_ON_LIBRARIES = {
    "own_loops.schedule_free": "schedulefree",
    "own_loops.kornia": "kornia",
    "own_loops.diffusers": "diffusers",
    "own_loops.torchio_queue": "torchio",
    "own_loops.monai_smart_cache": "monai",
    "own_loops.snntorch": "snntorch",
    "own_loops.torchopt_functional": "torchopt",
    "own_loops.optree_by_hand": "optree",
    "fitted.torchtnt": "torchtnt",
    "fitted.torchbearer": "torchbearer",
    "fitted.pytorch_accelerated": "pytorch_accelerated",
    "fitted.torchtuples": "torchtuples",
    "fitted.deepxde": "deepxde",
    "fitted.pykeen": "pykeen",
    "fitted.optuna": "optuna",
    "of_lightning.data_module": "lightning",
    "of_lightning.fabric_spawned": "lightning",
    "of_lightning.temporal_fusion": "pytorch_forecasting",
    "of_lightning.gluonts": "gluonts",
}

VISITORS = (
    *(
        Program(f"visitors.{module}.{name}")
        for module, names in _OF_TORCH.items()
        for name in names.split()
    ),
    *(Program(f"visitors.worlds.{name}", ranks=2) for name in _OF_TWO_RANKS.split()),
    *(Program(f"visitors.{name}", library) for name, library in _ON_LIBRARIES.items()),
)
