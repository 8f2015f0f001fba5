"""Replays of a queue under the rules of policy/queue: jobs of fixed size. No elastic jobs."""
