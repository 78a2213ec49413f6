"""A complete Slurm cluster for one test run or one demonstration, which leaves nothing behind."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.lib.throwaway import cgroups, config, daemons, processes, registry, requirements, sandbox, templates
from tests.lib.throwaway.errors import ClusterError, MissingRequirements, ProfileUnavailable
from tests.lib.throwaway.inside import Sandbox
from tests.lib.throwaway.sandbox import ROOT, SUBMIT

FINISHED = ("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL",
            "OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT")
USABLE_NODE_STATES = ("idle", "mixed", "allocated", "completing")

POLL_S = (0.1, 0.4)
LEAVE_NO_JOB = "while jobs=$(squeue -h -p all -o %A) && [ -n \"$jobs\" ]; do scancel -f $jobs; sleep 0.2; done"
"""Pauses between two polls, first and longest: each of Slurm's commands takes 20 ms of a core, and cores are few."""

# With Slurm 22.05's tree fence, one node sometimes leaves MPI_Init before another one is in. Open MPI 4.1 then dies
# when the message comes, at address 0 in mca_btl_tcp: in one of 60 runs on a busy machine. With a ring fence: in none
# of 200.
PMIX = {"SLURM_PMIX_FENCE": "ring"}


class Cluster:
    """munge, MariaDB, slurmdbd, slurmctld and several slurmd in namespaces of their own.

    Everything lives in one set of PID, mount, network, IPC and UTS namespaces whose files are in memory: nothing is
    written to the machine, no port is opened on it, and its users do not change. When `stop` is called or this process
    ends, however it ends, a keeper process kills all of it.

    Commands run on the host "submit" (srun, sbatch, sacct, slurmctld) or on a node. All hosts share /srv/cluster
    (`spool`, `share`, the homes). Each host has its own /tmp, /var/tmp, /run, /var/spool and /dev/shm.
    """

    spool = str(ROOT / "spool")
    """The directory, owned by root with mode 0755, that all hosts see at the same path."""
    share = str(ROOT / "share")
    """A directory that all hosts see and every user may write to, as /tmp."""

    def __init__(
        self, nodes: int = 2, profile: str = "linuxproc", plugstack: str = "",
        simulated: bool = True, binds: Mapping[str, Path] | None = None,
        slurm_conf: Mapping[str, str] | None = None,
        progress: Callable[[str], None] | None = None, model: Mapping[str, Any] | None = None,
        slurmd_arguments: Sequence[str] = (), etc: Mapping[str, str] | None = None,
        daemon_environment: Mapping[str, str] | None = None, topology: str = "", spares: tuple[int, int] = (0, 0),
    ) -> None:
        """Describes a cluster; `start` makes it.

        binds: path in the cluster to the file or directory of this machine that is shown there (not below /tmp,
        /var/tmp, /run, /var/spool or /dev/shm). slurm_conf: keys to set, or with "" to leave out. model: the settings
        of a simulated node (see tests.lib.simnode.model.Options). progress: called with a short line at the end of each
        stage. slurmd_arguments: further arguments of every slurmd. etc: text appended to files in /etc/slurm (made if
        missing). daemon_environment: further variables for slurmdbd, slurmctld and slurmd. topology: a node's CPUs in
        slurm.conf's words (default: this machine's). spares: how many variants of one node and of two nodes can be made
        later (tests.lib.throwaway.variant.Fleet).
        """
        if profile not in config.PROFILES:
            raise ValueError(f"no profile '{profile}' (there are {', '.join(config.PROFILES)})")
        self.nodes = [f"c{number}" for number in range(1, nodes + 1)]
        self.profile = profile
        self.simulated = simulated
        self._plugstack = plugstack
        self._binds = {target: str(source) for target, source in (binds or {}).items()}
        self._slurm_conf = dict(slurm_conf or {})
        self._progress = progress or (lambda line: None)
        self._model = dict(model or {})
        self._slurmd_arguments = list(slurmd_arguments)
        self._etc = dict(etc or {})
        self._daemon_environment = dict(daemon_environment or {})
        self._topology = topology
        self._inside: Sandbox | None = None
        self._daemons: daemons.Daemons | None = None
        self._last_logs: dict[str, str] = {}
        self._spares = config.spare_nodes(*spares)
        self._host = SUBMIT
        self._environment = dict(PMIX)

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.stop()

    @property
    def inside(self) -> Sandbox:
        if self._inside is None:
            raise ClusterError("the cluster is not running")
        return self._inside

    @property
    def daemons(self) -> daemons.Daemons:
        if self._daemons is None:
            raise ClusterError("the cluster is not running")
        return self._daemons

    @property
    def root(self) -> Path:
        """Returns the cluster's shared directory as this process can read and write it, while the cluster runs."""
        return self.inside.path(ROOT)

    # --- life ---------------------------------------------------------------------------------

    def start(self) -> Cluster:
        """Boots the cluster; returns when all nodes are idle.

        Raises MissingRequirements, ProfileUnavailable, or ClusterError with the log concerned.
        """
        if missing := requirements.missing_requirements(self.simulated):
            raise MissingRequirements("the throw-away cluster needs " + "; ".join(missing))
        if reason := cgroups.unavailable_reason(self.profile):
            raise ProfileUnavailable(f"profile {self.profile}: {reason}")
        registry.RUNNING.append(self)
        try:
            self._boot()
        except BaseException:
            self.stop()
            registry.FAILED.append(self)
            raise
        return self

    def stop(self) -> None:
        """Tears all down and returns when nothing is left. The logs stay readable. May be called again."""
        if self._inside is None:
            return
        with suppress(OSError, ClusterError):
            self._last_logs = self.all_logs()
        inside, self._inside, self._daemons = self._inside, None, None
        inside.stop()
        if self in registry.RUNNING:
            registry.RUNNING.remove(self)

    def _boot(self) -> None:
        binds = {f"{ROOT}/lib/tests": str(Path(__file__).resolve().parents[2]), **self._binds}
        spare = [node for group in self._spares.values() for node in group]
        version = cgroups.VERSIONS.get(self.profile, 0)
        spec = sandbox.Spec(f"mpi-wait-{secrets.token_hex(4)}", self.nodes, version, binds, spare)
        with self._stage("namespaces, users"):
            self._inside = Sandbox(spec)
            self._write_configuration()
        environment = self._daemon_environment
        slurmds = [daemons.slurmd(node, index, self._slurmd_arguments, environment)
                   for index, node in enumerate(self.nodes)]
        simnodes = [daemons.simnode(node, self._model) for node in self.nodes if self.simulated]
        self._daemons = daemons.Daemons(self._inside, [
            daemons.munge(), daemons.mariadb(), daemons.slurmdbd(environment),
            daemons.slurmctld(environment, "slurmctld.conf" if self._spares else "slurm.conf"), *simnodes, *slurmds])
        self._boot_database()
        for simulated in simnodes:
            self._daemons.start(simulated.name)
        with self._stage("slurmctld"):
            self._start_all(["slurmctld"])
        with self._stage(f"{len(self.nodes)} nodes" + (", simulated" if self.simulated else "")):
            for simulated in simnodes:
                self._daemons.wait(simulated.name)
            self._start_all([slurmd.name for slurmd in slurmds])
            self.wait_nodes()

    def _boot_database(self) -> None:
        """Starts the database from the template if there is one; the first cluster of all makes the template."""
        data = self.root / "database/data"
        if templates.copy(data):
            with self._stage("munge, mariadb"):
                self._start_all(["mariadb", "munge"])
            with self._stage("slurmdbd"):
                self._start_all(["slurmdbd"])
            return
        with templates.making() as keep:
            if keep is None and templates.copy(data):
                self._start_all(["mariadb", "munge", "slurmdbd"])
                return
            with self._stage("munge, mariadb"):
                self._start_all(["mariadb", "munge"])
            with self._stage("slurmdbd"):
                self._start_all(["slurmdbd"])
                self.node_run(SUBMIT, ["sh", "-c", config.ACCOUNTS_SCRIPT], check=True)
            if keep:
                for name in ("slurmdbd", "mariadb"):
                    self.kill(name)
                keep(data)
                self._start_all(["mariadb"])
                self._start_all(["slurmdbd"])

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        start = time.monotonic()
        yield
        self._progress(f"{name + ' ...':<26}{time.monotonic() - start:6.1f} s")

    def _start_all(self, names: list[str]) -> None:
        with ThreadPoolExecutor(max_workers=4) as pool:
            list(pool.map(self.daemons.start, names))
        for name in names:
            self.daemons.wait(name)

    def _write_configuration(self) -> None:
        folder = self.root / "etc"
        conf = config.slurm_conf(self.nodes, self.profile, self._slurm_conf, self._spares, self._topology)
        (folder / "slurm.conf").write_text(conf)
        if self._spares:
            (folder / "slurmctld.conf").write_text(conf + config.spare_partitions(self._spares))
        (folder / "cgroup.conf").write_text(config.CGROUP_CONF.get(self.profile, config.CGROUP_V1_CONF))
        (folder / "plugstack.conf").write_text(self._plugstack)
        for name, content in (("slurmdbd.conf", config.slurmdbd_conf().encode()),
                              ("munge.key", secrets.token_bytes(128))):
            with open(os.open(folder / name, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                file.write(content)
        for name, text in self._etc.items():
            with (folder / name).open("a") as file:
                file.write(text)

    # --- commands -----------------------------------------------------------------------------

    def run(
        self, argv: Sequence[str], user: str = "alice", env: Mapping[str, str] | None = None,
        cwd: str | None = None, timeout: float | None = 60, input: str | None = None,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command on the submit host with the user's clean environment plus `env`.

        Input and output are text. cwd: default the user's home. After the timeout the command gets SIGTERM, then
        SIGKILL, and subprocess.TimeoutExpired is raised. check: a failure raises ClusterError.
        """
        return self.inside.run(argv, host=self._host, user=user, env={**self._environment, **(env or {})}, cwd=cwd,
                               timeout=timeout, input=input, check=check)

    def popen(
        self, argv: Sequence[str], user: str = "alice", env: Mapping[str, str] | None = None,
        cwd: str | None = None, **files: Any,
    ) -> subprocess.Popen[str]:
        """Starts a command as `run` does, in the background. Signals that the object gets reach the command; if the
        object's process is killed, so is the command. files: stdin (default /dev/null), stdout, stderr (pipes).
        terminal: the command talks to the caller's terminal."""
        return self.inside.popen(argv, host=self._host, user=user, env={**self._environment, **(env or {})}, cwd=cwd,
                                 **files)

    def node_run(
        self, node: str, argv: Sequence[str], user: str = "root",
        env: Mapping[str, str] | None = None, cwd: str | None = None, timeout: float | None = 60,
        input: str | None = None, check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command as `run` does, in a node's namespaces, by default as root."""
        return self.inside.run(argv, host=node, user=user, env=env, cwd=cwd, timeout=timeout,
                               input=input, check=check)

    # --- files --------------------------------------------------------------------------------

    def read(self, node: str, path: str | Path) -> str:
        """Returns a file's text as root on that node reads it. Raises ClusterError if it cannot be read."""
        try:
            return self.inside.path(path, node).read_text()
        except OSError as error:
            raise ClusterError(f"'{path}' of {node} cannot be read: {error.strerror}") from error

    def put(self, source: Path, name: str | None = None, mode: int = 0o755) -> str:
        """Copies a file of this machine into `share`; returns its path inside the cluster."""
        target = self.root / "share" / (name or source.name)
        target.write_bytes(source.read_bytes())
        target.chmod(mode)
        return f"{self.share}/{target.name}"

    # --- daemons ------------------------------------------------------------------------------

    def logs(self, name: str) -> str:
        """Returns a daemon's log: munge, mariadb, slurmdbd, slurmctld, slurmd-c1, simnode-c1, ...

        After `stop`, returns the log as it was at the end.
        """
        if self._inside is None:
            return self._last_logs.get(name, "")
        return self.daemons.log(name)

    def all_logs(self) -> dict[str, str]:
        if self._inside is None:
            return self._last_logs
        return {name: self.daemons.log(name) for name in sorted(self.log_sizes())}

    def log_sizes(self) -> dict[str, int]:
        return {} if self._inside is None else self.daemons.log_sizes()

    def kill(self, daemon: str, sig: int = signal.SIGTERM) -> None:
        """Signals a daemon; after SIGTERM or SIGKILL, returns when it is gone."""
        self.daemons.kill(daemon, sig)

    def restart(self, daemon: str) -> None:
        """Ends the daemon if it still runs, and starts it; returns when it serves again."""
        self.kill(daemon)
        self._start_all([daemon])
        if daemon.startswith(("slurmd-", "slurmctld")):
            self.wait_nodes()

    def set_plugstack(self, text: str) -> None:
        """Replaces plugstack.conf and restarts the slurmds, which read it only when they start."""
        (self.root / "etc/plugstack.conf").write_text(text)
        names = [f"slurmd-{node}" for node in self.nodes]
        for name in names:
            self.kill(name)
        self._start_all(names)
        self.wait_nodes()

    def pids(self, node: str) -> list[int]:
        """Returns the processes in a node's mount namespace except its holder, by their pids outside."""
        holder = self.inside.holders[node]
        return sorted(set(processes.in_namespace("mnt", holder)) - {holder})

    def pids_named(self, node: str, name: str) -> list[int]:
        """Returns those of `pids` that have this name."""
        return [pid for pid in self.pids(node) if processes.name(pid) == name]

    # --- Slurm --------------------------------------------------------------------------------

    def wait_nodes(self, timeout: float = 30) -> None:
        """Returns when every node answers and takes jobs."""
        def usable() -> bool:
            lines = self.node_run(SUBMIT, ["sinfo", "-h", "-N", "-o", "%N %T"]).stdout.split("\n")
            states = dict(line.split() for line in lines if line)
            return all(states.get(node) in USABLE_NODE_STATES for node in self.nodes)
        self._poll(usable, timeout, lambda: "nodes are not usable: " + self.node_run(
            SUBMIT, ["sinfo", "-N", "-l"]).stdout + self.logs("slurmctld")[-2000:])

    def wait_job(
        self, jobid: int | str, states: Sequence[str] = FINISHED, timeout: float = 60
    ) -> str:
        """Waits until slurmctld has the job in one of the states (default: over, its epilogs included); returns that
        state. All tasks of an array must be in such a state."""
        seen: list[str] = []

        def arrived() -> bool:
            shown = self.node_run(SUBMIT, ["scontrol", "-o", "show", "job", str(jobid)]).stdout
            seen[:] = [word.removeprefix("JobState=") for word in shown.split()
                       if word.startswith("JobState=")]
            return bool(seen) and all(state in states for state in seen)
        self._poll(arrived, timeout, lambda: f"job {jobid} is {seen}, not one of {list(states)}")
        return seen[0]

    def sacct(
        self, jobid: int | str, fields: Sequence[str], extra: Sequence[str] = ()
    ) -> list[dict[str, str]]:
        """Returns the job's rows, steps included, as root sees them; `extra` is passed on to sacct."""
        argv = ["sacct", "-n", "-P", "--delimiter=\x1f", "-j", str(jobid), "-o", ",".join(fields)]
        lines = self.node_run(SUBMIT, [*argv, *extra], check=True).stdout.splitlines()
        names = [field.split("%")[0] for field in fields]
        return [dict(zip(names, line.split("\x1f"), strict=True)) for line in lines]

    def end_jobs(self) -> None:
        """Cancels every job of the ordinary nodes, and returns when they have left the queue. Ignores failures: a
        daemon may be down."""
        with suppress(subprocess.TimeoutExpired, OSError, ClusterError):
            self.node_run(SUBMIT, ["sh", "-c", LEAVE_NO_JOB], timeout=20)

    def wait_accounted(self, jobid: int | str, timeout: float = 30) -> None:
        """Returns when slurmdbd too has the job as over. This is seconds after `wait_job`, because slurmctld sends its
        records in batches."""
        def accounted() -> bool:
            rows = self.sacct(jobid, ["State", "End"])
            return bool(rows) and all(row["State"].split()[0] in FINISHED and row["End"] != "Unknown" for row in rows)
        self._poll(accounted, timeout, lambda: f"job {jobid} is not over in slurmdbd: "
                   f"{self.sacct(jobid, ['JobID', 'State'])}")

    def _poll(self, question: Callable[[], bool], timeout: float,
              complaint: Callable[[], str]) -> None:
        deadline = time.monotonic() + timeout
        pause_s = POLL_S[0]
        while not question():
            if time.monotonic() > deadline:
                raise ClusterError(f"after {timeout:.0f} s {complaint()}")
            time.sleep(pause_s)
            pause_s = min(1.3 * pause_s, POLL_S[1])
