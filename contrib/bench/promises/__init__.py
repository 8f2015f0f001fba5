"""Does what dlqueue promises of a job hold where the job runs?"""
