"""How well does one run predict the throughput at other worker and core counts?"""
