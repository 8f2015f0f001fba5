"""The node's live allocator: moves CPU shares and loader workers among the jobs that run here."""
