"""The only room that imports torch: fit the prior, score it, promote it or say why not."""
