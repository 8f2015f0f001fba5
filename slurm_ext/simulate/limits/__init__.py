"""Limits of QOS in a replay: which jobs wait although there is room, and which are refused."""
