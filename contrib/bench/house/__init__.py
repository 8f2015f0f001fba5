"""How many files, names and calls does a reader of the source have to follow?"""
