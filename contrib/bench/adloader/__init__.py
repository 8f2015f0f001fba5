"""Does moving cores and loader workers among live trainings raise their throughput?"""
