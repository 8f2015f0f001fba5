"""Do gradient buckets chosen from a job's own run make its next run faster?"""
