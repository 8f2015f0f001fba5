"""How well do a few measured counts of GPUs or threads predict the rate at larger counts?"""
