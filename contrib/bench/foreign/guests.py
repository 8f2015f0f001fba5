"""Programs whose data remembers, is written to by the loop, or belongs to one process."""

from contrib.bench.foreign.program import Program

_OF_TORCH = {
    "written": (
        "soft_labels_in_an_array tensor_written_by_its_array memory_map_written"
        " annotations_changed replay_buffer environment sampler_of_a_subset"
        " batch_size_of_the_sampler sampler_sorted_by_losses items_written_by_the_loop"
        " blocks_normalised_in_place level_in_shared_memory"
    ),
    "remembering": (
        "hits_after_the_epoch times_in_an_array annealed_by_its_counter generator_of_the_module"
        " generators_of_its_own drawing_in_one_worker drawing_in_a_kept_worker epoch_and_index"
        " reseeded_by_index cached_on_first_access log_in_the_module mixed_with_the_former"
        " weak_cache asks_for_its_worker checkpointed"
    ),
    "of_the_process": (
        "file_descriptor database archive_of_the_class threads_and_a_lock lock_held_by_the_loop"
        " signals_to_every_process errors_that_the_loop_catches batches_of_a_class"
        " workers_seeded_by_number spawned_and_kept stream_left_early one_batch_each"
        " zipped_with_itself alarm manager_of_values child_watched"
    ),
}

GUESTS = tuple(
    Program(f"guests.{module}.{name}")
    for module, names in _OF_TORCH.items()
    for name in names.split()
)
