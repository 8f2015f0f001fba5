"""`dlqueue doctor`: one file for each part of the machine that is checked."""
