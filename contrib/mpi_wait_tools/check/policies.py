"""check: the policies that this host has, and what becomes of each of them here."""

from __future__ import annotations

from typing import Any

from ..site.host import Host
from ..site.trust import writable_by_others
from ..text.units import safe
from .finding import Finding, fail, not_seen, ok, warn

FILES_SHOWN = 4


def _files(host: Host, directory: str) -> list[str]:
    """Names of policies for which there is a file, valid or not."""
    names = host.names(directory) if directory else None
    return [name[:-5] for name in names or [] if name.endswith(".json") and "." not in name[:-5]]


def _directory(host: Host, name: str, directory: str) -> list[Finding]:
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
                    "whoever can write there decides how everybody's jobs wait",
                    "give it to root and take write permission from everybody else (chown root, chmod go-w)",
                )
            ]
    return []


def _refused(host: Host, probe: dict[str, Any], directories: list[str]) -> list[Finding]:
    """The helper names the first file that it left out; that others are missing is seen from their names."""
    loaded = {policy["name"] for policy in probe["policies"]}
    missing = sorted({name for directory in directories for name in _files(host, directory)} - loaded)
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
            "mend the file (policies/README.md has the rules), or take it away",
        )
    ]


def _named(probe: dict[str, Any], site: dict[str, str]) -> list[Finding]:
    """default= and allow= must name what there is."""
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
        f"nothing, if that is well; otherwise make {used} the default for such nodes",
    )


def check_policies(host: Host, probe: dict[str, Any] | None, site: dict[str, str]) -> list[Finding]:
    if probe is None:
        return [not_seen("policies", "only mpi-wait-node can read them, and it did not answer", "see 'helper'")]
    shipped, own = str(probe["policies_directory"]), site.get("policies", "")
    found = _directory(host, "shipped", shipped)
    found += _directory(host, "site's own", own) if own else []
    found += _refused(host, probe, [own, shipped])
    hidden = sorted(set(_files(host, own)) & set(_files(host, shipped)))
    if hidden:
        found.append(ok("site's own", f"{', '.join(hidden[:FILES_SHOWN])} in place of the shipped"))
    return found + _named(probe, site) + [_policy(policy, site.get("default", "off")) for policy in probe["policies"]]
