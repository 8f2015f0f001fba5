"""Programs of the last visit: what a loop may share with its data, and kits nobody had tried."""
