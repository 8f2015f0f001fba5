"""`dlqueue report`: the report, and pages of the jobs that it names."""
