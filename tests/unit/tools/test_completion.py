"""The completion for bash, sourced and asked as bash asks it; its words are those of the command's own help."""

from __future__ import annotations

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "contrib" / "completions" / "mpi-wait.bash"
COMMAND = ROOT / "contrib" / "mpi-wait"

ASK = """
source "$1"; shift
complete -p mpi-wait >/dev/null || exit 3
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_mpi_wait
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(*words: str, folder: pathlib.Path = ROOT) -> set[str]:
    """What is offered for the last word."""
    done = subprocess.run(
        ["bash", "--norc", "-uc", ASK, "bash", str(SCRIPT), "mpi-wait", *words],
        capture_output=True,
        encoding="utf-8",
        timeout=30,
        cwd=folder,
        check=True,
    )
    assert done.stderr == ""
    return set(done.stdout.split("\n")) - {""}


def options(*command: str) -> set[str]:
    usage = subprocess.run([COMMAND, *command, "--help"], capture_output=True, encoding="utf-8", check=True).stdout
    return set(re.findall(r"--[a-z][a-z-]+", usage))


def test_commands() -> None:
    usage = subprocess.run([COMMAND, "--help"], capture_output=True, encoding="utf-8", check=True).stdout
    commands = set(re.findall(r"^    ([a-z]+) ", usage, re.M))
    assert completed("") == commands | {"--help", "--version"}
    assert completed("re") == {"report"} and completed("ch") == {"check"} and completed("x") == set()


@pytest.mark.parametrize("command", ["report", "top", "try", "learn", "check"])
def test_options_are_those_of_the_help(command: str) -> None:
    assert completed(command, "-") == options(command)
    assert completed(command, "--no") == {"--no-color"}


def test_a_directory_of_output_files(tmp_path: pathlib.Path) -> None:
    (tmp_path / "my runs").mkdir()
    (tmp_path / "my run.out").touch()
    assert completed("report", "my", folder=tmp_path) == {"my runs"}
    assert completed("top", "my", folder=tmp_path) == set()


def test_files_only_where_a_file_is_meant(tmp_path: pathlib.Path) -> None:
    (tmp_path / "record one.json").touch()
    (tmp_path / "other").touch()
    assert completed("report", "--record", "rec", folder=tmp_path) == {"record one.json"}
    assert completed("report", "--plot", "o", folder=tmp_path) == {"other"}
    assert completed("top", "--by", "a", folder=tmp_path) == {"account"}
    assert completed("top", "--order", "", folder=tmp_path) == {"awake", "threads", "saved"}
    assert completed("top", "--since", "", folder=tmp_path) == set()
    assert completed("report", "--calls", "", folder=tmp_path) == set()
    assert completed("try", "--rounds", "", folder=tmp_path) == set()
    assert completed("try", "--state", "o", folder=tmp_path) == {"other"}
    policies = {path.stem for path in (ROOT / "policies").glob("*.json") if "." not in path.stem}
    assert completed("try", "--policies", "") == policies - {"off"}
    assert completed("check", "--width", "", folder=tmp_path) == set()


def test_behind_two_hyphens_words_are_the_launchers(tmp_path: pathlib.Path) -> None:
    (tmp_path / "my solver").touch()
    for words in (["--"], ["--", "srun", "-n4"], ["--rounds", "5", "--", "srun", "--rounds"]):
        assert completed("try", *words, "my", folder=tmp_path) == {"my solver"}
    assert completed("try", "--", "srun", "", folder=tmp_path) == {"my solver"}
    assert completed("try", "--", "--p", folder=tmp_path) == set()
    assert completed("try", "--pol", folder=tmp_path) == {"--policies"}
    assert completed("try", "--rounds", "my", folder=tmp_path) == set()


def test_it_is_installed_under_the_commands_name() -> None:
    plan = (ROOT / "contrib" / "meson.build").read_text()
    assert "'completions/mpi-wait.bash', rename: 'mpi-wait'" in plan
