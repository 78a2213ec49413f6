"""The simulated node: powercap, cpufreq and throttle files under /sys, for one mount namespace."""
