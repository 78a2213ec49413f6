"""Runs one command inside a cluster: `enter.py SPEC`, environment and files 0-2 inherited.

A stand-alone script (started with `python -I -S`, and without the modules that take longest to
load: thousands of commands are run so), so that a command in the cluster is an ordinary child of
the caller: it joins the namespaces and cgroups of a process of the cluster, becomes the user, runs
the command, passes signals on to it, and ends as the command ended. If this process is killed, so
is the command.

SPEC, a Python literal: pid (whose namespaces), argv, uid, gid, groups, cwd, detach (None, or a file
for the pid: start a daemon in a new session and return at once), output (None, or a file for a
daemon's output), terminal (the command gets the caller's terminal, whose own signals are not
passed on).
"""

from __future__ import annotations

import _signal as signal
import ctypes
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

NAMESPACES = ("pid", "net", "ipc", "uts", "cgroup", "mnt")
PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1,
             signal.SIGUSR2, signal.SIGCONT)
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None, use_errno=True)


def join_cgroups(pid: int) -> None:
    """Moves this process into the cgroups of `pid`, where they are not its own already.

    Of v2 only where there is nothing else: beside v1 it has no controllers."""
    def groups(of: str) -> dict[str, str]:
        with open(f"/proc/{of}/cgroup", encoding="ascii") as file:
            rows = [line.rstrip("\n").split(":", 2) for line in file]
        return {row[1]: row[2] for row in rows}

    own = groups("self")
    for controllers, path in groups(str(pid)).items():
        if (controllers or len(own) == 1) and own.get(controllers) != path:
            folder = f"/sys/fs/cgroup/{controllers.removeprefix('name=')}{path}"
            with open(f"{folder}/cgroup.procs", "w", encoding="ascii") as file:
                file.write("0")


def join_namespaces(pid: int) -> None:
    """Enters the namespaces of `pid` that are not this process's own; the mounts come last.

    Its root directory too: setns leads to the root of the mount namespace, which in a chroot is
    another directory.
    """
    root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_CLOEXEC)
    wanted = []
    for name in NAMESPACES:
        if os.readlink(f"/proc/{pid}/ns/{name}") != os.readlink(f"/proc/self/ns/{name}"):
            wanted.append(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC))
    for descriptor in wanted:
        if libc.setns(descriptor, 0) == -1:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "setns")
    if not os.path.sameopenfile(root, os.open("/", os.O_PATH | os.O_CLOEXEC)):
        os.fchdir(root)
        os.chroot(".")


def become(spec: dict[str, Any]) -> None:
    os.setgroups(spec["groups"])
    os.setresgid(spec["gid"], spec["gid"], spec["gid"])
    os.setresuid(spec["uid"], spec["uid"], spec["uid"])


def execute(spec: dict[str, Any]) -> NoReturn:
    """Becomes the user and the command. Never returns; 127 and 126 as a shell has them."""
    try:
        become(spec)
        if not spec["detach"]:
            libc.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
        os.chdir(spec["cwd"])
        os.umask(0o022)
        os.execvpe(spec["argv"][0], spec["argv"], os.environ)
    except OSError as error:
        print(f"{spec['argv'][0]}: {error}", file=sys.stderr, flush=True)
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def start_daemon(spec: dict[str, Any]) -> NoReturn:
    """A grandchild in its own session, left to the cluster's init; its pid goes to a file."""
    os.setsid()
    if os.fork():
        os._exit(0)
    null = os.open("/dev/null", os.O_RDWR)
    output = os.open(spec["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for target, source in enumerate((null, output, output)):
        os.dup2(source, target)
    temporary = f"{spec['detach']}.new"
    with open(temporary, "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    os.rename(temporary, spec["detach"])
    execute(spec)


def give_terminal(group: int) -> None:
    """Makes a process group the foreground one of the terminal on descriptor 0, if there is one."""
    if os.isatty(0):
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.tcsetpgrp(0, group)
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)


def run_child(spec: dict[str, Any]) -> NoReturn:
    if spec["detach"]:
        start_daemon(spec)
    if spec["terminal"]:
        os.setpgid(0, 0)
        give_terminal(os.getpgrp())
    else:
        os.setsid()
    execute(spec)


def end_as(status: int) -> NoReturn:
    """Ends this process the way the command ended, by its signal where it was one."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(number, signal.SIG_DFL)
        libc.prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: the command dumped its core already
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


def main() -> NoReturn:
    spec = eval(sys.argv[1], {"__builtins__": {}})
    signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
    join_cgroups(spec["pid"])
    join_namespaces(spec["pid"])
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python, and inherited
            signal.signal(number, signal.SIG_DFL)
        run_child(spec)
    for number in PASSED_ON:
        if spec["terminal"] and number in (signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        else:
            signal.signal(number, lambda number, _frame: os.kill(child, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
    _, status = os.waitpid(child, 0)
    if spec["terminal"]:
        give_terminal(os.getpgrp())
    end_as(status)


if __name__ == "__main__":
    main()
