"""Pure decisions: data in, a decision with its reason out."""
