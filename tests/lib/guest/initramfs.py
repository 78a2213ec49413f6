"""Makes the archive that the guest's kernel starts with: a shell, the modules for its files, and a script."""

from __future__ import annotations

from pathlib import Path

SHELL = Path("/bin/busybox")
"""From the package busybox-static: the archive has no libraries."""
MODULES = ("drivers/virtio/virtio_ring", "drivers/virtio/virtio", "drivers/virtio/virtio_pci_modern_dev",
           "drivers/virtio/virtio_pci_legacy_dev", "drivers/virtio/virtio_pci", "fs/fuse/fuse", "fs/fuse/virtiofs",
           "fs/overlayfs/overlay")
"""Each module comes after those that it needs."""
SCRIPT = """\
#!/busybox sh
for module in {modules}; do /busybox insmod /modules/$module; done
/busybox mount -t virtiofs -o ro {tag} /root || /busybox poweroff -f
exec /busybox switch_root /root {command}
"""


def entry(name: str, mode: int, data: bytes, number: int) -> bytes:
    """Returns one file in cpio's "newc" format: a header of hexadecimal numbers, the name, the data, each padded to
    four bytes."""
    numbers = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    head = b"070701" + "".join(f"{value:08x}" for value in numbers).encode() + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def archive(modules: Path, tag: str, command: str) -> bytes:
    """Returns the archive. modules: the kernel's directory of modules. tag: name of the shared root file system.
    command: the command that runs there."""
    files = {path.name: path.read_bytes() for path in (modules / "kernel" / f"{name}.ko" for name in MODULES)}
    script = SCRIPT.format(modules=" ".join(files), tag=tag, command=command)
    entries: list[tuple[str, int, bytes]] = [(name, 0o40755, b"") for name in ("root", "modules", "proc", "dev")]
    entries += [("busybox", 0o100755, SHELL.read_bytes()), ("init", 0o100755, script.encode())]
    entries += [(f"modules/{name}", 0o100644, data) for name, data in files.items()]
    entries.append(("TRAILER!!!", 0, b""))
    return b"".join(entry(*each, number) for number, each in enumerate(entries, 1))
