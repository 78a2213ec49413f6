"""Each launcher's variables tell the launch that a process belongs to, and its number there."""

from __future__ import annotations

import subprocess

from tests.lib.doubles.support import BUILD

DRIVER = BUILD / "tests/lib/doubles/launcher_driver"
OPENMPI, MPICH = "1", "2"
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "PMI_FD": "7"}
PMIX = {"PMIX_NAMESPACE": "slurm.pmix.12.0", "PMIX_RANK": "1", "SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "1"}


def told(family: str, *words: str, before: tuple[str, ...] = (), **environment: str) -> tuple[int, int, int, int]:
    """(launch, rank, size, task). before: the words of an ancestor."""
    command = ["sh", "-c", '"$0" "$@"; true', str(DRIVER), family, *words] if not before else [
        "sh", "-c", f"{DRIVER} {family}; true", *before]
    done = subprocess.run(command, env={"PATH": "/usr/bin:/bin", **environment}, capture_output=True, text=True,
                          timeout=60, check=True)
    values = dict(line.split() for line in done.stdout.splitlines())
    return tuple(int(values[name]) for name in ("launch", "rank", "size", "task"))  # type: ignore[return-value]


def proxy(address: str, group: str = "0", node: str = "0") -> tuple[str, ...]:
    return ("hydra_pmi_proxy", "--control-port", address, "--rmk", "user", "--pgid", group, "--proxy-id", node)


def test_without_a_launcher_nothing_is_known_but_the_task() -> None:
    for family in (OPENMPI, MPICH, "0"):
        assert told(family) == (0, -1, 0, 0)
        assert told(family, SLURM_PROCID="3", SLURM_NTASKS="4") == (0, -1, 0, 4)


def test_pmix_tells_launches_apart_by_name() -> None:
    launch, *numbers = told(OPENMPI, **PMIX)
    assert launch != 0 and numbers == [1, 4, 2]
    assert told(OPENMPI, **{**PMIX, "PMIX_RANK": "3"})[:2] == (launch, 3)
    names = ("prterun-n1-1@1", "prterun-n1-1@2", "prterun-n1-11@1", "prterun-n1-1@1x")
    assert len({told(OPENMPI, **{**PMIX, "PMIX_NAMESPACE": name})[0] for name in names} | {launch}) == 5
    below = {**PMIX, "PMIX_NAMESPACE": "prterun-n1-1@1", "OMPI_COMM_WORLD_SIZE": "2"}
    assert told(OPENMPI, **below)[1:3] == (1, 2), "the step's tasks are not those of an mpirun in it"


def test_a_library_that_does_not_read_the_variables_is_alone() -> None:
    """MPICH beside PMIx, and Open MPI 5 beside PMI, run as worlds of one rank."""
    assert told(MPICH, **PMIX)[:3] == (0, -1, 0)
    assert told(MPICH, "pmix", **PMIX)[1:3] == (1, 4)
    assert told(OPENMPI, **HYDRA)[:3] == (0, -1, 0)
    launch, rank, size, _ = told(OPENMPI, **HYDRA, PMI_JOBID="12.0")
    assert launch != 0 and (rank, size) == (-1, 0)


def test_srun_tells_mpich_by_pmi() -> None:
    launch, *numbers = told(MPICH, **HYDRA, PMI_JOBID="12.0", SLURM_PROCID="1")
    assert launch != 0 and numbers == [1, 2, 2]
    assert told(MPICH, **HYDRA, PMI_JOBID="12.1")[0] != launch


def test_hydra_is_known_by_the_address_of_mpiexec() -> None:
    """On all nodes alike, whatever srun said of the task that runs mpiexec."""
    launch = told(MPICH, before=proxy("n1:4711"), **HYDRA)[0]
    assert launch != 0 and told(MPICH, before=proxy("n1:4711", node="1"), **HYDRA)[0] == launch
    assert told(MPICH, before=proxy("n1:4711"), PMI_JOBID="12.0", **HYDRA)[0] == launch
    others = [told(MPICH, before=proxy("n1:4712"), **HYDRA), told(MPICH, before=proxy("n1:4711", "1"), **HYDRA),
              told(MPICH, before=proxy("n1:4711"), PMI_SPAWNED="1", **HYDRA), told(MPICH, **HYDRA)]
    assert len({launch, *(other[0] for other in others)}) == 5
    assert others[-1] == (0, 1, 2, 0), "an mpiexec that is not known"


def test_intels_mpiexec_is_known_by_its_number() -> None:
    intel = {**HYDRA, "I_MPI_HYDRA_UUID": "5a1d", "HYDRA_BSTRAP_PGID": "0"}
    launch = told(MPICH, **intel)[0]
    assert launch == told(MPICH, **{**intel, "PMI_RANK": "0"})[0] != 0
    others = ({"HYDRA_BSTRAP_PGID": "1"}, {"I_MPI_HYDRA_UUID": "5"})
    assert len({launch, *(told(MPICH, **{**intel, **other})[0] for other in others)}) == 3


def test_crays_launcher_tells_no_size() -> None:
    launch, *numbers = told(MPICH, PALS_APID="12.0", PALS_RANKID="3")
    assert launch != 0 and numbers == [3, 0, 0]
    assert told(MPICH, PALS_APID="12.0", **HYDRA) == (launch, 1, 2, 0), "where it tells by PMI too"


def test_what_is_no_number_is_not_known() -> None:
    for text in ("", "-1", "1x", "16777216", "99999999999999999999"):
        assert told(MPICH, **{**HYDRA, "PMI_SIZE": text})[2] == 0
        assert told(MPICH, **HYDRA, SLURM_PROCID=text)[3] == 0
    assert told(MPICH, **{**HYDRA, "PMI_RANK": "2"})[1:3] == (2, 0), "no rank of two"
