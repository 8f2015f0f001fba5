"""What breaks first on 10,000 nodes, with 100,000 running jobs and 1,000 submissions a second?"""
