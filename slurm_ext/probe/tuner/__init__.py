"""The closed loop in which a loader finds its own count of workers."""
