"""Turns a job's energy into money and CO2, by the site's own figures, and puts both into words. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..record.energy import Energy
from ..record.record import Record, Step
from ..site.tariff import Tariff
from ..text.units import digits, plural, scaled
from .cost import saving_of

JOULES_PER_KWH = 3.6e6
TONNE_G = 1e6


@dataclass(frozen=True)
class Bill:
    """Money and CO2 of an energy; None if the site has no figure for it."""

    price: float | None
    co2_g: float | None

    @property
    def is_empty(self) -> bool:
        return self.price is None and self.co2_g is None


def bill_of(tariff: Tariff, joules: float) -> Bill:
    """Returns what joules at the nodes cost, with what the site's cooling and losses add by its PUE."""
    kwh = joules * (tariff.pue or 1.0) / JOULES_PER_KWH
    price, co2 = tariff.price_per_kwh, tariff.co2_g_per_kwh
    return Bill(None if price is None else kwh * price, None if co2 is None else kwh * co2)


def money(amount: float) -> str:
    """Returns two decimals from 1 on, and three significant digits below: 12.34, 0.0412."""
    size = abs(amount)
    if size >= 0.995 or size < 1e-9:
        return f"{amount:.2f}"
    return f"{amount:.{2 - math.floor(math.log10(size))}f}"


def mass(grams: float) -> str:
    """Returns "57.9 g", "1.23 kg", "1.23 t"."""
    return scaled(grams, "g") if abs(grams) < 0.9995 * TONNE_G else f"{digits(grams / TONNE_G)} t"


def bill_words(tariff: Tariff, bill: Bill) -> str:
    """Returns "0.0412 EUR, 57.9 g CO2"; "" if the site has no figures."""
    parts = [] if bill.price is None else [f"{money(bill.price)} {tariff.currency}"]
    return ", ".join(parts + ([] if bill.co2_g is None else [f"{mass(bill.co2_g)} CO2"]))


def made_of(tariff: Tariff) -> str:
    """Says by which figures a bill is made: "at 0.25 EUR/kWh, 350 g CO2/kWh, PUE 1.3"."""
    parts = [] if tariff.price_per_kwh is None else [f"{tariff.price_per_kwh:g} {tariff.currency}/kWh"]
    parts += [] if tariff.co2_g_per_kwh is None else [f"{tariff.co2_g_per_kwh:g} g CO2/kWh"]
    parts += [] if tariff.pue is None else [f"PUE {tariff.pue:g}"]
    return "at " + ", ".join(parts)


def billed_joules(energy: Energy) -> float:
    """Returns the job's joules, with those of its GPUs that were counted."""
    return energy.joules + (energy.gpu_joules or 0.0 if energy.scope != "gpus" else 0.0)


def saved_joules(record: Record) -> float | None:
    """Returns the joules that sleeping saved; None if that is not known, or if no saving is seen."""
    saved, energy = saving_of(record), record.energy
    if saved is None or energy is None or not saved.is_seen or saved.percent >= 100:
        return None
    return energy.joules * saved.percent / (100 - saved.percent)


@dataclass(frozen=True)
class JobBill:
    """The bill of a job or a step, and of what sleeping saved it."""

    used: Bill
    saved: Bill | None  # None if the saving is not known, or the bill is a step's


def job_bill(tariff: Tariff, record: Record, step: Step | None) -> JobBill | None:
    """Returns the bill; None if the site has no figures, or if the job's energy is not known or lacks nodes."""
    energy = record.energy
    joules = None if energy is None else billed_joules(energy) if step is None else step.joules
    if joules is None or not record.is_complete:
        return None
    used, saved = bill_of(tariff, joules), saved_joules(record) if step is None else None
    return None if used.is_empty else JobBill(used, None if saved is None else bill_of(tariff, saved))


def _scope(record: Record, energy: Energy, step: Step | None) -> str:
    """Names what the bill is of, unless that is all energy of whole nodes."""
    words = {"node": "", "gpus": " for the job's GPUs alone", "share": " for the job's share"}[energy.scope]
    if energy.nodes is not None and energy.nodes < record.nodes_of:
        words += f" on {energy.nodes} of {plural(record.nodes_of, 'node')}"
    with_gpus = step is None and energy.gpu_joules is not None and energy.scope != "gpus"
    words += ", with its GPUs" if with_gpus else ""
    return words + (", without GPUs that were not counted" if energy.lacks_gpus else "")


def bill_line(tariff: Tariff, record: Record, step: Step | None = None) -> str:
    """Returns the report's words: "0.0412 EUR, 57.9 g CO2 for the job's share, at 0.25 EUR/kWh, 350 g CO2/kWh; sleeping
    saved 0.0031 EUR, 4.4 g CO2". "" if there is no bill."""
    bill = job_bill(tariff, record, step)
    if bill is None or record.energy is None:
        return ""
    line = f"{bill_words(tariff, bill.used)}{_scope(record, record.energy, step)}, {made_of(tariff)}"
    return line + (f"; sleeping saved {bill_words(tariff, bill.saved)}" if bill.saved is not None else "")


def bill_json(tariff: Tariff, record: Record, step: Step | None) -> dict[str, float | str | None] | None:
    """Returns the bill for programs; None if there is none."""
    bill = job_bill(tariff, record, step)
    if bill is None:
        return None
    return {
        "price": bill.used.price,
        "co2_g": bill.used.co2_g,
        "saved_price": bill.saved.price if bill.saved else None,
        "saved_co2_g": bill.saved.co2_g if bill.saved else None,
        "currency": tariff.currency or None,
        "price_per_kwh": tariff.price_per_kwh,
        "co2_g_per_kwh": tariff.co2_g_per_kwh,
        "pue": tariff.pue,
    }
