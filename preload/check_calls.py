#!/usr/bin/env python3
"""Compares mpi_calls.def with the mpi.h of every MPI that is installed.

Fails when a row's number of arguments differs from the prototype, when a large-count variant exists that the row does
not have, and when a function that may block is missing. A function is local only if LOCAL says so: whatever a new
mpi.h brings is reported until somebody has looked at it.

    check_calls.py [--build] mpi_calls.def [mpi.h ...]

With --build, as every build runs it, only a wrong number of arguments fails: it would corrupt calls. What a newer MPI
has in addition is passed by, and fails the tests alone.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

ROW = re.compile(r"^CALL\((\w+), (\d+), (WAIT|TIME|MARK), (LARGE|PLAIN), (\w+)\)$", re.M)
PROTOTYPE = re.compile(r"\bint\s+(MPI_\w+)\s*\(")
COMPILERS = ["mpicc", "mpicc.openmpi", "mpicc.mpich", "mpicc_abi"]
PLACES = ["/usr/lib/*/openmpi/include", "/usr/include/*/mpich", "/usr/lib64/*/include", "/usr/include/*-x86_64"]

# Functions that never wait for another rank nor for a disk. File_read_at and its like are no such thing.
LOCAL = [
    r"T_\w+", r"Abi_\w+", r"\w+_(toint|fromint|c2f|f2c|f082c|c2f08|f2f08|f082f)", r"Type_\w+",
    r"Info_\w+", r"Group_\w+", r"Status_\w+", r"Op_(create|free|commutative)(_c)?", r"Attr_\w+", r"Keyval_\w+",
    r"Errhandler_\w+", r"\w+_(call|create|get|set)_errhandler", r"\w+_(create|free)_keyval",
    r"(Comm|Win|Type)_(get|set|delete)_attr", r"(Comm|Win|Type)_(get|set)_name", r"(Comm|Win)_(get|set)_info",
    r"Add_error_\w+", r"Remove_error_\w+", r"Error_(class|string)", r"(Pack|Unpack)(_external)?(_size)?(_c)?",
    r"(Alloc|Free)_mem", r"Address", r"Get_(address|count|elements|version|library_version|processor_name)(_c|_x)?",
    r"Get_hw_resource_info", r"Aint_\w+", r"(Buffer|Comm|Session)_attach(_buffer)?(_c)?", r"Cancel", r"Test_cancelled",
    r"Request_free", r"Grequest_(start|complete)", r"Cart_(coords|get|map|rank|shift)", r"Cartdim_get", r"Dims_create",
    r"Graph_(get|map|neighbors|neighbors_count)", r"Graphdims_get", r"Dist_graph_neighbors(_count)?", r"Topo_test",
    r"Comm_(compare|group|rank|size|remote_group|remote_size|test_inter|get_parent)", r"Win_(attach|detach)",
    r"Win_(get_group|shared_query)(_c)?", r"File_get_(amode|atomicity|byte_offset|group|info|position|size|view)",
    r"File_get_type_extent(_c)?", r"File_seek", r"Register_datarep(_c)?", r"Reduce_local(_c)?", r"Pcontrol",
    r"Session_get_\w+", r"(Open|Close)_port", r"(Publish|Unpublish|Lookup)_name", r"Initialized", r"Finalized",
    r"Is_thread_main", r"Query_thread", r"NULL_\w+", r"DUP_FN",
]
LOCAL_PATTERN = re.compile("|".join(f"(?:{pattern})" for pattern in LOCAL))
# Fortran's own and callback types, which have a prototype but are nothing that a program calls.
NOT_CALLS = re.compile(r"\w+_function(_c)?|\w+_FN|\w+_fn")


def table_read(path: Path) -> dict[str, tuple[int, bool]]:
    text = path.read_text()
    rows = {name: (int(count), large == "LARGE") for name, count, _, large, _ in ROW.findall(text)}
    written = len(re.findall(r"^CALL\(", text, re.M))
    if written != len(rows):
        sys.exit(f"{path}: {written} rows, but {len(rows)} different ones that can be read")
    return rows


def headers_find() -> list[Path]:
    found: set[Path] = set()
    for compiler in filter(shutil.which, COMPILERS):
        for option in ("--showme:compile", "-show"):
            shown = subprocess.run([compiler, option], capture_output=True, text=True, check=False)
            folders = [word[2:] for word in shlex.split(shown.stdout) if word.startswith("-I")]
            found.update(Path(folder, "mpi.h").resolve() for folder in folders if Path(folder, "mpi.h").exists())
    for place in PLACES:
        found.update(path.resolve() for path in Path("/").glob(place[1:] + "/mpi.h"))
    return sorted(found)


def prototypes_read(path: Path) -> dict[str, int]:
    # MPICH declares its functions in the second, and those of MPI-IO in the third.
    parts = [path, path.with_name("mpi_proto.h"), path.with_name("mpio.h")]
    text = "".join(part.read_text(errors="replace") for part in parts if part.exists())
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    text = re.sub(r"^[ \t]*#.*$", "", text.replace("\\\n", " "), flags=re.M)
    calls = {}
    for match in PROTOTYPE.finditer(text):
        depth, count, at = 1, 1, match.end()
        while depth and at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            count += depth == 1 and text[at] == ","
            at += 1
        nothing = text[match.end():at - 1].strip() in ("", "void")
        calls[match[1][4:]] = 0 if nothing else count
    return calls


def arguments_check(calls: dict[str, int], rows: dict[str, tuple[int, bool]]) -> list[str]:
    return [
        f"MPI_{variant} has {calls[variant]} arguments, the table says {count}"
        for name, (count, _) in rows.items()
        for variant in (name, name + "_c")
        if calls.get(variant, count) != count
    ]


def completeness_check(calls: dict[str, int], rows: dict[str, tuple[int, bool]]) -> list[str]:
    wrong = [
        f"MPI_{name}_c exists, the table says PLAIN"
        for name, (_, large) in rows.items()
        if name + "_c" in calls and not large
    ]
    for name in calls:
        row = name[:-2] if name.endswith("_c") and name[:-2] in rows else name
        if row not in rows and not LOCAL_PATTERN.fullmatch(name) and not NOT_CALLS.fullmatch(name):
            wrong.append(f"MPI_{name} may block and is not in the table")
    return wrong


def header_check(path: Path, rows: dict[str, tuple[int, bool]], building: bool) -> list[str]:
    calls = prototypes_read(path)
    if len(calls) < 300:
        print(f"{path}: only {len(calls)} prototypes could be read")
        return [] if building else [f"{path} could not be read"]
    wrong = arguments_check(calls, rows)
    if not building:
        wrong += completeness_check(calls, rows)
    unknown = [name for name in rows if name not in calls]
    print(f"{path}: {len(calls)} functions; {len(rows) - len(unknown)} of {len(rows)} rows known, {len(wrong)} wrong")
    if unknown:
        print("  rows that it does not have: " + " ".join(unknown))
    return wrong


def main() -> int:
    building = "--build" in sys.argv
    paths = [Path(argument) for argument in sys.argv[1:] if argument != "--build"]
    rows = table_read(paths[0])
    headers = paths[1:] or headers_find()
    if not headers:
        print("no mpi.h found: nothing compared")
        return 0 if building else 77
    wrong = [line for path in headers for line in header_check(path, rows, building)]
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
