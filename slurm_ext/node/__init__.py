"""Root-side hooks: prolog, task prolog, sampler, epilog, spool. Standard library only."""
