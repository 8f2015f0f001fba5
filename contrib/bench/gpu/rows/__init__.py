"""The rows of `gpu`: one file each, with `measure(here, report)`; none of them imports torch."""
