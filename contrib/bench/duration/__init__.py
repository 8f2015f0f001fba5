"""How well is a job's duration predicted at its submission, on published traces?"""
