"""A lent worker as torch's iterator sees it, so that nothing in the training waits for one."""
