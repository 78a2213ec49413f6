"""A cluster's own cgroups, of the version that its profile asks for: cgroup_v1.py, cgroup_v2.py.

The keeper makes and removes the directories, init mounts them: see those two for what each function does.
"""

from __future__ import annotations

from types import ModuleType

from tests.lib.throwaway import cgroup_v1, cgroup_v2

VERSIONS = {"cgroup": 1, "cgroup2": 2}
"""By profile; the others have none of their own."""
_MODULES: dict[int, ModuleType] = {1: cgroup_v1, 2: cgroup_v2}


def of(version: int) -> ModuleType:
    return _MODULES[version]


def unavailable_reason(profile: str) -> str:
    """Why this machine cannot run the profile for want of cgroups; empty if it can."""
    reason: str = of(VERSIONS[profile]).unavailable_reason() if profile in VERSIONS else ""
    return reason
