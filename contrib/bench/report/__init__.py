"""How long does a report on a long history take, and how much memory does it need?"""
