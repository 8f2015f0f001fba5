"""What all control loops share: the runner, the loop's state and the log of actions."""
