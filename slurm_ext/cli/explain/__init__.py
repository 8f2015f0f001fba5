"""`dlqueue explain`: one file for each part of the answer."""
