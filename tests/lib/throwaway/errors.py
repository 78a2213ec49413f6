"""Errors of the throw-away cluster."""


class ClusterError(RuntimeError):
    """The cluster did not do as asked; the message holds the end of the log concerned."""


class MissingRequirements(ClusterError):
    """This machine lacks something; the message names each missing thing."""


class ProfileUnavailable(ClusterError):
    """This kernel cannot run the profile that was asked for; the message says why."""
