"""First advice: the change that removes most of a training's lost time, and its option. Pure."""
