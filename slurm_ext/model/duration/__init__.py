"""How long jobs run: a model, what it remembers of users, and its intervals. numpy only."""
