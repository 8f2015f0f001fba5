"""Run times of jobs: a model, the history that it keeps of users, and its intervals. numpy only."""
