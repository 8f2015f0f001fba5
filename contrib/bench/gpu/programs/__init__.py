"""Programs that the rows of `gpu` start: they import torch, and talk in JSON lines."""
