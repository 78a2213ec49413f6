"""check: the line in plugstack.conf, the policies, and the plugin's files: plugin, library and helper must exist, be
safe from users, and be of one release. Also: programs in containers must get the library."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from typing import Any

from .. import __version__
from ..site.elf_note import read_note
from ..site.files import hidden_from_users, writable_by_others
from ..site.host import Host
from ..site.slurm import NAME, Line, Plugstack, Slurm, major, read_plugstack, release_of
from ..text.units import safe
from .finding import Finding, fail, not_seen, ok, warn

HELPER = "mpi-wait-node"
HALVES = ("plugin", "library")  # the two parts that map a step's stats segment, and must agree on its layout
PROBE_KEYS = {"release", "node", "library", "policies", "policies_directory", "left_out", "energy"}
USAGE = 64  # the helper's exit status for wrong arguments
SHARE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))  # PREFIX/share/mpi-wait
MOVERS = re.compile("pyxis|enroot|shifter|singularity|apptainer|charliecloud|sarus|podman|container", re.I)
CONFIGURATIONS = tuple(f"{place}/{name}/{name}.conf" for place in ("/etc", "/usr/local/etc")
                       for name in ("apptainer", "singularity"))
FILES_SHOWN = 4


@dataclass
class Installation:
    """The installation on this host, as check_plugin() found it for the checks after it."""

    findings: list[Finding] = field(default_factory=list)
    line: Line | None = None  # our line in plugstack.conf
    site: dict[str, str] | None = None  # the line's arguments, None without a valid line
    helper: str = ""  # path of mpi-wait-node, "" if it did not answer
    probe: dict[str, Any] | None = None  # the helper's answer, None without one


def _no_line(slurm: Slurm, stack: Plugstack) -> Finding:
    do = "add the last line of share/doc/spank-mpi-wait/zz-mpi-wait.conf to it, and restart the slurmds"
    if not slurm.plugstack:
        return not_seen("plugstack line", "neither slurmctld nor a slurm.conf said where plugstack.conf is", do)
    if stack.problems:
        place, what = stack.problems[0]
        return not_seen("plugstack line", f"'{safe(place, 400)}' {what}", "run 'mpi-wait check' as root")
    return fail(
        "plugstack line",
        f"no line of '{safe(slurm.plugstack, 400)}' or of what it includes names spank_mpi_wait.so",
        "Slurm does not load the plugin on this host: srun here does not know --mpi-wait-policy",
        do,
    )


def _problem(place: str, what: str) -> Finding:
    return fail(
        "plugstack line",
        f"{safe(place, 400)} {safe(what, 400)}",
        "Slurm does not see the line as it was meant",
        "mend it: write 'optional /absolute/path/spank_mpi_wait.so ARGUMENT=VALUE ...'",
    )


def _lines(stack: Plugstack) -> list[Finding]:
    line = stack.lines[0]
    found = [_problem(place, what) for place, what in stack.problems]
    if len(stack.lines) > 1:
        places = ", ".join(safe(one.place, 200) for one in stack.lines[:4])
        same = len({one.path for one in stack.lines}) == 1
        means = "only the first one counts" if same else "Slurm loads the plugin twice"
        found.append(fail("plugstack line", f"there are {len(stack.lines)}: {places}", means, "leave one of them"))
    if line.kind == "required":
        found.append(
            warn(
                "plugstack line",
                f"{safe(line.place, 400)} says 'required'",
                "a plugin that cannot be loaded then fails every job and drains nodes",
                "write 'optional'",
            )
        )
    if not line.path.startswith("/"):
        found.append(
            warn(
                "plugstack line",
                f"{safe(line.place, 400)} names '{safe(line.path, 400)}', which is no absolute path",
                "Slurm looks for it in PluginDir, of whichever Slurm comes first",
                "write the absolute path",
            )
        )
    if [word for word in line.words if word.startswith("grant=")][-1:] == ["grant=file"]:
        found.append(
            warn(
                "plugstack line",
                f"{safe(line.place, 400)} says 'grant=file'",
                "it trusts the users of such jobs until the node is booted again: a frequency file that one of them"
                " keeps open can be written after the job's end",
                "use grant=lease, which serves mpirun's ranks too, unless users' own tools need the files",
            )
        )
    return found or [ok("plugstack line", f"{safe(line.place, 400)}, optional")]


def _changeable(host: Host, name: str, path: str) -> Finding | None:
    who = writable_by_others(host, path)
    if not who:
        return None
    return fail(
        name,
        who,
        f"users who can write there decide what root runs as '{safe(path, 400)}'",
        "give it to root and take write permission from everybody else (chown root, chmod go-w)",
    )


def _installed_object(host: Host, name: str, path: str, means: str) -> tuple[list[Finding], dict[str, str]]:
    """Checks a shared object that root or jobs load. Returns the findings and the entries of its ELF note."""
    do = "install it here at the same path as on the other nodes, from the same package or by meson install"
    try:
        status = host.status(path)
        note = read_note(host.at(path)) if status is not None else None
    except OSError as error:
        what = f"'{safe(path, 400)}' cannot be read: {error.strerror}"
        return [fail(name, what, means, "chmod 0755 the file and the folders above it")], {}
    if status is None:
        return [fail(name, f"'{safe(path, 400)}' does not exist", means, do)], {}
    if note is None:
        return [fail(name, f"'{safe(path, 400)}' is not ours: it says no release", means, do)], {}
    hidden = hidden_from_users(host, path)
    if hidden:
        return [fail(name, f"{hidden}: users cannot read it", means, "chmod 0755 it")], note
    changeable = _changeable(host, name, path)
    return [changeable or ok(name, f"{safe(note.get('release', '?'))}, '{safe(path, 400)}'")], note


def _built_for(slurm: Slurm, note: dict[str, str]) -> list[Finding]:
    """Compares the plugin's Slurm release with Slurm's own. Slurm skips an optional plugin that does not match, and
    says so in a debug line only."""
    built = release_of(note.get("slurm", "")).rpartition(".")[0]
    if not slurm.release or not built:
        return []
    if major(slurm.release) == major(built):
        return [ok("built for", f"Slurm {built}")]
    return [
        fail(
            "built for",
            f"Slurm {built}, but this is {slurm.release}",
            "Slurm passes over a plugin that was built for another release of it, and says so in debug logs only",
            "build and install it anew with this release's headers",
        )
    ]


def _releases(parts: dict[str, dict[str, Any]]) -> Finding:
    """Compares the releases and segment versions: two builds of one release may lay the stats segment out
    differently."""
    releases = {name: safe(str(part.get("release", "none"))) for name, part in parts.items()}
    layouts = {name: safe(str(parts[name].get("segment", "none"))) for name in HALVES if name in parts}
    if len(set(releases.values())) == 1 and len(set(layouts.values())) <= 1:
        layout = "".join(f", segment version {version}" for version in set(layouts.values()))
        return ok("releases", f"all of {next(iter(releases.values()))}{layout}: {', '.join(parts)}")
    said = {name: f"{name} {release}" for name, release in releases.items()}
    said |= {name: f"{said[name]} with segment version {version}" for name, version in layouts.items()}
    return fail(
        "releases",
        ", ".join(said.values()),
        "the halves of the plugin do not fit: jobs may run without a policy, or records lack their waits",
        "install one release whole, on every node, and let running jobs end",
    )


def _find_helper(host: Host, note: dict[str, str]) -> str:
    beside = os.path.join(os.path.dirname(os.path.dirname(SHARE)), "sbin", HELPER)
    for path in (note.get("helper", ""), beside, f"/usr/sbin/{HELPER}"):
        if path.startswith("/") and host.status(path) is not None:
            return path
    return ""


def _ask_helper(host: Host, path: str, words: list[str]) -> tuple[dict[str, Any] | None, str, bool]:
    """Asks the helper to probe the host. Returns its answer, its error message, and if that is about the words."""
    ran = host.run([host.at(path), "probe", "--", *words])
    _, about_words, said = ran.problem.partition(": plugstack.conf: ")
    if ran.status == USAGE and about_words:
        return None, said.replace(f"; see {HELPER} --help", ""), True
    try:
        answer = json.loads(ran.out) if ran.done else None
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or not set(answer) >= PROBE_KEYS:
        return None, ran.problem or "its answer is not understood: is it of this release?", False
    return answer, "", False


def _helper(host: Host, installation: Installation, note: dict[str, str]) -> None:
    path = _find_helper(host, note)
    wanted = note.get("helper", HELPER)
    if not path and not installation.line:
        installation.findings.append(not_seen("helper", "nothing of this plugin is installed here", "install it"))
        return
    if not path:
        installation.findings.append(
            fail("helper", f"'{safe(wanted, 400)}' does not exist", "records are not handed on from this node",
                 "install it here at the same path as on the other nodes, from the same package or by meson install")
        )
        return
    changeable = _changeable(host, "helper", path)
    if changeable:
        installation.findings.append(changeable)
        return
    words = installation.line.words if installation.line else []
    probe, said, refused = _ask_helper(host, path, words)
    if refused:
        installation.findings.append(
            fail("arguments", said, "the plugin does nothing at all, and one line in slurmd's log says so",
                 "mend the arguments; spank-mpi-wait(8) has the list")
        )
        probe, said, _ = _ask_helper(host, path, [])
    elif installation.line:
        shown = " ".join(words) or "none"
        installation.findings.append(ok("arguments", safe(shown, 400)))
        installation.site = dict(word.split("=", 1) for word in words if "=" in word)
    if probe is None:
        installation.findings.append(
            fail("helper", f"'{safe(path, 400)}': {safe(said, 400)}", "records are not handed on from this node",
                 "mend the cause that it names")
        )
        return
    installation.findings.append(ok("helper", f"{safe(str(probe.get('release')))}, '{safe(path, 400)}'"))
    installation.helper, installation.probe = path, probe


def _slurmds(host: Host) -> list[str]:
    """Returns the memory maps of each slurmd. Skips a child of slurmd that ends, or becomes slurmstepd, meanwhile."""
    found = []
    for number in host.names("/proc") or []:
        if number.isdigit() and host.line(f"/proc/{number}/comm") == "slurmd":
            maps = host.text(f"/proc/{number}/maps")
            if maps and host.line(f"/proc/{number}/comm") == "slurmd":
                found.append(maps)
    return found


def _loaded(host: Host) -> Finding:
    """Checks that slurmd has loaded the plugin. A slurmd that started before our line was there runs no prolog and no
    epilog of ours."""
    try:
        slurmds = _slurmds(host)
    except PermissionError:
        return not_seen("slurmd", "only root can see whether it has loaded the plugin", "run 'mpi-wait check' as root")
    if not slurmds:
        return ok("slurmd", "none runs here: jobs can be submitted, but do not run")
    if all(f"/{NAME}" in maps for maps in slurmds):
        return ok("slurmd", "has loaded the plugin")
    return fail(
        "slurmd",
        "has not loaded the plugin: it was started before the line was there, or could not load it",
        "jobs here have no prolog and epilog of ours: they leave no record",
        "restart slurmd (running jobs stay), and see its log if this stays",
    )


def _plugin(host: Host, slurm: Slurm, stack: Plugstack, installation: Installation) -> dict[str, str]:
    """Checks the line, the files and the plugin; returns the entries of the plugin's ELF note."""
    line = installation.line = stack.lines[0]
    installation.findings += [*_lines(stack), *check_order(stack)]
    changeable = [_changeable(host, "plugstack.conf", file) for file in stack.files]
    installation.findings += [finding for finding in changeable if finding]
    folder = slurm.settings.get("plugindir", "").split(":")[0] or "/usr/lib/slurm"
    found, note = _installed_object(
        host, "plugin", os.path.join(folder, line.path), "Slurm passes over the line: there is no --mpi-wait-policy"
    )
    installation.findings += [*found, *_built_for(slurm, note), _loaded(host)]
    return note


def _library(host: Host, path: str, installation: Installation) -> dict[str, str]:
    means = "jobs under a policy start without it: nothing waits more cheaply, and nothing is measured"
    found, note = _installed_object(host, "library", path, means)
    installation.findings += found
    return note


def check_plugin(host: Host, slurm: Slurm) -> Installation:
    installation = Installation()
    stack = read_plugstack(host, slurm.plugstack) if slurm.plugstack else Plugstack()
    plugin: dict[str, str] = {}
    library: dict[str, str] = {}
    if stack.lines:
        plugin = _plugin(host, slurm, stack, installation)
    elif slurm.there or slurm.plugstack:
        unreadable = any("cannot be read" in what for _, what in stack.problems)
        problems = [] if unreadable else [_problem(*problem) for problem in stack.problems]
        installation.findings += problems or [_no_line(slurm, stack)]
    _helper(host, installation, plugin)
    helper = installation.probe or {}
    path = plugin.get("library", "") or str(helper.get("library", ""))
    if path:
        library = _library(host, path, installation)
        installation.findings += check_runtimes(host, path)
    parts = {"plugin": plugin, "library": library, "helper": helper}
    there = {name: part for name, part in parts.items() if part}
    if there:
        installation.findings.append(_releases({"mpi-wait": {"release": __version__}, **there}))
    return installation


def check_order(stack: Plugstack) -> list[Finding]:
    """Warns of container plugins behind our line: their tasks enter the container after the library was named."""
    movers = [line for line in stack.behind if MOVERS.search(os.path.basename(line.path))]
    if not movers:
        return []
    shown = ", ".join(f"{safe(os.path.basename(line.path), 100)} ({safe(line.place, 200)})" for line in movers[:4])
    return [
        warn(
            "plugstack order",
            f"our line stands before {shown}",
            "tasks enter their container after the plugin has named the library: each task is handed a descriptor of it"
            " instead of the path, whether it enters one or not",
            "put our line behind it; of included files, zz-mpi-wait.conf comes late",
        )
    ]


def _binds(text: str, folder: str) -> bool:
    """Returns True if a line of the configuration binds the folder, or one above it, at the same path in containers."""
    for source, _, rest in (path.partition(":") for path in re.findall(r"^\s*bind path\s*=\s*(\S+)", text, re.M)):
        target = rest.partition(":")[0] or source
        if source == target and f"{folder}/".startswith(f"{source.rstrip('/')}/"):
            return True
    return False


def check_runtimes(host: Host, library: str) -> list[Finding]:
    """Warns of container runtimes on this host that hand LD_PRELOAD on but hide the library from the container."""
    folder, found = os.path.dirname(library), []
    for file in CONFIGURATIONS:
        try:
            text = host.text(file)
        except PermissionError:
            found.append(not_seen("containers", f"'{file}' is not readable", "run 'mpi-wait check' as root"))
            continue
        if text is not None and not _binds(text, folder):
            found.append(
                warn(
                    "containers",
                    f"'{file}' has no 'bind path = {safe(folder, 400)}'",
                    "programs in containers that a script starts run without the policy, and ld.so prints a line for"
                    " each",
                    f"add 'bind path = {safe(folder, 400)}' to it",
                )
            )
    return found


def _policy_names(host: Host, directory: str) -> list[str]:
    """Returns the names of the policies that have a file, valid or not."""
    names = host.names(directory) if directory else None
    return [name[:-5] for name in names or [] if name.endswith(".json") and "." not in name[:-5]]


def _policy_directory(host: Host, name: str, directory: str) -> list[Finding]:
    names = host.names(directory)
    if names is None:
        return [
            fail(
                name,
                f"'{safe(directory, 400)}' is no directory",
                "none of its policies exists: a job that asks for one is refused",
                "make it, or mend policies= on the plugstack line",
            )
        ]
    for path in [directory, *(f"{directory}/{one}" for one in names if one.endswith(".json"))]:
        who = writable_by_others(host, path)
        if who:
            return [
                fail(
                    name,
                    who,
                    "users who can write there decide how everybody's jobs wait",
                    "give it to root and take write permission from everybody else (chown root, chmod go-w)",
                )
            ]
    return []


def _refused_policies(host: Host, probe: dict[str, Any], directories: list[str]) -> list[Finding]:
    """Returns a failure if the helper left policy files out. The helper names only the first one; the others have a
    file, but are not in its list."""
    loaded = {policy["name"] for policy in probe["policies"]}
    missing = sorted({name for directory in directories for name in _policy_names(host, directory)} - loaded)
    first = str(probe["left_out"])
    if not first and not missing:
        return []
    others = [name for name in missing if f"/{name}.json'" not in first]
    more = f"; also {', '.join(safe(name) for name in others[:FILES_SHOWN])}" if others else ""
    return [
        fail(
            "policy files",
            f"{safe(first, 500)}{more}",
            "a job that asks for such a policy is refused",
            "mend the file (mpi-wait-policy-file(5) has the rules), or take it away",
        )
    ]


def _named_policies(probe: dict[str, Any], site: dict[str, str]) -> list[Finding]:
    """Checks that default= and allow= name policies that exist."""
    known = {policy["name"] for policy in probe["policies"]}
    found = []
    default = site.get("default", "off")
    if default == "off" and site.get("allow") == "off":
        found.append(ok("kill switch", "default=off allow=off: the site has switched wait policies off"))
    if default not in known:
        found.append(
            fail(
                "default",
                f"'{safe(default)}' is no policy of this host",
                "jobs that do not ask run without any policy",
                f"name one of {', '.join(sorted(known))}",
            )
        )
    unknown = [name for name in site.get("allow", "").split(",") if name and name not in known]
    if unknown:
        found.append(
            warn(
                "allow",
                f"{', '.join(safe(name) for name in unknown[:FILES_SHOWN])}: no policy of this host",
                "nobody can use what does not exist",
                f"leave it out, or name one of {', '.join(sorted(known))}",
            )
        )
    return found


def _programs(host: Host, probe: dict[str, Any], path: str) -> list[Finding]:
    """Checks the site's file of policies by program, as the helper has read it."""
    programs, who = probe.get("programs"), writable_by_others(host, path)
    if not isinstance(programs, dict):
        return [not_seen("programs", "mpi-wait-node does not say how it reads programs=", "install one release")]
    if programs["why"]:
        return [
            fail(
                "programs",
                safe(str(programs["why"]), 500),
                "no program has a policy of its own, and each step's start logs this",
                "mend the file (spank-mpi-wait(8) has its form)",
            )
        ]
    if who:
        return [fail("programs", who, "users who can write there decide how everybody's jobs wait", "chmod go-w it")]
    return [ok("programs", f"{programs['names']} names of programs have a policy of their own")]


def _policy(policy: dict[str, Any], default: str) -> Finding:
    name, used = safe(str(policy["name"])), safe(str(policy["used"]))
    remarks = ["the default"] if name == default else []
    remarks += [] if policy["allowed"] else ["not allowed to users"]
    tail = f" ({', '.join(remarks)})" if remarks else ""
    if name == used:
        return ok(name, f"runs here{tail}")
    why = f": {safe(str(policy['why']))}" if policy["why"] else ""
    if not policy["why"]:
        return ok(name, f"stands for {used} here{tail}")
    if name != default:
        return ok(name, f"becomes {used} here{why}{tail}")
    return warn(
        name,
        f"becomes {used} here{why}{tail}",
        "jobs that do not ask get less than the site wanted, and their records say so",
        f"nothing, if that is intended; otherwise make {used} the default for such nodes",
    )


def check_policies(host: Host, probe: dict[str, Any] | None, site: dict[str, str]) -> list[Finding]:
    if probe is None:
        return [not_seen("policies", "only mpi-wait-node can read them, and it did not answer", "see 'helper'")]
    shipped, own = str(probe["policies_directory"]), site.get("policies", "")
    found = _policy_directory(host, "shipped", shipped)
    found += _policy_directory(host, "site's own", own) if own else []
    found += _refused_policies(host, probe, [own, shipped])
    hidden = sorted(set(_policy_names(host, own)) & set(_policy_names(host, shipped)))
    if hidden:
        found.append(ok("site's own", f"{', '.join(hidden[:FILES_SHOWN])} in place of the shipped"))
    found += _programs(host, probe, site["programs"]) if site.get("programs") else []
    default = site.get("default", "off")
    return found + _named_policies(probe, site) + [_policy(policy, default) for policy in probe["policies"]]
