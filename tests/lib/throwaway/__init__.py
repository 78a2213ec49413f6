"""The throw-away cluster: real Slurm, in namespaces, gone when its controller is."""

from tests.cluster.cluster import FINISHED, Cluster
from tests.cluster.errors import ClusterError, MissingRequirements, ProfileUnavailable
from tests.cluster.project import project_cluster_arguments
from tests.cluster.requirements import missing_requirements

__all__ = ["FINISHED", "Cluster", "ClusterError", "MissingRequirements", "ProfileUnavailable",
           "missing_requirements", "project_cluster_arguments"]
