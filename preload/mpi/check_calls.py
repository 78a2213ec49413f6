#!/usr/bin/env python3
"""Compares mpi_calls.def with the mpi.h of every MPI that is installed.

Fails if a row's number of arguments or its signature differs from the prototype. Fails if a row lacks a large-count
variant that exists, or if a function that may block has no row. Fails if an MPI lacks a function whose row is not
NEWER: the function would appear to exist until the program has started. A function is local only if LOCAL says so: a
function that a new mpi.h brings is reported until somebody has given it a row or put it into LOCAL.

    check_calls.py [--build] mpi_calls.def [mpi.h ...]

With --build, as every build runs it, only a wrong number of arguments or a wrong signature fails: it would corrupt
calls. Additional functions of a newer MPI fail the tests only.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

VOLUMES = "NONE|FIRST|SECOND|EACH|LOCAL|NEIGHBOR|NEIGHBOR_EACH|ONE"
ROW = re.compile(
    r"^CALL\((\w+), (\d+), (?:WAIT|TIME|MARK), (NEWER_)?(LARGE|PLAIN|VARIADIC), \w+, "
    rf'"([bnNVotTpcwfrRqkQv.]*)", ({VOLUMES})\)$', re.M)
PROTOTYPE = re.compile(r"\bint\s+(MPI_\w+)\s*\(")
COMPILERS = ["mpicc", "mpicc.openmpi", "mpicc.mpich", "mpicc_abi"]
# The type of the argument for each letter of a signature, and its type in name_c.
LETTERS = {
    "b": ("void*", "void*"), "n": ("int", "MPI_Count"), "N": ("int*", "MPI_Count*"), "V": ("int*", "MPI_Aint*"),
    "o": ("int*", "MPI_Count*"), "t": ("MPI_Datatype", "MPI_Datatype"), "T": ("MPI_Datatype*", "MPI_Datatype*"),
    "p": ("int", "int"), "c": ("MPI_Comm", "MPI_Comm"), "w": ("MPI_Win", "MPI_Win"), "f": ("MPI_File", "MPI_File"),
    "r": ("MPI_Request*", "MPI_Request*"), "R": ("MPI_Request*", "MPI_Request*"), "k": ("int", "int"),
    "q": ("MPI_Request*", "MPI_Request*"), "Q": ("MPI_Request*", "MPI_Request*"), "v": ("int*", "int*"),
}
PLACES = ["/usr/lib/*/openmpi/include", "/usr/include/*/mpich", "/usr/lib64/*/include", "/usr/include/*-x86_64"]

# Functions that wait neither for another rank nor for a disk. File_read_at and its like wait for a disk.
LOCAL = [
    r"T_\w+", r"Abi_\w+", r"\w+_(toint|fromint|c2f|f2c|f082c|c2f08|f2f08|f082f)", r"Type_\w+",
    r"Info_\w+", r"Group_\w+", r"Status_\w+", r"Op_(create|free|commutative)(_c)?", r"Attr_\w+", r"Keyval_\w+",
    r"Errhandler_\w+", r"\w+_(call|create|get|set)_errhandler", r"\w+_(create|free)_keyval",
    r"(Comm|Win|Type)_(get|set|delete)_attr", r"(Comm|Win|Type)_(get|set)_name", r"(Comm|Win)_(get|set)_info",
    r"Add_error_\w+", r"Remove_error_\w+", r"Error_(class|string)", r"(Pack|Unpack)(_external)?(_size)?(_c)?",
    r"(Alloc|Free)_mem", r"Address", r"Get_(address|count|elements|version|library_version|processor_name)(_c|_x)?",
    r"Get_hw_resource_info", r"Aint_\w+", r"(Buffer|Comm|Session)_attach(_buffer)?(_c)?", r"Cancel", r"Test_cancelled",
    r"Grequest_start", r"Cart_(coords|get|map|rank|shift)", r"Cartdim_get", r"Dims_create",
    r"Graph_(get|map|neighbors|neighbors_count)", r"Graphdims_get", r"Dist_graph_neighbors(_count)?", r"Topo_test",
    r"Comm_(compare|group|rank|size|remote_group|remote_size|test_inter|get_parent)", r"Win_(attach|detach)",
    r"Win_(get_group|shared_query)(_c)?", r"File_get_(amode|atomicity|byte_offset|group|info|position|size|view)",
    r"File_get_type_extent(_c)?", r"File_seek", r"Register_datarep(_c)?", r"Reduce_local(_c)?",
    r"Session_(get_\w+|set_info)", r"(Open|Close)_port", r"(Publish|Unpublish|Lookup)_name",
    r"Initialized", r"Finalized", r"Is_thread_main", r"Query_thread", r"NULL_\w+", r"DUP_FN",
]
LOCAL_PATTERN = re.compile("|".join(f"(?:{pattern})" for pattern in LOCAL))
# Functions for Fortran and callback types: they have a prototype, but no program calls them.
NOT_CALLS = re.compile(r"\w+_function(_c)?|\w+_FN|\w+_fn")


class Row(NamedTuple):
    count: int
    newer: bool
    large: bool
    signature: str
    volume: str


def table_read(path: Path) -> dict[str, Row]:
    text = path.read_text()
    rows = {name: Row(int(count), bool(newer), large == "LARGE", signature, volume)
            for name, count, newer, large, signature, volume in ROW.findall(text)}
    written = len(re.findall(r"^CALL\(", text, re.M))
    if written != len(rows):
        sys.exit(f"{path}: {written} rows, but {len(rows)} different ones that can be read")
    for name, row in rows.items():
        if len(row.signature) not in (row.count, 0) or (row.large and not row.signature):
            sys.exit(f"{path}: {name} has {row.count} arguments and a signature of {len(row.signature)}")
        if row.volume != "NONE" and not re.search("[tT]", row.signature):
            sys.exit(f"{path}: {name} has a volume, but no datatype")
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


def type_of(parameter: str) -> str:
    """Returns the type without name, const and blanks: "int*" for "const int sendcounts[]"."""
    match = re.fullmatch(r"(?:const\s+)?(\w+)((?:\s|\*|const\b)*)(\w*)\s*((?:\[\w*\])*)", parameter.strip())
    if not match:
        return parameter
    # MPICH 4 has another name for the type.
    name = "MPI_Request" if match[1] == "MPIO_Request" else match[1]
    return name + "*" * (match[2].count("*") + match[4].count("["))


def prototypes_read(path: Path) -> dict[str, list[str]]:
    # MPICH declares its functions in the second file, and those of MPI-IO in the third.
    parts = [path, path.with_name("mpi_proto.h"), path.with_name("mpio.h")]
    text = "".join(part.read_text(errors="replace") for part in parts if part.exists())
    text = re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)
    text = re.sub(r"^[ \t]*#.*$", "", text.replace("\\\n", " "), flags=re.M)
    calls = {}
    for match in PROTOTYPE.finditer(text):
        depth, commas, at = 1, [match.end() - 1], match.end()
        while depth and at < len(text):
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            if depth == 1 and text[at] == ",":
                commas.append(at)
            at += 1
        parameters = [text[start + 1:end] for start, end in zip(commas, [*commas[1:], at - 1])]
        nothing = text[match.end():at - 1].strip() in ("", "void")
        named = [parameter for parameter in parameters if parameter.strip() != "..."]
        calls[match[1][4:]] = [] if nothing else [type_of(parameter) for parameter in named]
    return calls


def arguments_check(calls: dict[str, list[str]], rows: dict[str, Row]) -> list[str]:
    return [
        f"MPI_{variant} has {len(calls[variant])} arguments, the table says {row.count}"
        for name, row in rows.items()
        for variant in (name, name + "_c")
        if variant in calls and len(calls[variant]) != row.count
    ]


def letter_is_wrong(letter: str, plain: str, large: str | None) -> bool:
    if letter == ".":
        return large is not None and plain != large
    wanted, wanted_large = LETTERS[letter]
    # A displacement unit is an int, and an MPI_Aint in name_c.
    accepted = {wanted_large, "MPI_Aint"} if letter == "n" else {wanted_large}
    return plain != wanted or (large is not None and large not in accepted)


def signature_check(calls: dict[str, list[str]], rows: dict[str, Row]) -> list[str]:
    wrong = []
    for name, row in rows.items():
        plain, large = calls.get(name), calls.get(name + "_c")
        if not row.signature or not plain or len(plain) != row.count or (large and len(large) != row.count):
            continue
        for i, letter in enumerate(row.signature):
            if letter_is_wrong(letter, plain[i], large[i] if large else None):
                seen = f"{plain[i]}, in MPI_{name}_c {large[i]}" if large else plain[i]
                wrong.append(f"argument {i} of MPI_{name} is {seen}: not what {letter!r} in its signature means")
    return wrong


def completeness_check(calls: dict[str, list[str]], rows: dict[str, Row]) -> list[str]:
    wrong = [
        f"MPI_{name}_c exists, the table says PLAIN"
        for name, row in rows.items()
        if name + "_c" in calls and not row.large
    ]
    for name in calls:
        row = name[:-2] if name.endswith("_c") and name[:-2] in rows else name
        if row not in rows and not LOCAL_PATTERN.fullmatch(name) and not NOT_CALLS.fullmatch(name):
            wrong.append(f"MPI_{name} may block and is not in the table")
    return wrong


def header_check(path: Path, rows: dict[str, Row], building: bool) -> list[str]:
    calls = prototypes_read(path)
    if len(calls) < 300:
        print(f"{path}: only {len(calls)} prototypes could be read")
        return [] if building else [f"{path} could not be read"]
    wrong = arguments_check(calls, rows) + signature_check(calls, rows)
    if not building:
        wrong += completeness_check(calls, rows)
    unknown = [name for name in rows if name not in calls]
    if not building:
        wrong += [f"MPI_{name} is not there, the table does not say NEWER" for name in unknown if not rows[name].newer]
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
