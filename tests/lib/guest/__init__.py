"""Tests that need a machine with nothing but cgroup v2, run in an emulated one where this machine is none.

QEMU runs Debian's own kernel without any privilege or hardware support; the guest's root directory is this machine's,
read-only. Nothing of this machine changes, and there is no network. Emulated code is some ten times slower.

    kernel.py     the kernel, from Debian's package
    initramfs.py  what the kernel starts with: modules, and the way to the root directory
    share.py      this machine's files, for the guest
    machine.py    one run of the guest
    inside.py     the guest's process 1
    plugin.py     pytest's part, outside and inside
"""
