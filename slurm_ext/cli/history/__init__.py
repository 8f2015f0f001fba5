"""`dlqueue history`: list, show, export and import runs."""
