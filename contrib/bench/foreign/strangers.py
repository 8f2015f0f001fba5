"""Programs and libraries that were added once the probe had been built by the others."""

from contrib.bench.foreign.program import Program

THEIR_LIBRARIES = ("tensorflow-cpu",)

STRANGERS = (
    Program("strangers.recipes.torchtune_single_device"),
    Program("strangers.recipes.fairseq_updates"),
    Program("strangers.recipes.fairseq_buffered"),
    Program("strangers.recipes.detectron_grouped"),
    Program("strangers.recipes.detectron_listed"),
    Program("strangers.recipes.espnet_factories"),
    Program("strangers.recipes.nnunet_epochs"),
    Program("strangers.loops.speedrun"),
    Program("strangers.loops.sharpness_aware"),
    Program("strangers.loops.by_hand"),
    Program("strangers.loops.functional"),
    Program("strangers.loops.cleanrl_ppo"),
    Program("strangers.recipes.ray_like"),
    Program("strangers.loops.resumed"),
    Program("strangers.loops.scheduled_diffusion"),
    Program("strangers.streams.dali_like"),
    Program("strangers.streams.webdataset_resampled", "webdataset"),
    Program("strangers.streams.webdataset_rebatched", "webdataset"),
    Program("strangers.streams.datasets_from_files", "datasets"),
    Program("kits.huggingface.on_a_stream", "transformers"),
    Program("methods.cached_features"),
    Program("kits.lightning.combined", "lightning"),
    Program("strangers.fields.stable_baselines_dqn", "stable_baselines3"),
    Program("strangers.fields.geometric_clusters", "torch_geometric"),
    Program("strangers.fields.tensorflow_tape", "tensorflow"),
    Program("strangers.fields.tensorflow_fit", "tensorflow"),
)
