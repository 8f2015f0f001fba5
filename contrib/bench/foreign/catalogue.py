"""The list: each program's module and name, the library it needs, and how it ends."""

from dataclasses import dataclass

LIBRARIES = (
    "lightning",
    "transformers",
    "accelerate",
    "datasets",
    "fastai",
    "pytorch-ignite",
    "skorch",
    "peft",
    "trl",
    "sentence-transformers",
    "pyro-ppl",
    "gpytorch",
    "pytorch-metric-learning",
    "stable-baselines3",
    "ultralytics",
    "torchdata",
    "webdataset",
    "torch_geometric",
    "monai",
    "timm",
    "jax",
    "optax",
    "keras",
)
"""As pip takes them; torch itself is the one that the benchmark runs with."""


@dataclass(frozen=True, slots=True)
class Program:
    """One training program; `library` is the module that it imports, empty: torch alone."""

    name: str
    library: str = ""
    status: int = 0
    ranks: int = 1  # processes that torchrun starts
    races: bool = False  # two runs as written differ: they race, or nobody seeded their draws

    @property
    def argv(self) -> list[str]:
        """Arguments of the interpreter."""
        module, _, function = self.name.partition(".")
        target = ["-m", f"contrib.bench.foreign.programs.{module}", function]
        if self.ranks == 1:
            return target
        ranks = ["--nproc-per-node", str(self.ranks), "--standalone"]
        return ["-m", "torch.distributed.run", *ranks, *target]


PROGRAMS = (
    Program("plain.mnist"),
    Program("plain.quickstart"),
    Program("plain.imagenet"),
    Program("plain.augmented", races=True),
    Program("plain.gan"),
    Program("plain.accumulation"),
    Program("plain.mixed_precision"),
    Program("plain.compiled"),
    Program("plain.compiled_step"),
    Program("plain.mingpt"),
    Program("plain.closure"),
    Program("plain.reinforcement"),
    Program("feeding.batch_size_none"),
    Program("feeding.iterable_sharded"),
    Program("feeding.endless"),
    Program("feeding.side_by_side"),
    Program("feeding.several_trainings"),
    Program("feeding.tensors"),
    Program("feeding.own_collate"),
    Program("feeding.spawned_workers"),
    Program("feeding.multi_epochs"),
    Program("patterns.learning_rate_finder"),
    Program("patterns.limited_steps"),
    Program("patterns.generator_of_batches"),
    Program("patterns.evaluated_midway"),
    Program("patterns.averaged_weights"),
    Program("patterns.last_partial_accumulation"),
    Program("patterns.engine"),
    Program("patterns.in_an_event_loop"),
    Program("patterns.beside_a_pool"),
    Program("patterns.spawn_by_default"),
    Program("patterns.seeded_workers"),
    Program("patterns.subsets_by_fold"),
    Program("patterns.multi_epoch_dropout"),
    Program("batches.token_budget"),
    Program("batches.packed"),
    Program("batches.nested"),
    Program("batches.uneven_shards"),
    Program("batches.shuffle_buffer"),
    Program("batches.unput_together"),
    Program("mixtures.alternating_tasks"),
    Program("mixtures.cycled"),
    Program("mixtures.growing_batches"),
    Program("mixtures.federated"),
    Program("mixtures.read_by_a_thread"),
    Program("mixtures.read_ahead_by_one"),
    Program("mixtures.two_threads"),
    Program("mixtures.meta_learning"),
    Program("mixtures.stepped_in_backward"),
    Program("methods.self_distillation"),
    Program("methods.translation"),
    Program("methods.replayed"),
    Program("methods.external_source"),
    Program("methods.accelerate_accumulated", "accelerate"),
    Program("methods.streamed_datasets", "datasets"),
    Program("ends.os_exit", status=7),
    Program("ends.exception", status=1),
    Program("ranks.torchrun", ranks=2),
    Program("ranks.sharded", ranks=2),
    Program("ranks.accumulated", ranks=2),
    Program("ranks.uneven", ranks=2),
    Program("ranks.spawned"),
    Program("ranks.hogwild", races=True),
    Program("language.word_language_model"),
    Program("language.nanogpt"),
    Program("trainers.lightning", "lightning"),
    Program("trainers.lightning_seeded", "lightning"),
    Program("trainers.transformers_trainer", "transformers"),
    Program("trainers.accelerate", "accelerate"),
    Program("trainers.fastai", "fastai"),
    Program("trainers.ignite", "ignite"),
    Program("trainers.skorch", "skorch"),
    Program("trainers.ultralytics", "ultralytics"),
    Program("fine_tuning.peft_lora", "peft"),
    Program("fine_tuning.trl_sft", "trl"),
    Program("fine_tuning.trl_dpo", "trl"),
    Program("fine_tuning.sentence_transformers", "sentence_transformers"),
    Program("research.pyro", "pyro"),
    Program("research.gpytorch", "gpytorch"),
    Program("research.metric_learning", "pytorch_metric_learning"),
    Program("research.stable_baselines", "stable_baselines3"),
    Program("loaders.stateful", "torchdata"),
    Program("loaders.nodes", "torchdata"),
    Program("loaders.webdataset", "webdataset"),
    Program("loaders.geometric", "torch_geometric"),
    Program("loaders.monai_threads", "monai"),
    Program("loaders.monai_cache", "monai"),
    Program("loaders.timm", "timm"),
    Program("without_torch.jax_optax", "jax"),
    Program("without_torch.jax_marked", "jax"),
    Program("without_torch.keras_jax", "keras"),
    Program("without_torch.keras_torch", "keras"),
    Program("without_torch.keras_torch_loader", "keras"),
)
