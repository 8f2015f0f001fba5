"""What one submission may ask for: partition, account, node and site rules."""
