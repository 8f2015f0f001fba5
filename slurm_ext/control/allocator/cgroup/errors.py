"""Errors that one job can cause: each leaves that job as it is."""


class JobGoneError(Exception):
    """The job, its folder or its control group is not there any more."""


class UntrustedJobDirError(Exception):
    """The job's folder is not what the prolog made; nothing in it is touched."""
