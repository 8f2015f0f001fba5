"""Does a job's record give back the stalls that were put into its steps?"""
