"""`dlqueue predict`, with what-if tables and Open OnDemand attributes."""
