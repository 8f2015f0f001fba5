"""Parts of a training's step: computing, communicating, and every kind of waiting. Pure."""
