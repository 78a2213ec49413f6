"""A cluster's own cgroups, in the version that its profile asks for: cgroup_v1.py, cgroup_v2.py.

The keeper makes and removes the directories; init mounts them. Those two files describe each function.
"""

from __future__ import annotations

from types import ModuleType

from tests.lib.throwaway import cgroup_v1, cgroup_v2

VERSIONS = {"cgroup": 1, "cgroup2": 2}
"""Version by profile; the other profiles have no cgroups of their own."""
_MODULES: dict[int, ModuleType] = {1: cgroup_v1, 2: cgroup_v2}


def of(version: int) -> ModuleType:
    return _MODULES[version]


def unavailable_reason(profile: str) -> str:
    """Returns why this machine lacks the profile's cgroups; "" if it does not."""
    reason: str = of(VERSIONS[profile]).unavailable_reason() if profile in VERSIONS else ""
    return reason
