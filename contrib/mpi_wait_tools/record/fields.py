"""The plain figures of a record, made by record_fields.py of spank/record/ from record_fields.def."""

from __future__ import annotations

from typing import NamedTuple


class Figure(NamedTuple):
    object: str
    name: str
    unit: str
    required: bool
    whole: bool
    least: int
    most: float
    csv: str  # its measure in CSV, "" for none


FIGURES = (
    Figure("record", "steps_left_out", "", False, True, 0, 1e+18, ""),
    Figure("record", "steps_summed", "", False, True, 0, 1e+18, ""),
    Figure("nodes", "reported", "", True, True, 1, 1e+18, ""),
    Figure("nodes", "of", "", True, True, 1, 1e+18, ""),
    Figure("energy", "nodes", "", False, True, 0, 1e+18, ""),
    Figure("energy", "gaps", "", False, True, 0, 1e+18, ""),
    Figure("energy", "mirrored", "", False, True, 0, 1e+18, ""),
    Figure("saved", "percent", "%", True, False, -100, 100, "saved"),
    Figure("saved", "error", "%", True, False, 0, 200, "saved_error"),
    Figure("saved", "looks", "", True, True, 1, 1e+18, "saved_looks"),
    Figure("saved", "look_w", "W", True, False, 0, 1e+18, ""),
    Figure("saved", "beside_w", "W", True, False, 0, 1e+18, ""),
    Figure("saved", "nodes", "", False, True, 0, 1e+18, ""),
    Figure("meter", "nodes", "", True, True, 1, 1e+18, ""),
    Figure("gpus", "given", "", True, True, 0, 1e+18, "gpus_given"),
    Figure("gpus", "counted", "", True, True, 0, 1e+18, "gpus_counted"),
    Figure("gpus", "present", "", True, True, 0, 1e+18, ""),
    Figure("gpu", "number", "", True, True, 0, 1e+18, ""),
    Figure("throttle", "core_throttle", "", True, True, 0, 1e+18, ""),
    Figure("throttle", "package_throttle", "", True, True, 0, 1e+18, ""),
    Figure("throttle", "core_power_limit", "", True, True, 0, 1e+18, ""),
    Figure("throttle", "package_power_limit", "", True, True, 0, 1e+18, ""),
    Figure("grant", "cores", "", True, True, 0, 1e+18, ""),
    Figure("grant", "transitions", "", False, True, 0, 1e+18, ""),
    Figure("grant", "low_s", "s", False, False, 0, 1e+12, ""),
    Figure("csv", "written", "", True, True, 0, 1e+18, ""),
    Figure("wait", "ranks", "", True, True, 1, 1e+18, "ranks"),
    Figure("wait", "total_s", "s", True, False, 0, 1e+12, "wait"),
    Figure("wait", "mean_s", "s", True, False, 0, 1e+12, ""),
    Figure("wait", "share", "", False, False, 0, 1, "wait_share"),
    Figure("wait", "asleep_s", "s", False, False, 0, 1e+12, "asleep"),
    Figure("wait", "cpu_share", "", False, False, 0, 1, "cpu_share"),
    Figure("wait", "threads_s", "s", False, False, 0, 1e+12, "threads_cpu"),
    Figure("wait", "naps", "", False, True, 0, 1e+18, ""),
    Figure("wait", "transitions", "", False, True, 0, 1e+18, ""),
    Figure("wait", "low_s", "s", False, False, 0, 1e+12, ""),
    Figure("wait", "late", "", False, True, 0, 1e+18, "late"),
    Figure("wait", "late_s", "s", False, False, 0, 1e+12, "late_time"),
    Figure("wait", "unseen", "", False, True, 0, 1e+18, ""),
    Figure("wait", "doubtful", "", False, True, 0, 1e+18, ""),
    Figure("world", "ranks", "", True, True, 1, 1e+18, ""),
    Figure("world", "worlds", "", False, True, 0, 1e+18, ""),
    Figure("world", "size", "", False, True, 0, 1e+18, ""),
    Figure("hook", "opal", "", False, True, 0, 1e+18, ""),
    Figure("hook", "yield", "", False, True, 0, 1e+18, ""),
    Figure("hook", "ucp", "", False, True, 0, 1e+18, ""),
    Figure("hook", "loop", "", False, True, 0, 1e+18, ""),
    Figure("hook", "ofi", "", False, True, 0, 1e+18, ""),
    Figure("flag", "two_mpis", "", False, True, 0, 1e+18, ""),
    Figure("flag", "no_hook", "", False, True, 0, 1e+18, ""),
    Figure("flag", "lanes_full", "", False, True, 0, 1e+18, ""),
    Figure("flag", "shared_cores", "", False, True, 0, 1e+18, ""),
    Figure("flag", "locked", "", False, True, 0, 1e+18, ""),
    Figure("flag", "no_event", "", False, True, 0, 1e+18, ""),
    Figure("flag", "loops", "", False, True, 0, 1e+18, ""),
    Figure("flag", "no_grant", "", False, True, 0, 1e+18, ""),
    Figure("flag", "presleeps", "", False, True, 0, 1e+18, ""),
    Figure("missed", "lost", "", False, True, 0, 1e+18, ""),
    Figure("missed", "unreached", "", False, True, 0, 1e+18, ""),
    Figure("missed", "replaced", "", False, True, 0, 1e+18, ""),
    Figure("missed", "static", "", False, True, 0, 1e+18, ""),
    Figure("missed", "setuid", "", False, True, 0, 1e+18, ""),
    Figure("missed", "unfit", "", False, True, 0, 1e+18, ""),
    Figure("spun", "s", "s", True, False, 0, 1e+12, ""),
    Figure("spun", "cpu_s", "s", True, False, 0, 1e+12, ""),
    Figure("forecast", "naps", "", True, True, 0, 1e+18, "naps_forecast"),
    Figure("forecast", "early", "", True, True, 0, 1e+18, ""),
    Figure("forecast", "early_s", "s", True, False, 0, 1e+12, ""),
    Figure("forecast", "foreseen", "", True, True, 0, 1e+18, "waits_foreseen"),
    Figure("forecast", "unforeseen", "", True, True, 0, 1e+18, "waits_unforeseen"),
    Figure("forecast", "allowed_s", "s", True, False, 0, 1e+12, "late_allowed"),
    Figure("cost", "percent", "%", True, False, -100, 100, "cost_percent"),
    Figure("cost", "error", "%", True, False, 0, 200, "cost_error"),
    Figure("cost", "windows", "", True, True, 0, 1e+18, "cost_windows"),
    Figure("cost", "seconds", "s", True, False, 0, 1e+12, ""),
    Figure("cost", "slowdown", "%", False, False, 0, 100, ""),
    Figure("call", "calls", "", True, True, 0, 1e+18, "calls"),
    Figure("call", "waits", "", True, True, 0, 1e+18, "waits"),
    Figure("call", "wait_s", "s", True, False, 0, 1e+12, "wait"),
    Figure("call", "longest_s", "s", False, False, 0, 1e+12, "longest"),
    Figure("profile", "calls", "", True, True, 0, 1e+18, "calls"),
    Figure("profile", "time_s", "s", True, False, 0, 1e+12, "time"),
    Figure("profile", "wait_s", "s", True, False, 0, 1e+12, "wait"),
    Figure("phase", "time_s", "s", True, False, 0, 1e+12, "time"),
    Figure("phase", "waits", "", True, True, 0, 1e+18, "waits"),
    Figure("phase", "wait_s", "s", True, False, 0, 1e+12, "wait"),
    Figure("site", "waits", "", True, True, 0, 1e+18, "waits"),
    Figure("site", "wait_s", "s", True, False, 0, 1e+12, "wait"),
    Figure("rank_wait", "s", "s", True, False, 0, 1e+12, ""),
    Figure("rank_wait", "world", "", False, True, 0, 1e+18, ""),
    Figure("rank_wait", "task", "", False, True, 0, 1e+18, ""),
    Figure("step", "nodes", "", False, True, 0, 1e+18, ""),
    Figure("step", "ranks", "", True, True, 0, 1e+18, ""),
    Figure("step", "elapsed_s", "s", False, False, 0, 1e+12, "elapsed"),
    Figure("step", "wait_s", "s", True, False, 0, 1e+12, "wait"),
    Figure("steps_rest", "steps", "", True, True, 1, 1e+18, ""),
    Figure("steps_rest", "ranks", "", True, True, 0, 1e+18, ""),
    Figure("steps_rest", "wait_s", "s", True, False, 0, 1e+12, ""),
)


def figures_of(name: str) -> list[Figure]:
    return [figure for figure in FIGURES if figure.object == name]
