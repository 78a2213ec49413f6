"""check: the site's prices and emissions of energy."""

from __future__ import annotations

from ..meaning.bill import made_of
from ..site.files import hidden_from_users, writable_by_others
from ..site.host import Host
from ..site.tariff import FILE, read_tariff
from ..text.output import Refusal
from .finding import Finding, ok, warn

NAME = "prices"


def check_tariff(host: Host) -> list[Finding]:
    """Checks the file of prices, as the reports read it. A site without one has no finding."""
    if host.status(FILE) is None:
        return []
    hidden = hidden_from_users(host, FILE)
    if hidden:
        return [warn(NAME, f"{hidden}: users cannot read it", "their reports show no prices", f"chmod 0644 {FILE}")]
    loose = writable_by_others(host, FILE)
    if loose:
        return [warn(NAME, loose, "whoever can write there decides what all reports say of prices",
                     f"chown root {FILE}; chmod 0644 {FILE}")]
    try:
        tariff = read_tariff(host)
    except Refusal as refusal:
        return [warn(NAME, f"'{FILE}': {refusal}", "reports show no prices, and say so each time", f"mend {FILE}")]
    if tariff is None or tariff.price_per_kwh is None and tariff.co2_g_per_kwh is None:
        return [warn(NAME, f"'{FILE}' has neither price_per_kwh nor co2_g_per_kwh", "reports show no prices",
                     "add one of them, or remove the file")]
    return [ok(NAME, f"{made_of(tariff)[3:]}, by '{FILE}'")]
