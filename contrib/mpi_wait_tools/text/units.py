"""Numbers and foreign text for people.

Numbers have three significant digits and a unit. Foreign text keeps no character that a terminal obeys.
"""

from __future__ import annotations

import unicodedata

_PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"))


def digits(value: float) -> str:
    """Returns three significant digits without an exponent: 0.0123, 1.23, 12.3, 123, 1234."""
    if value == 0:
        return "0"
    size = abs(value)
    decimals = 0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3
    return f"{value:.{decimals}f}"


def scaled(value: float, unit: str) -> str:
    """Returns "1.23 kJ" for 1234 J. Beyond the last prefix the number grows."""
    if value == 0:
        return f"0 {unit}"
    for factor, prefix in _PREFIXES:
        if abs(value) >= factor * 0.9995:
            return f"{digits(value / factor)} {prefix}{unit}"
    return f"{digits(value / 1e-3)} m{unit}"


def _binary(size: int) -> str:
    """Returns a power of two in binary units: 512 B, 64 KiB."""
    for power, prefix in ((40, "Ti"), (30, "Gi"), (20, "Mi"), (10, "Ki")):
        if size >= 1 << power:
            return f"{size >> power} {prefix}B"
    return f"{size} B"


def bytes_class(least: int) -> str:
    """Names the class of sizes from least up: "64 to 127 B" for 64, "2 to 4 KiB" for 2048, "none" for 0."""
    if least < 2:
        return "1 B" if least else "none"
    if least < 1024:
        return f"{least} to {2 * least - 1} B"
    number, unit = _binary(least).split(" ")
    return f"{number} to {2 * int(number)} {unit}" if int(number) < 512 else f"{number} {unit} to {_binary(2 * least)}"


def sizes_line(sizes: dict[int, float]) -> str:
    """Names the sizes of calls: "64 to 127 B" if all are in one class, else from the least to the largest class."""
    classes = sorted(sizes)
    if not classes:
        return ""
    if len(classes) == 1:
        return bytes_class(classes[0])
    least = _binary(classes[0]) if classes[0] else "0 B"
    return f"{least} to {_binary(2 * classes[-1])}"


def watt_hours(joules: float) -> str:
    """Returns an energy in Wh, as electricity is billed: 0.132 Wh rather than 132 mWh."""
    hours = joules / 3600
    return f"{digits(hours)} Wh" if 0.01 <= hours < 1 else scaled(hours, "Wh")


def duration(seconds: float) -> str:
    """Returns a time as people say it: 850 µs, 12.3 ms, 42.0 s, 3 min 25 s, 2 h 05 min, 3 d 04 h."""
    if seconds == 0:
        return "0 s"
    if seconds < 0.9995e-3:
        return f"{digits(seconds * 1e6)} µs"
    if seconds < 0.9995:
        return f"{digits(seconds * 1e3)} ms"
    if seconds < 99.95:
        return f"{digits(seconds)} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = whole // 60
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = minutes // 60
    return f"{hours // 24} d {hours % 24:02d} h"


def clock(seconds: float | None) -> str:
    """Returns a time like sacct's Elapsed, without leading zeros: 0:25, 2:05:00, 3-04:00:00."""
    if seconds is None:
        return "–"
    minutes, whole = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}-{hours:02d}:{minutes:02d}:{whole:02d}"
    return f"{hours}:{minutes:02d}:{whole:02d}" if hours else f"{minutes}:{whole:02d}"


def rounded(value: float | None) -> float | None:
    """Rounds a number for programs to 12 digits: further digits of a sum depend on the order of its terms."""
    return None if value is None else float(f"{value:.12g}")


def core_time(seconds: float) -> str:
    """Returns time summed over ranks, one core each: a duration, or from a day on "319 k core h", as it is billed."""
    return duration(seconds) if seconds < 86400 else f"{scaled(seconds / 3600, '').strip()} core h"


def percent(fraction: float) -> str:
    """Returns a share of 1 in percent. Only 0 itself is "0 %"; a small share is "< 0.1 %"."""
    if fraction < 0:
        return f"−{percent(-fraction)}"
    value = fraction * 100
    if value == 0:
        return "0 %"
    if value < 0.1:
        return "< 0.1 %"
    return f"{value:.1f} %" if value < 9.95 else f"{value:.0f} %"


def count(number: int) -> str:
    """Returns "12.3 M" for 12345678. Up to five digits are written out."""
    return str(number) if abs(number) < 100_000 else scaled(float(number), "").strip()


def plural(number: int, noun: str) -> str:
    return f"{count(number)} {noun}" if number == 1 else f"{count(number)} {noun}s"


def safe(text: str, limit: int = 64) -> str:
    """Returns foreign text that a terminal can show: control and format characters are escaped. Cuts it at limit."""
    cut = text[:limit]
    shown = "".join(
        char if _harmless(char) else char.encode("unicode_escape").decode() for char in cut
    )
    return shown if len(text) <= limit else shown + "..."


def _harmless(char: str) -> bool:
    return char == " " or unicodedata.category(char)[0] in "LNPSM"
