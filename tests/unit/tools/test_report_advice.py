"""mpi-wait report's advice: each sentence has a condition, and where that does not hold it is not said."""

from __future__ import annotations

import copy
import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from mpi_wait_tools.meaning.advice import EXCLUSIVE

from tests.lib.doubles.record_doubles import spinning
from tests.lib.doubles.report_double import ROOT, SCHEMA, Report, make_record, make_row, refused, shown
from tests.lib.properties import Readers

Change = Callable[[dict[str, Any]], object]
LATE, TAKE, GIVE, ALONE = "Naps end late", "Take work from", "more to do, or ask for fewer ranks", "alone waits"
ALIKE, NODE, FITS, MEASURED = "All ranks wait alike", "Look at node", "fits: 90 % of the waiting", "nap (or auto) fits"
ASKED = "20 % of the ranks' time went into loops that only test and probe: polls=on"
THREADS = "0.69 cores: if they did not compute, threads=bounded"
LITTLE, SHARED, LOCKED = "There is little to save", "Ranks share cores with others", "from one thread only"
BARRIER, FINE, POLLED = "collectives=ibarrier", "umwait and mwaitx sleep", "a larger slowdown="
COSTLY = "nap costs this job more than slowdown= allows"
LOW, UNWOKEN, LONE, HUNG = "ran at low frequency", "Messages did not wake", "hardly any other", "did at last"


@pytest.fixture
def report(tmp_path: pathlib.Path) -> Report:
    return Report(tmp_path)


def advised(report: Report, record: dict[str, Any], **row: str) -> str:
    jsonschema.Draft7Validator(SCHEMA).validate(record)
    answer = json.loads(shown(report(row.get("JobID", "123"), "--json", rows=[make_row(json.dumps(record), **row)])))
    return "\n".join(answer["advice"])


def wait(**changes: Any) -> Change:
    return lambda body: body["wait"].update(changes)


def costing(percent: float, windows: int = 760, slowdown: float | None = 1) -> Change:
    allowed = {} if slowdown is None else {"slowdown": slowdown}
    return wait(cost={"percent": percent, "error": 0.5, "windows": windows, "seconds": 432, **allowed})


def used(name: str, asked: str = "", **changes: Any) -> Change:
    def apply(body: dict[str, Any]) -> None:
        body["policy"] = {"asked": asked or name, "used": name, "by": "job"}
        body["steps"][0].pop("policy", None)  # the step's own, which differs
        body["wait"].update(changes)

    return apply


def both(*changes: Change) -> Change:
    def apply(body: dict[str, Any]) -> None:
        for change in changes:
            change(body)

    return apply


def slow_node(body: dict[str, Any]) -> None:
    waits = [9.0, 10.0, 0.5, 0.4]
    body["wait"].update(make_record(waits)["mpi_wait"]["wait"], per_rank_nodes=[["n1", 0, 2], ["n2", 2, 2]])


def ranks(*waits: float) -> Change:
    return lambda body: body["wait"].update(make_record(list(waits))["mpi_wait"]["wait"])


def by_step(body: dict[str, Any]) -> None:
    body["policy"]["by"] = "step"
    body["steps"][0].pop("policy", None)


def many(body: dict[str, Any]) -> None:
    body["wait"].update(make_record([0.1] + [9.0 + rank % 7 / 10 for rank in range(299)])["mpi_wait"]["wait"])


def asking(seconds: float, rested: float = 0.0) -> dict[str, Any]:
    return {"MPI_Test": {"calls": 10**9, "time_s": seconds, "wait_s": rested, "bytes": 0}}


POLLS = {"asleep_s": 1}
SHORT_WAITS = {**POLLS, "total_s": 1.5}
SPUN = {"MPI_Barrier": {"s": 2, "cpu_s": 2}}
BROKEN = {"State": "TIMEOUT"}
FORECAST = {"allowed_s": 1.0, "naps": 9, "early": 0, "early_s": 0.0, "foreseen": 1, "unforeseen": 9}
UNFORESEEN = wait(**POLLS, forecast=FORECAST)
SHORT = wait(cost={"percent": 2.4, "error": 0.5, "windows": 760, "seconds": 9, "slowdown": 1}, total_s=2.0, share=0.29)
SAID: list[tuple[str, Change, str]] = [
    ("an imbalance", wait(), TAKE),
    ("idle ranks", ranks(0.1, 0.1, 0.1, 20.0, 19.0), GIVE),
    ("one idle rank", ranks(0.1, 0.1, 0.1, 20.0), ALONE),
    ("no imbalance", ranks(9, 9.1, 9, 8.9), ALIKE),
    ("a slow node", slow_node, NODE),
    ("one rank in hundreds", many, LONE),
    ("sleep", wait(), FITS),
    ("measured only", used("profile"), MEASURED),
    ("little waiting", wait(share=0.015), LITTLE),
    ("shared cores", wait(**POLLS, flags={"shared_cores": 4}), SHARED),
    ("a lock", wait(**POLLS, flags={"locked": 4}), LOCKED),
    ("a collective that burns", wait(**POLLS, spun=SPUN), BARRIER),
    ("short waits", used("nap", **SHORT_WAITS), FINE),
    ("long waits that are polled", wait(**POLLS), POLLED),
    ("late naps", wait(late_s=5.0), LATE),
    ("naps that cost more than is allowed", costing(2.4), COSTLY),
    ("frequency", used("pstate", transitions=9, low_s=20.0), LOW),
    ("threads beside", wait(threads_s=20.0), THREADS),
    ("loops that ask", wait(profile=asking(20.0)), ASKED),
    ("ranks not woken", used("event", flags={"no_event": 4}), UNWOKEN),
]
NOT_SAID: list[tuple[str, Change, str]] = [
    ("nodes are missing", lambda body: body["nodes"].update(reported=1), ""),
    ("ranks were not counted", wait(unseen=1), ""),
    ("a single rank", ranks(9.0), TAKE),
    ("the ranks wait alike", ranks(9, 9.1, 9, 8.9), TAKE),
    ("one rank in hundreds", many, TAKE),
    ("a slow node", slow_node, TAKE),
    ("the run is short", wait(share=1.0, total_s=16.0), TAKE),
    ("most ranks wait", wait(), GIVE),
    ("one idle rank", ranks(0.1, 0.1, 0.1, 20.0), GIVE),
    ("several idle ranks", ranks(0.1, 0.1, 0.1, 20.0, 19.0), ALONE),
    ("two ranks", ranks(0.1, 20.0), ALONE),
    ("an imbalance", wait(), ALIKE),
    ("they hardly wait", both(ranks(9, 9.1, 9, 8.9), wait(share=0.03)), ALIKE),
    ("one node of both is slow and quick", both(slow_node, wait(per_rank_nodes=[["n1", 0, 2, 2], ["n2", 1, 2, 2]])),
     NODE),
    ("few ranks", wait(), LONE),
    ("ranks were not woken", used("event", flags={"no_event": 4}), "event fits"),
    ("some ranks were not woken", used("event", flags={"no_event": 1}), "event fits"),
    ("all ranks were woken", used("event"), UNWOKEN),
    ("it napped by design", used("nap", flags={"no_event": 4}), UNWOKEN),
    ("naps end late", wait(late_s=5.0), "fits"),
    ("naps cost too much", costing(2.4), "fits"),
    ("naps may cost no more than is allowed", costing(1.4), COSTLY),
    ("too little was seen", costing(2.4, windows=7), COSTLY),
    ("nothing is allowed or forbidden", costing(2.4, slowdown=None), COSTLY),
    ("what they cost is measured, and little", both(costing(0.3), wait(late_s=5.0)), LATE),
    ("the MPI makes no idle call", both(used("profile"), wait(flags={"no_hook": 4})), MEASURED),
    ("two MPI libraries", both(used("profile"), wait(flags={"two_mpis": 3})), MEASURED),
    ("it naps already", wait(), MEASURED),
    ("they wait", wait(), LITTLE),
    ("the node has neither", wait(**SHORT_WAITS), FINE),
    ("it is what was used", used("umwait", **SHORT_WAITS), FINE),
    ("auto has them", used("auto", **SHORT_WAITS), FINE),
    ("it is not known what slept", lambda body: body["wait"].pop("asleep_s"), POLLED),
    ("cores are shared", wait(late_s=5.0, flags={"shared_cores": 4}), LATE),
    ("they slept", wait(flags={"shared_cores": 4}), SHARED),
    ("they slept all the same", wait(flags={"locked": 1}), LOCKED),
    ("it is no collective", wait(**POLLS, spun={"MPI_Probe": {"s": 2, "cpu_s": 2}}), BARRIER),
    ("hardly any", wait(threads_s=0.5), THREADS),
    ("they are short", wait(profile=asking(2.0)), ASKED),
    ("they rest", wait(profile=asking(20.0, 19.0)), ASKED),
    ("it is another call", wait(profile={"MPI_Recv": asking(20.0)["MPI_Test"]}), ASKED),
    ("the ranks hardly wait", wait(threads_s=20.0, share=0.015), THREADS),
    ("hardly any of it was low", used("pstate", transitions=9, low_s=2.0), LOW),
]


@pytest.mark.parametrize("why,change,words", SAID, ids=[f"{words} ({why})" for why, _, words in SAID])
def test_it_is_said(report: Report, why: str, change: Change, words: str) -> None:
    record = make_record()
    change(record["mpi_wait"])
    assert words in advised(report, record)


@pytest.mark.parametrize("why,change,words", NOT_SAID, ids=[f"{words} ({why})" for why, _, words in NOT_SAID])
def test_it_is_not_said(report: Report, why: str, change: Change, words: str) -> None:
    record = make_record()
    change(record["mpi_wait"])
    said = advised(report, record)
    assert words not in said if words else not said


JOB, STEP = "#SBATCH --mpi-wait-policy=", "srun --mpi-wait-policy="
PASTED: dict[str, tuple[Change, str]] = {
    "measured only": (used("profile"), f"POLICIES: {JOB}nap"),
    "measured by a step's option": (both(used("profile"), by_step), f"POLICIES: {STEP}nap"),
    "waits alike": (ranks(9, 9.1, 9, 8.9), f"PROFILE: {JOB}umwait,profile"),
    "shared cores": (wait(**POLLS, flags={"shared_cores": 4}), f"KEYS: {JOB}umwait,pin=cores"),
    "a lock": (wait(**POLLS, flags={"locked": 4}), "See mpi-wait-policy(7), WHAT STILL SPINS."),
    "a collective that burns": (wait(**POLLS, spun=SPUN), f"KEYS: {JOB}umwait,collectives=ibarrier"),
    "short waits": (used("nap", **SHORT_WAITS), f"POLICIES: {JOB}auto"),
    "long waits that are polled": (wait(**POLLS), f"KEYS: {JOB}umwait,slowdown=2"),
    "late naps": (wait(late_s=5.0), f"mpi-wait(1), WHAT CHECK LOOKS AT: {JOB}umwait,slowdown=0.5"),
    "too much cost": (costing(2.4), "KEYS: #SBATCH --exclusive"),
    "too much cost in a short run": (SHORT, f"KEYS: {JOB}off"),
    "unforeseen waits": (UNFORESEEN, f"POLICIES: {JOB}event"),
    "unforeseen waits under event": (both(used("event"), UNFORESEEN), f"KEYS: {JOB}event,slowdown=2"),
    "unforeseen waits where event fell back": (both(used("nap", "event"), UNFORESEEN), f"KEYS: {JOB}event,slowdown=2"),
    "cores that kept their frequency": (used("pstate", **POLLS), f"POLICIES: {JOB}nap"),
    "threads": (both(used("pstate"), wait(threads_s=20.0)), f"KEYS: {JOB}pstate,threads=bounded"),
    "threads under nap": (both(used("nap"), wait(threads_s=20.0)), f"KEYS: {JOB}nap,threads=passive"),
    "loops that ask": (both(used("profile"), wait(profile=asking(20.0))), f"KEYS: {JOB}nap,polls=on"),
    "ranks not woken": (used("event", flags={"no_event": 4}), f"POLICIES: {JOB}nap"),
}
"""Change of the record, and the end of one line of its advice."""


@pytest.mark.parametrize("name", PASTED)
def test_advice_ends_with_the_line_to_paste(report: Report, name: str) -> None:
    """The plugin takes the option, the manual has the section, and the text has the line by itself."""
    record, (change, end) = make_record(), PASTED[name]
    change(record["mpi_wait"])
    (line,) = [line for line in advised(report, record).splitlines() if line.endswith(end)]
    page, section, paste = re.fullmatch(r".* See ([a-z-]+\([17]\)), ([A-Z ]+)(?:: (.*)|\.)", line).groups()  # type: ignore[union-attr]
    manual = (ROOT / "packaging/man" / re.sub(r"\((.)\)", r".\1", page)).read_text()
    assert f"\n.SH {section}\n" in manual
    if paste is None:
        return
    option = paste.partition("--mpi-wait-policy=")[2]
    assert paste == EXCLUSIVE or Readers().option(option.encode())[0] == 0
    text = shown(report("123", rows=[make_row(json.dumps(record))]))
    assert f"\n    {paste}\n" in text


def test_advice_on_the_work_has_nothing_to_paste(report: Report) -> None:
    assert all("SBATCH" not in line and "srun" not in line for line in advised(report, make_record()).splitlines())


def test_every_section_that_advice_names_is_in_the_manual() -> None:
    """Reads the names from the source, so that none is missed for want of a record."""
    source = (ROOT / "contrib/mpi_wait_tools/meaning/advice.py").read_text()
    named = re.findall(r'"(mpi-wait[a-z-]*)\((\d)\), ([A-Z ]+)"', source)
    assert len(named) == 5
    for page, chapter, section in named:
        assert f"\n.SH {section}\n" in (ROOT / f"packaging/man/{page}.{chapter}").read_text()


def test_a_narrow_page_cuts_no_line_to_paste(report: Report) -> None:
    record = make_record()
    wait(**POLLS, spun=SPUN)(record["mpi_wait"])
    text = shown(report("123", "--width", "40", rows=[make_row(json.dumps(record))]))
    assert f"{JOB}umwait,collectives=ibarrier".replace(" ", "") in re.sub(r"\s", "", text)
    assert max(map(len, text.splitlines())) <= 40


@pytest.mark.parametrize("state", ["TIMEOUT", "CANCELLED by 1000", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY"])
def test_a_job_that_broke_off_may_have_hung(report: Report, state: str) -> None:
    said = advised(report, make_record(), State=state)
    assert HUNG in said and TAKE not in said and "fits" not in said and "less time" not in said
    assert HUNG not in advised(report, make_record())
    assert not advised(report, make_record([9, 9.1, 9, 8.9]), State=state)


def test_a_job_broke_off_in_its_last_step(report: Report) -> None:
    """Earlier steps ran to their end: nothing is wrong with their ranks."""
    said = advised(report, of_steps("nap", "nap", "nap"), State="FAILED")
    assert "Step 2: look at what rank 1" in said and "Step 0" not in said and "Step 1" not in said
    record = of_steps("nap", "nap")
    record["mpi_wait"]["steps"].append({"id": "2", "ranks": 0, "wait_s": 0, "elapsed_s": 1.0, "nodes": 1})
    assert HUNG not in advised(report, record, State="FAILED")
    record["mpi_wait"]["steps"][-1]["policy"] = {"asked": "off", "used": "off", "by": "step"}
    assert "Step 1: look at what" in advised(report, record, State="TIMEOUT")
    record["mpi_wait"]["steps_left_out"] = 1
    assert HUNG not in advised(report, record, State="TIMEOUT")
    record = of_steps("nap")
    record["mpi_wait"]["steps"].append({"id": "1", "ranks": 0, "wait_s": 0, "elapsed_s": 1.0, "nodes": 1})
    assert HUNG not in advised(report, record, State="FAILED")
    record["mpi_wait"]["steps"][0]["id"] = "batch"
    assert HUNG in advised(report, record, State="FAILED")


def test_of_a_component_nothing_is_said_of_the_balance(report: Report) -> None:
    said = advised(report, make_record(), JobID="123+1")
    assert TAKE not in said and FITS in said


def test_steps_are_not_mixed(report: Report) -> None:
    record = make_record([9.0, 0.2, 9.1, 8.8, 0.3, 9.0, 9.2, 9.0])
    steps = [{"id": name, "ranks": 4, "wait_s": 27.0, "elapsed_s": 24.0, "nodes": 1} for name in ("0", "1")]
    record["mpi_wait"].update(steps=steps)
    said = advised(report, record)
    assert "Step 0: take work from rank 1:" in said and "Step 1: take work from rank 0:" in said
    assert "0.1" not in said and "ranks" not in said.replace("the ranks wait", "")


def of_steps(*policies: str, **changes: Any) -> dict[str, Any]:
    """Returns a record of a job under profile whose steps, each of two ranks, ran under these policies."""
    record = make_record([9.0, 0.2] * len(policies))
    used("profile", **changes)(record["mpi_wait"])
    step = {"ranks": 2, "wait_s": 9.2, "elapsed_s": 24.0, "nodes": 1}
    own = [{} if name == "profile" else {"policy": {"asked": name, "used": name, "by": "step"}} for name in policies]
    record["mpi_wait"]["steps"] = [{"id": str(index), **step, **policy} for index, policy in enumerate(own)]
    return record


def test_figures_of_several_policies_are_held_for_the_work_of_none(report: Report) -> None:
    text = shown(report("123", rows=[make_row(json.dumps(of_steps("profile", "nap", **POLLS)))]))
    assert "What the steps' policies did" in text and "What profile did" not in text
    for steps in (("profile", "nap"), ("nap", "yield"), ("nap", "event")):
        said = advised(report, of_steps(*steps, **POLLS))
        assert POLLED not in said and MEASURED not in said and FITS not in said and "Step 0: take work" in said
    assert LITTLE in advised(report, of_steps("profile", "nap", share=0.015))
    assert MEASURED in advised(report, of_steps("profile", "yield"))


def test_a_policy_that_all_steps_had_is_judged_and_not_the_jobs(report: Report) -> None:
    record = of_steps("nap", "nap")
    text = shown(report("123", rows=[make_row(json.dumps(record))]))
    assert "What nap did" in text and "nap fits: 90 %" in text and MEASURED not in text
    assert f"{STEP}nap,slowdown=2" in advised(report, of_steps("nap", **POLLS))


def test_the_steps_of_the_ends_are_named(report: Report) -> None:
    """Of ranks that are too many for a list: number 3 of one step is not number 3 of the other."""
    record = make_record()
    ends = [{"rank": 3, "s": 0.5, "node": "n2", "step": "0"}, {"rank": 3, "s": 0.6, "node": "n1", "step": "1"}]
    record["mpi_wait"]["wait"].update(per_rank_s=[], per_rank_asleep_s=[], least=ends,
                                      quantiles_s=[0.5 + i / 10 for i in range(101)],
                                      most=[{**one, "s": 10.0} for one in ends])
    text = shown(report("123", rows=[make_row(json.dumps(record))]))
    assert "rank 0.3" in text and "rank 1.3" in text


def incomplete() -> dict[str, Any]:
    record = make_record()
    record["mpi_wait"]["nodes"] = {"reported": 1, "of": 2, "why": "nodes missing"}
    return record


def compared(report: Report, *argv: str, **records: dict[str, Any]) -> str:
    for name, record in records.items():
        (report.folder / f"{name}.json").write_text(json.dumps(record))
    return shown(report(*(f"--record={report.folder}/{name}.json" for name in records), *argv))


def test_an_incomplete_record_is_compared_with_none(report: Report, tmp_path: pathlib.Path) -> None:
    text = compared(report, off=spinning(), nap=incomplete())
    assert "In short" not in text and "nap (nap, incomplete)" in text and "%  █" not in text
    assert "nap INCOMPLETE: 1 of 2 nodes reported (nodes missing): its figures are compared with none." in " ".join(
        text.split()
    )
    three = " ".join(compared(report, off=spinning(), nap=incomplete(), other=make_record()).split())
    assert "other (nap) took 0.8 % longer" in three and "nap (nap, incomplete) took" not in three
    first = compared(report, nap=incomplete(), off=spinning())
    assert "In short" not in first and "than nap" not in first
    page = tmp_path / "page.svg"
    compared(report, "--plot", str(page), off=spinning(), nap=incomplete())
    assert "nap INCOMPLETE: 1 of 2 nodes reported (nodes missing)" in page.read_text()


def test_the_first_line_is_red_on_a_terminal() -> None:
    from mpi_wait_tools.record.record import parse_record
    from mpi_wait_tools.report.view import Output, Shown, show

    for width in (80, 200):
        text = show(Output(width, colour=True, utf8=True), Shown(None, "", parse_record(incomplete()["mpi_wait"])))
        assert text.startswith("\x1b[1;31mINCOMPLETE: 1 of 2 nodes reported (nodes missing)")
    whole = show(Output(80, colour=True, utf8=True), Shown(None, "", parse_record(make_record()["mpi_wait"])))
    assert "INCOMPLETE" not in whole and "1;31m" not in whole


def test_an_incomplete_record_for_programs(report: Report) -> None:
    answer = json.loads(shown(report("123", "--json", rows=[make_row(json.dumps(incomplete()))])))
    assert answer["incomplete"] == "INCOMPLETE: 1 of 2 nodes reported (nodes missing)"
    assert answer["advice"] == [] and "imbalance" not in answer
    whole = json.loads(shown(report("123", "--json", rows=[make_row(json.dumps(make_record()))])))
    assert "incomplete" not in whole


def test_all_ranks_has_an_effect_or_says_why_not(report: Report) -> None:
    record = make_record()
    listed = copy.deepcopy(record)
    record["mpi_wait"]["wait"].update(per_rank_s=[], per_rank_asleep_s=[], quantiles_s=[i / 10 for i in range(101)])
    text = shown(report("123", "--all-ranks", rows=[make_row(json.dumps(record))]))
    assert "--all-ranks shows no more here: the record has no list of the ranks" in " ".join(text.split())
    assert "shows no more" not in shown(report("123", "--all-ranks", rows=[make_row(json.dumps(listed))]))
    for words in (["--json"], ["--csv"], ["--plot", "x.svg"], ["124"]):
        assert "--all-ranks is for the text of one job" in refused(report("--all-ranks", "123", *words), status=2)


def test_core_time_is_in_core_hours(report: Report) -> None:
    record = make_record()
    record["mpi_wait"]["wait"].update(total_s=2_303_640_000.0)
    text = shown(report("123", rows=[make_row(json.dumps(record))]))
    assert "640 k core h" in text and " d " not in text.split("Calls")[0]


@pytest.mark.parametrize("variables", [{"LC_ALL": "C"}, {"LC_ALL": "", "LANG": "C"}, {"LC_ALL": "POSIX"},
                                       {"LC_ALL": "", "LC_CTYPE": "", "LANG": "POSIX"}], ids=str)
def test_a_plain_locale_gets_plain_characters(report: Report, variables: dict[str, str]) -> None:
    """As it is set, with nothing else: Python writes UTF-8 there."""
    assert shown(report("123", rows=[make_row(json.dumps(make_record()))], env=variables)).isascii()
    utf8 = {"LC_ALL": "", "LC_CTYPE": "", "LANG": "C.UTF-8"}
    assert "█" in shown(report("123", rows=[make_row(json.dumps(make_record()))], env=utf8))


def test_no_figure_has_accidental_digits(report: Report) -> None:
    record = make_record([4.1, 4.2, 4.3, 0.2])
    rows = [make_row(json.dumps(record))]
    for words in ("--csv", "--json"):
        said = shown(report("123", words, rows=rows)).split('"mpi_wait"')[0] if words == "--csv" else ""
        assert "00000000" not in said and "99999999" not in said
    lost = json.loads(shown(report("123", "--json", rows=rows)))["imbalance"]["lost_s"]
    assert lost == 12.0
