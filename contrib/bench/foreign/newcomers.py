"""Programs that were written before anything was mended for them, and their libraries."""

from contrib.bench.foreign.program import Program

LATEST_LIBRARIES = (
    "flax",
    "equinox",
    "opacus",
    "h5py",
    "lmdb",
    "zarr",
    "poutyne",
    "mmengine",
    "pytorch-tabnet",
    "litdata",
)

_OF_TORCH = {
    "examples": (
        "vae siamese neural_style time_sequence regression actor_critic graph_convolution"
        " forward_forward"
    ),
    "passes": (
        "training_accuracy statistics_first skipped_by_continue kept_batches cycled_for_ever"
        " evaluated_in_memory full_batch folds_until_worse grid batch_size_found weighted"
        " interleaved_tasks"
    ),
    "pretraining": (
        "llama2c litgpt_cycle loader_x mmengine_iterations wgan_gp detr checkpointed compiled_fused"
    ),
    "processes": "folds_in_a_pool trial_in_a_process impala",
    "files": "memmap_rows tar_of_files",
}
_ON_LIBRARIES = {
    "kits.prepared.fabric": "lightning",
    "kits.lightning.forecasting": "lightning",
    "kits.huggingface.with_its_own_loss": "transformers",
    "kits.prepared.accelerate_dispatched": "accelerate",
    "kits.ignite.events": "ignite",
    "kits.fastai.one_cycle": "fastai",
    "kits.ignite.monai": "monai",
    "kits.prepared.opacus": "opacus",
    "kits.fitting.poutyne": "poutyne",
    "kits.openmmlab.runner": "mmengine",
    "kits.fitting.tabnet": "pytorch_tabnet",
    "newcomers.files.h5py_rows": "h5py",
    "newcomers.files.lmdb_rows": "lmdb",
    "newcomers.files.zarr_rows": "zarr",
    "newcomers.files.formatted_datasets": "datasets",
    "newcomers.files.mosaic_streaming": "streaming",
    "newcomers.files.lightning_data": "litdata",
    "newcomers.functional.keras_train_step": "keras",
    "newcomers.functional.keras_by_hand": "keras",
    "newcomers.functional.flax_nnx": "flax",
    "newcomers.functional.flax_train_state": "flax",
    "newcomers.functional.equinox": "equinox",
}

NEWCOMERS = (
    *(
        Program(f"newcomers.{module}.{name}")
        for module, names in _OF_TORCH.items()
        for name in names.split()
    ),
    *(Program(name, library) for name, library in _ON_LIBRARIES.items()),
)

_LATER = (
    "greedy_layers replay_buffer diffusion_averaged loss_scaled early_stopped_stream"
    " by_vmapped_gradients curriculum several_accumulated spawned_training"
)

LATECOMERS = (
    *(Program(f"newcomers.latecomers.{name}") for name in _LATER.split()),
    Program("newcomers.latecomers.hand_moved_threads", races=True),
)
