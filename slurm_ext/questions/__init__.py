"""Answers people's questions: the documents to print, as far as who asks may see them."""
