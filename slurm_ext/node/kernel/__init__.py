"""What the kernel shows of processes, control groups and cores, read from /proc and cgroupfs."""
