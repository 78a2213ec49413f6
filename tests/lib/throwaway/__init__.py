"""The throw-away cluster: real Slurm, in namespaces, which ends with its controller."""

from tests.lib.throwaway import registry
from tests.lib.throwaway.cluster import FINISHED, Cluster
from tests.lib.throwaway.errors import ClusterError, MissingRequirements, ProfileUnavailable
from tests.lib.throwaway.project import project_cluster_arguments
from tests.lib.throwaway.requirements import missing_requirements
from tests.lib.throwaway.variant import Fleet, Variant

__all__ = ["FINISHED", "Cluster", "ClusterError", "Fleet", "Variant", "MissingRequirements", "ProfileUnavailable",
           "missing_requirements", "project_cluster_arguments", "registry"]
