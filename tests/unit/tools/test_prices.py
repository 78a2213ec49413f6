"""The site's prices and emissions of energy: the file, and what report, top and check make of it."""

from __future__ import annotations

import argparse
import csv
import io
import json
import pathlib
import re
from typing import Any

import pytest
from mpi_wait_tools.meaning.bill import bill_line, mass, money
from mpi_wait_tools.record.record import parse_record
from mpi_wait_tools.site import tariff
from mpi_wait_tools.site.tariff import FILE, NO_TARIFF, Tariff, parse_tariff, tariff_of
from mpi_wait_tools.text.output import Refusal

from tests.lib.doubles.check_double import Machine
from tests.lib.doubles.report_double import Report, make_record, make_row, refused, shown

SITE = {"price_per_kwh": 0.25, "currency": "EUR", "co2_g_per_kwh": 350, "pue": 1.3}
MADE_OF = "at 0.25 EUR/kWh, 350 g CO2/kWh, PUE 1.3"
KWH = 3.6e6


class Top(Report):
    command = "top"


@pytest.fixture
def report(tmp_path: pathlib.Path) -> Report:
    (tmp_path / "site.json").write_text(json.dumps(SITE))
    return Report(tmp_path)


def site(report: Report) -> tuple[str, str]:
    return "--site", str(report.folder / "site.json")


def used(kwh: float, **changes: Any) -> dict[str, Any]:
    record = make_record()
    energy = record["mpi_wait"]["energy"]
    energy.update(joules=kwh * KWH, source="rapl", scope="node", **changes)
    del energy["node_joules"]
    return record


GPUS = {"given": 1, "counted": 1, "present": 1, "source": "nvml", "why": "",
        "devices": [{"node": "n1", "number": 0, "name": "H100", "joules": KWH}]}
SAVED = {"percent": 10.0, "error": 1.0, "looks": 40, "look_w": 200, "beside_w": 180}


def line(record: dict[str, Any], **figures: Any) -> str:
    return bill_line(parse_tariff(json.dumps(figures or SITE)), parse_record(record["mpi_wait"]))


@pytest.mark.parametrize("record,words", [
    (used(10), "3.25 EUR, 4.55 kg CO2"),
    (used(10, saved=SAVED), f"3.25 EUR, 4.55 kg CO2, {MADE_OF}; sleeping saved 0.361 EUR, 506 g CO2"),
    (used(10, saved={**SAVED, "percent": 0.5}), f"3.25 EUR, 4.55 kg CO2, {MADE_OF}"),
    (used(10, gpus=GPUS, gpu_joules=10 * KWH), "6.50 EUR, 9.10 kg CO2, with its GPUs"),
    (used(10, nodes=1), "3.25 EUR, 4.55 kg CO2 on 1 of 2 nodes"),
    (used(10, not_counted=["gpus"]), "3.25 EUR, 4.55 kg CO2, without GPUs that were not counted"),
])
def test_the_line_of_a_report(record: dict[str, Any], words: str) -> None:
    found = line(record)
    assert found == (words if MADE_OF in words else f"{words}, {MADE_OF}")


def test_what_the_line_is_of() -> None:
    share = used(10)
    share["mpi_wait"]["energy"].update(scope="share")
    assert line(share) == f"3.25 EUR, 4.55 kg CO2 for the job's share, {MADE_OF}"
    gpus = used(10)
    gpus["mpi_wait"]["energy"].update(scope="gpus", source="nvml", gpus=GPUS, gpu_joules=10 * KWH)
    assert line(gpus) == f"3.25 EUR, 4.55 kg CO2 for the job's GPUs alone, {MADE_OF}"


@pytest.mark.parametrize("figures,words", [
    ({"co2_g_per_kwh": 350}, "3.50 kg CO2, at 350 g CO2/kWh"),
    ({"price_per_kwh": 0.25, "currency": "€"}, "2.50 €, at 0.25 €/kWh"),
    ({"pue": 1.3}, ""),
    ({"price_per_kwh": 0, "currency": "EUR"}, "0.00 EUR, at 0 EUR/kWh"),
])
def test_each_figure_is_optional_and_none_has_a_default(figures: dict[str, Any], words: str) -> None:
    assert line(used(10), **figures) == words


def test_no_bill_without_the_jobs_energy() -> None:
    partial, none = used(10), used(10)
    partial["mpi_wait"]["nodes"] = {"reported": 1, "of": 2}
    none["mpi_wait"].update(energy=None, energy_why="no powercap zones")
    assert line(partial) == "" and line(none) == ""
    assert bill_line(NO_TARIFF, parse_record(used(10)["mpi_wait"])) == ""


@pytest.mark.parametrize("amount,words", [(0.0, "0.00"), (1234.567, "1234.57"), (0.999, "1.00"), (0.0412, "0.0412"),
                                          (0.00025188, "0.000252"), (-0.25, "-0.250")])
def test_money(amount: float, words: str) -> None:
    assert money(amount) == words


@pytest.mark.parametrize("grams,words", [(57.94, "57.9 g"), (1234.0, "1.23 kg"), (999_999.0, "1.00 t"),
                                         (5e9, "5000 t")])
def test_mass(grams: float, words: str) -> None:
    assert mass(grams) == words


@pytest.mark.parametrize("text,why", [
    ('{"prize_per_kwh": 1}', "unknown key 'prize_per_kwh', did you mean 'price_per_kwh'?"),
    ('{"x": 1}', r"unknown key 'x' \(accepted: price_per_kwh, currency, co2_g_per_kwh, pue\)"),
    ('{"pue": 0.9}', "'pue' is not a number from 1 to 10"),
    ('{"pue": true}', "'pue' is not a number"), ('{"pue": "1.3"}', "'pue' is not a number"),
    ('{"pue": NaN}', "NaN is no number"), ('{"pue": 1e999}', "'pue' is not a number from 1 to 10"),
    ('{"co2_g_per_kwh": -1}', "'co2_g_per_kwh' is not a number from 0 to 5000"),
    ('{"price_per_kwh": 1}', "'price_per_kwh' and 'currency' go together"),
    ('{"currency": "EUR"}', "'price_per_kwh' and 'currency' go together"),
    ('{"price_per_kwh": 1e7, "currency": "EUR"}', "'price_per_kwh' is not a number from 0 to 1e"),
    *((json.dumps({"price_per_kwh": 1, "currency": currency}), "'currency' is not 1 to 8 letters")
      for currency in ("", "=1+1", "EUR\n", "EUROPEANS", "\u001b[2J", 5, None)),
    ('{"pue": 1, "pue": 2}', "'pue' is given twice"), ("[]", "is not a JSON object"), ("", "is no JSON"),
    ("{" * 4000, "is no JSON"), ("[" * 4096, "is no JSON"), (" " * 5000, "is larger than 4096 characters"),
    ('{"\\u001b[2J": 1}', r"unknown key '\\x1b\[2J'"),
])
def test_a_wrong_file_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(Refusal, match=why):
        parse_tariff(text)


def test_a_right_file() -> None:
    assert parse_tariff(json.dumps(SITE)) == Tariff(0.25, "EUR", 350.0, 1.3)
    assert parse_tariff("{}") == NO_TARIFF


def ask(report: Report, *words: str, record: dict[str, Any] | None = None) -> str:
    return shown(report("123", *words, rows=[make_row(json.dumps(record or used(10)))]))


def test_the_report_has_a_line_and_without_figures_none(report: Report) -> None:
    assert f"Price 3.25 EUR, 4.55 kg CO2, {MADE_OF}" in " ".join(ask(report, *site(report)).split())
    assert "EUR" not in ask(report) and "CO2" not in ask(report)
    (report.folder / "site.json").write_text('{"co2_g_per_kwh": 350}')
    assert re.search(r"^  CO2      3\.50 kg CO2, at 350 g CO2/kWh$", ask(report, *site(report)), re.M)


def test_a_simulated_energy_has_a_simulated_price(report: Report) -> None:
    record = used(10)
    record["mpi_wait"]["energy"]["source"] = "simulated"
    words = " ".join(ask(report, *site(report), "--width", "120", record=record).split())
    assert f"{MADE_OF} simulated, not measured" in words
    ask(report, *site(report), "--html", str(report.folder / "page.html"), record=record)
    assert f"{MADE_OF}; simulated, not measured" in (report.folder / "page.html").read_text()


def test_csv_json_and_page(report: Report) -> None:
    record = used(10, saved=SAVED)
    rows = csv.DictReader(io.StringIO(ask(report, *site(report), "--csv", record=record)))
    figures = {row["measure"]: (float(row["value"]), row["unit"]) for row in rows
               if row["measure"] in ("price", "co2", "saved_price", "saved_co2")}
    assert figures == {"price": (3.25, "EUR"), "co2": (4550, "g"),
                       "saved_price": (pytest.approx(0.3611, abs=1e-4), "EUR"),
                       "saved_co2": (pytest.approx(505.56, abs=0.01), "g")}
    bill = json.loads(ask(report, *site(report), "--json", record=record))["bill"]
    assert (bill["price"], bill["co2_g"], bill["currency"], bill["pue"]) == (3.25, 4550, "EUR", 1.3)
    assert "bill" not in json.loads(ask(report, "--json")) and "price" not in ask(report, "--csv")
    ask(report, *site(report), "--html", str(report.folder / "page.html"))
    assert f"3.25 EUR, 4.55 kg CO2, {MADE_OF}" in (report.folder / "page.html").read_text()


def test_a_step_has_the_price_of_its_own_energy(report: Report) -> None:
    record = used(10, saved=SAVED)
    record["mpi_wait"]["steps"][0]["joules"] = KWH
    text = " ".join(shown(report("123.0", *site(report), rows=[make_row(json.dumps(record))])).split())
    assert f"0.325 EUR, 455 g CO2, {MADE_OF}" in text and "saved 0" not in text


def test_a_named_file_that_cannot_be_used_is_refused(report: Report) -> None:
    row = [make_row(json.dumps(used(10)))]
    assert refused(report("123", "--site", "/none.json", rows=row)) == "mpi-wait: '/none.json': does not exist\n"
    (report.folder / "site.json").write_text('{"pu": 1.3}')
    assert "unknown key 'pu', did you mean 'pue'?" in refused(report("123", *site(report), rows=row))


def test_a_wrong_file_of_the_site_costs_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path
) -> None:
    """No user can mend it, so no report fails of it."""
    monkeypatch.setattr(tariff, "FILE", str(tmp_path / "site.json"))
    asked = argparse.Namespace(site=None)
    assert tariff_of(asked) == NO_TARIFF and capsys.readouterr().err == ""
    (tmp_path / "site.json").write_text('{"pue": 0}')
    assert tariff_of(asked) == NO_TARIFF
    said = capsys.readouterr().err
    assert said == f"mpi-wait: '{tmp_path}/site.json': 'pue' is not a number from 1 to 10; no prices are shown\n"
    (tmp_path / "site.json").write_text(json.dumps(SITE))
    assert tariff_of(asked) == Tariff(0.25, "EUR", 350.0, 1.3) and capsys.readouterr().err == ""


def top_rows() -> list[dict[str, str]]:
    unknown = make_record()
    unknown["mpi_wait"].update(energy=None, energy_why="no powercap zones")
    records = (used(10), used(30, gpus=GPUS, gpu_joules=10 * KWH), unknown)
    return [make_row(json.dumps(record), JobID=str(101 + place), JobIDRaw=str(101 + place), Account="a", Partition="p",
                     User="ada") for place, record in enumerate(records)]


def test_top_has_columns(report: Report) -> None:
    top = Top(report.folder)

    def ask_top(*words: str) -> str:
        return shown(top(*words, rows=top_rows(), latest=3))

    text = ask_top(*site(report), "--width", "160")
    assert re.search(r"^  job .* energy +EUR +CO2 ", text, re.M)
    assert re.search(r"^  101 .* 3\.25 +4\.55 kg ", text, re.M)
    assert re.search(r"^  102 .* 13\.00 +18\.2 kg ", text, re.M) and re.search(r"^  103 .* – +– +– ", text, re.M)
    assert f"16.25 EUR, 22.8 kg CO2 for the energy that is known, {MADE_OF}" in " ".join(text.split())
    assert "CO2" not in ask_top("--width", "160")
    answer = json.loads(ask_top(*site(report), "--json"))["rows"]
    assert {row["name"]: (row["price"], row["co2_g"], row["currency"]) for row in answer} == {
        "101": (3.25, 4550.0, "EUR"), "102": (13.0, 18200.0, "EUR"), "103": (None, None, "EUR")}
    assert {row["price"] for row in json.loads(ask_top("--json"))["rows"]} == {None}


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def finding(machine: Machine, text: str | None, mode: int = 0o644) -> tuple[str, str]:
    if text is not None:
        machine.write(FILE, text, mode)
    found = machine.named("prices")
    return (found[0].status.value, found[0].what) if found else ("", "")


def test_check_reads_the_file(machine: Machine) -> None:
    assert finding(machine, None) == ("", "")
    assert finding(machine, json.dumps(SITE)) == ("OK", f"{MADE_OF[3:]}, by '{FILE}'")


@pytest.mark.parametrize("text,mode,what", [
    ('{"pu": 1.3}', 0o644, f"'{FILE}': unknown key 'pu', did you mean 'pue'?"),
    ('{"pue": 1.3}', 0o644, "has neither price_per_kwh nor co2_g_per_kwh"),
    (json.dumps(SITE), 0o666, "has mode 0666"), (json.dumps(SITE), 0o600, "has mode 0600: users cannot read it"),
])
def test_check_warns_of_a_file_that_reports_cannot_use(machine: Machine, text: str, mode: int, what: str) -> None:
    status, said = finding(machine, text, mode)
    assert status == "WARN" and what in said


def test_brief_has_no_prices(report: Report) -> None:
    assert "--brief shows no prices" in refused(report("--brief", *site(report)), status=2)
