"""Reads the site's price of energy, its emissions and its PUE from /etc/mpi-wait/site.json. No figure has a default."""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import dataclass, fields
from typing import Any

from ..text.output import Refusal
from ..text.units import safe
from .host import Host

FILE = "/etc/mpi-wait/site.json"
BYTES_MAX = 4096
CURRENCY = re.compile(r"[A-Za-z]{1,8}|[$€£¥₩₹₺₽₴]")
# The range of each number.
RANGES = {"price_per_kwh": (0.0, 1e6), "co2_g_per_kwh": (0.0, 5000.0), "pue": (1.0, 10.0)}


@dataclass(frozen=True)
class Tariff:
    """The site's figures; None or "" if the file does not have one."""

    price_per_kwh: float | None = None
    currency: str = ""
    co2_g_per_kwh: float | None = None
    pue: float | None = None


NO_TARIFF = Tariff()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise Refusal(f"'{safe(twice[0])}' is given twice")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise Refusal(f"{name} is no number")


def _known(key: str) -> None:
    names = [field.name for field in fields(Tariff)]
    if key in names:
        return
    from difflib import get_close_matches

    near = get_close_matches(key[:64], names, 1)
    hint = f", did you mean '{near[0]}'?" if near else ""
    raise Refusal(f"unknown key '{safe(key)}'{hint} (accepted: {', '.join(names)})")


def _number(key: str, value: Any) -> float:
    least, most = RANGES[key]
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise Refusal(f"'{key}' is not a number from {least:g} to {most:g}")
    return float(value)


def parse_tariff(text: str) -> Tariff:
    """Parses the file's text. Raises Refusal, in a sentence that does not name the file."""
    if len(text) > BYTES_MAX:
        raise Refusal(f"is larger than {BYTES_MAX} characters")
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"is no JSON: {str(error)[:100]}") from None
    if not isinstance(value, dict):
        raise Refusal("is not a JSON object")
    for key in value:
        _known(key)
    currency = value.get("currency", "")
    if "currency" in value and not (isinstance(currency, str) and CURRENCY.fullmatch(currency)):
        raise Refusal("'currency' is not 1 to 8 letters, or one sign such as €")
    if ("price_per_kwh" in value) != ("currency" in value):
        raise Refusal("'price_per_kwh' and 'currency' go together")
    return Tariff(currency=currency, **{key: _number(key, value[key]) for key in RANGES if key in value})


def read_tariff(host: Host, path: str = FILE) -> Tariff | None:
    """Reads the file; None if it does not exist. Raises Refusal if it cannot be used."""
    try:
        text = host.text(path)
    except OSError as error:
        raise Refusal(f"cannot be read: {error.strerror}") from None
    return parse_tariff(text) if text is not None else None


def add_tariff_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--site", metavar="FILE", help=f"prices and emissions of energy (default: {FILE})")


def tariff_of(arguments: argparse.Namespace) -> Tariff:
    """Returns the figures of the file that the user names, or of the site's; none of them if that does not exist.

    Raises Refusal for a file that the user named. A site's file that is wrong costs one line on standard error: no
    report fails of it.
    """
    path = arguments.site or FILE
    try:
        found = read_tariff(Host(), path)
        if found is None and arguments.site:
            raise Refusal("does not exist")
        return found or NO_TARIFF
    except Refusal as refusal:
        problem = f"'{safe(path, 200)}': {refusal}"
        if arguments.site:
            raise Refusal(problem) from None
        print(f"mpi-wait: {problem}; no prices are shown", file=sys.stderr)
        return NO_TARIFF
