"""Forecasts of the nodes that a partition needs in the next hours. numpy only."""
