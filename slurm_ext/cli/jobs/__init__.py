"""`dlqueue jobs`: a user's last jobs, a line each."""
