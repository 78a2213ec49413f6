"""Runs tests that need a machine with cgroup v2 alone, in an emulated one where this machine has cgroup v1.

QEMU runs Debian's own kernel without any privilege or hardware support. The guest's root directory is this machine's,
read-only. Nothing of this machine changes, and there is no network. Emulated code is about ten times slower.

    kernel.py     the kernel, from Debian's package
    initramfs.py  the archive that the kernel starts with: modules, and the way to the root directory
    share.py      this machine's files, for the guest
    machine.py    one run of the guest
    inside.py     the guest's process 1
    plugin.py     pytest's part, outside and inside
"""
