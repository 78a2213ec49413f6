"""The plan that a benchmark gets before it says what to launch."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field

from tests.bench.engine import Measured
from tests.bench.picked import Picked


@dataclass
class Plan:
    """A plan. The benchmark puts what it opens on `stack`, and notes what this machine lacks in
    measured.unavailable."""

    short: bool
    stack: ExitStack
    measured: Measured
    applications: dict[str, str] = field(default_factory=dict)
    picked: Picked = field(default_factory=Picked)
