"""Workers, more or fewer than as written: the gate, torch's iterator with it, room in memory."""
