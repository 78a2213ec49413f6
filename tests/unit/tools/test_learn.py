"""mpi-wait learn: the verdicts on made-up sites whose truth is known, and the command against a fake sacct."""

from __future__ import annotations

import json
import pathlib
import random
import re
from typing import Any

import pytest
from mpi_wait_tools.learn.gather import Gathered
from mpi_wait_tools.meaning.pooling import Vote, over_jobs, over_users
from mpi_wait_tools.meaning.programs import Fact, Law, Program, judge, judged

from tests.lib.doubles.report_double import Report, make_record, refused, shown
from tests.lib.made_up_sites import forged, make_site, record_of, row_of, shaded

SITES = 20
LAW = Law()


def verdicts_of(rows: list[dict[str, str]]) -> dict[str, str]:
    gathered = Gathered()
    for row in rows:
        gathered.add(row)
    return {program.name: program.verdict.policy for program in judged(gathered.programs(), LAW)}


def test_verdicts_are_right_on_made_up_sites() -> None:
    """Sites of some hundred jobs. Of each all programs must be judged right, those with too little known as "try"."""
    sites = [make_site(seed) for seed in range(SITES)]
    assert all(300 < len(site.rows) < 700 and set(site.right.values()) == {"nap", "event", "off", "try"}
               for site in sites)
    right = sum(verdicts_of(site.rows) == site.right for site in sites)
    assert right >= 19, f"{right} of {SITES} sites"


@pytest.mark.parametrize("seed", range(SITES))
def test_hundreds_of_forged_records_of_one_user_change_no_verdict(seed: int) -> None:
    site = make_site(seed)
    false = forged(site, 60)
    assert len(false) > 500
    assert verdicts_of(site.rows + false) == verdicts_of(site.rows)


@pytest.mark.parametrize("seed", range(5))
def test_forgery_with_care_turns_no_verdict_into_another(seed: int) -> None:
    site = make_site(seed)
    honest = verdicts_of(site.rows)
    for shift in (0.5, 1.0, 2.0, 3.0):
        found = verdicts_of(site.rows + shaded(site, shift))
        assert all(found[name] in (policy, "try") for name, policy in honest.items()), (shift, found)


def test_a_forger_alone_gets_no_verdict() -> None:
    rows = [row_of(job, "mallory", "wrf", record_of("nap", 0.5, (-1.0, 0.0, 999), (50.0, 0.0))) for job in range(300)]
    assert verdicts_of(rows) == {"wrf": "try"}
    names = [row_of(job, "mallory", f"wrf{job}", record_of("nap", 0.5, (9.0, 0.0, 999), None)) for job in range(50)]
    assert set(verdicts_of(names).values()) == {"try"}


def test_two_who_agree_and_a_forger_against_them_are_too_few() -> None:
    facts = [fact(user, saved=8.0) for user in ("ada", "bob") for _ in range(20)]
    facts += [fact("mallory", cost=50.0, saved=-50.0)] * 300
    assert verdict_on(facts).policy == "try"


@pytest.mark.parametrize("number", range(3, 12))
def test_an_interval_beyond_a_limit_has_three_votes_there(number: int) -> None:
    rng = random.Random(number)
    decided = 0
    for _ in range(2000):
        values = [rng.expovariate(1.0) for _ in range(number)]
        pooled = over_users([Vote(value, 0.0, 5) for value in values])
        if pooled is not None and pooled.low > 0.2:
            decided += 1
            assert sum(vote.value > 0.2 for vote in pooled.votes) >= 3
    assert decided > 20


def fact(user: str, cost: float | None = 0.2, saved: float | None = 8.0, policy: str = "nap", share: float = 0.2,
         error: float = 0.5) -> Fact:
    return Fact(user, policy, 64, 2, 1000.0, share, None if cost is None else (cost, error),
                None if saved is None else (saved, error), False)


def verdict_on(facts: list[Fact], trusted: tuple[str, ...] = (), law: Law = LAW) -> Any:
    program = Program("wrf", facts)
    judge(program, law, trusted)
    return program.verdict


def facts_of(users: int, **changes: Any) -> list[Fact]:
    """Ten jobs of each user, which differ a little."""
    rng = random.Random(3)
    figures = {"cost": 0.2, "saved": 8.0, **changes}
    return [fact(f"user{user}", **{name: value if value is None or isinstance(value, str) or name == "share"
                                   else rng.gauss(value, 0.1) for name, value in figures.items()})
            for user in range(users) for _ in range(10)]


@pytest.mark.parametrize("changes,policy,why", [
    ({}, "nap", r"nap saves 8\.0 % ± 0\.\d and costs 0\.2 % ± 0\.\d"),
    ({"policy": "auto"}, "auto", r"auto saves 8\.0 % .*"),
    ({"cost": 3.0}, "off", r"nap costs 3\.0 % ± 0\.\d, more than the 1 % allowed"),
    ({"saved": -3.0}, "off", r".* it uses more than it saves"),
    ({"saved": 0.3, "cost": 0.9}, "off", r".* it costs more than it saves"),
    ({"saved": 1.0}, "off", r".* less than 2 % is not worth it"),
    ({"cost": 0.95, "saved": 9.0}, "try", r".* the intervals are too wide, or users differ"),
    ({"saved": None}, "try", r"nap costs 0\.2 % ± 0\.\d; no job could tell what it saves"),
    ({"cost": None}, "try", r"nap: no job could tell what sleeping costs"),
    ({"cost": None, "saved": None, "policy": "profile"}, "try",
     r"the ranks wait 20 % of their time, and no policy was measured: nap first"),
    ({"cost": None, "saved": None, "policy": "profile", "share": 0.004}, "off",
     r"the ranks wait 0\.4 % of their time: there is little to save"),
])
def test_the_reason_for_each_verdict(changes: dict[str, Any], policy: str, why: str) -> None:
    verdict = verdict_on(facts_of(4, **changes))
    assert verdict.policy == policy and re.fullmatch(why, verdict.why), verdict.why


@pytest.mark.parametrize("users,policy", [(1, "try"), (2, "try"), (3, "nap")])
def test_three_users_must_agree(users: int, policy: str) -> None:
    assert verdict_on(facts_of(users)).policy == policy
    assert verdict_on(facts_of(users, cost=4.0)).policy == ("try" if policy == "try" else "off")


def test_a_trusted_user_is_enough_and_outvotes_the_others() -> None:
    facts = [fact("admin", saved=8.0 + place / 10) for place in range(6)]
    assert verdict_on(facts).policy == "try" and verdict_on(facts, ("admin",)).policy == "nap"
    others = facts_of(5, cost=5.0)
    assert verdict_on(facts + others).policy == "off" and verdict_on(facts + others, ("admin",)).policy == "nap"
    assert verdict_on(others, ("admin",)).policy == "off"


def test_the_policy_that_saves_most_is_chosen() -> None:
    both = facts_of(4, saved=5.0) + facts_of(4, saved=9.0, policy="event")
    assert verdict_on(both).policy == "event"
    assert verdict_on(facts_of(4, cost=5.0) + facts_of(4, policy="event")).policy == "event"
    assert verdict_on(facts_of(4, cost=5.0) + facts_of(1, policy="event")).policy == "off"


def test_the_limits_are_the_sites() -> None:
    assert verdict_on(facts_of(4, cost=2.0), law=Law(allow=3.0)).policy == "nap"
    assert verdict_on(facts_of(4, saved=1.0), law=Law(worth=0.5)).policy == "nap"
    assert verdict_on(facts_of(4), law=Law(worth=20.0)).policy == "off"


def test_pooling_of_jobs() -> None:
    """A job of a claimed perfect figure weighs no more than a few others; one that was disturbed is left out."""
    assert over_jobs([(3.0, 1.96)]) == Vote(3.0, pytest.approx(1.0, abs=0.001), 1)
    alike = over_jobs([(1.0, 1.0), (1.2, 1.0), (0.8, 1.0), (1.0, 1.0)])
    assert alike.value == pytest.approx(1.0) and alike.error == pytest.approx(0.255, abs=0.001) and alike.jobs == 4
    perfect = over_jobs([(1.0, 1.0), (1.2, 1.0), (0.8, 1.0), (1.0, 1.0), (1.6, 0.0)])
    assert perfect.value == pytest.approx((4 + 3 * 1.6) / 7, abs=0.01)
    assert over_jobs([(1.0, 1.0), (1.2, 1.0), (0.8, 1.0), (1.0, 1.0), (40.0, 1.0)]) == alike
    apart = over_jobs([(0.0, 0.2), (4.0, 0.2), (2.0, 0.2)])
    assert apart.value == pytest.approx(2.0) and apart.error == pytest.approx(1.155, abs=0.01)


def test_pooling_of_users() -> None:
    assert over_users([]) is None
    one = over_users([Vote(2.0, 0.5, 10)])
    assert one is not None and (one.value, one.half) == (2.0, pytest.approx(2.262 * 0.5))
    votes = [Vote(value, 0.1, jobs) for value, jobs in ((1.0, 5), (1.4, 500), (1.8, 5), (1.4, 5))]
    pooled = over_users(votes)
    assert pooled is not None and pooled.value == pytest.approx(1.4)
    assert pooled.half == pytest.approx(3.182 * 0.3266 / 2, abs=0.001)
    assert over_users([*votes, Vote(90.0, 0.0, 10_000)]) == pooled
    close = over_users([Vote(1.0, 0.4, 5)] * 4)
    assert close is not None and close.half == pytest.approx(3.182 * 0.4 / 2)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    """Of 400 made-up programs with five users of eight jobs each. The number follows from the seed."""
    rng = random.Random(11)
    held = 0
    for _ in range(400):
        votes = []
        for _ in range(5):
            user = rng.gauss(2.0, 0.5)
            votes.append(over_jobs([(rng.gauss(user, 0.7), 1.0) for _ in range(8)]))
        pooled = over_users(votes)
        held += pooled is not None and pooled.low <= 2.0 <= pooled.high
    assert 365 <= held <= 395, held


class Learn(Report):
    command = "learn"


@pytest.fixture
def learn(tmp_path: pathlib.Path) -> Learn:
    return Learn(tmp_path)


def site_rows() -> list[dict[str, str]]:
    """wrf gains and cfd costs, by three users each; one user alone runs vasp."""
    rows: list[dict[str, str]] = []
    for program, users, cost, saved in (("wrf", 3, 0.2, 8.0), ("cfd", 3, 4.0, 5.0), ("vasp", 1, 0.2, 8.0)):
        for user in range(users):
            for job in range(6):
                record = record_of("nap", 0.2, (cost + 0.02 * job, 0.4, 500), (saved + 0.1 * job, 1.0))
                rows.append(row_of(100 + len(rows), f"user{user}", program, record))
    return rows


def ask(learn: Learn, *argv: str, rows: list[dict[str, str]] | None = None, **options: Any) -> str:
    answer = site_rows() if rows is None else rows
    return shown(learn(*argv, rows=answer, latest=len(answer), **options))


def file_of(learn: Learn, *argv: str, **options: Any) -> dict[str, str]:
    """The proposed file, as policies by name; {} if none is proposed."""
    rows = options.pop("rows", site_rows())
    done = learn("--json", *argv, rows=rows, latest=len(rows), **options)
    if done.returncode == 1:
        assert done.stderr.startswith("mpi-wait: no program has a verdict yet") and not done.stdout
        return {}
    proposed = json.loads(shown(done))
    assert set(proposed) == {"v", "programs"} and proposed["v"] == 1
    assert all(set(entry) == {"names", "policy", "note"} for entry in proposed["programs"])
    return {name: entry["policy"] for entry in proposed["programs"] for name in entry["names"]}


def test_the_file_says_why(learn: Learn) -> None:
    assert json.loads(ask(learn, "--json")) == {"v": 1, "programs": [
        {"names": ["cfd"], "policy": "off",
         "note": "nap costs 4.0 % +/- 0.2, more than the 1 % allowed; 18 jobs of 3 users"},
        {"names": ["wrf"], "policy": "nap",
         "note": "nap saves 8.3 % +/- 0.5 and costs 0.3 % +/- 0.2; 18 jobs of 3 users"},
    ]}


def test_a_table_with_the_reasons(learn: Learn) -> None:
    text = ask(learn, "--width", "120")
    assert re.search(r"^  wrf +18 +3 +4 +2 +20 % +nap +0\.3 % ± 0\.\d +8\.\d % ± 0\.\d +nap$", text, re.M), text
    assert re.search(r"^  cfd .* 4\.0 % ± 0\.\d .* off$", text, re.M) and re.search(r"^  vasp .* try$", text, re.M)
    words = " ".join(text.split())
    assert "→ cfd: off. nap costs 4.0 % ± 0.2, more than the 1 % allowed." in words
    assert "→ wrf: nap saves 8.3 % ± 0.5 and costs 0.3 % ± 0.2." in words
    assert "the word of 1 user, and 3 must agree." in words
    assert "Of 1 program too little is known. A verdict needs 3 users whose own jobs agree, or --trust." in words
    assert "Nothing is installed. --json prints the file for programs=FILE." in words
    assert "42 jobs of 42 with a record, 3 programs" in words
    for width in (60, 80):
        narrow = ask(learn, "--width", str(width))
        assert max(map(len, narrow.splitlines())) <= width and re.search(r"^  wrf .* nap$", narrow, re.M)


def test_the_file_has_the_verdicts_that_are_known(learn: Learn) -> None:
    assert file_of(learn) == {"wrf": "nap", "cfd": "off"}
    assert file_of(learn, "--trust", "user0") == {"wrf": "nap", "cfd": "off", "vasp": "nap"}
    assert file_of(learn, "--name", "w*") == {"wrf": "nap"}
    assert file_of(learn, "--allow", "6") == {"wrf": "nap", "cfd": "nap"}
    assert file_of(learn, "--worth", "20") == {"wrf": "off", "cfd": "off"}
    assert file_of(learn, rows=[]) == {}


def test_what_sacct_is_asked(learn: Learn) -> None:
    ask(learn, "--since", "2026-01-02", "--until", "2026-01-02T12:00", "--user", "ada,bob")
    asked = learn.asked()
    assert "-X" not in asked and "--user=ada,bob" in asked and "--endtime=2026-01-02T12:00:00" in asked


def step_row(job: str, step: str, name: str) -> dict[str, str]:
    return {"JobID": f"{job}.{step}", "JobIDRaw": f"{job}.{step}", "JobName": name}


def test_a_program_is_named_as_its_step(learn: Learn) -> None:
    """A batch job has the name of its script; plugin and site know the program by its own."""
    rows = site_rows()[:18]
    for row in rows:
        row["JobName"] = "run.sh"
    steps = [step_row(row["JobID"], step, name) for row in rows for step, name in
             (("batch", "batch"), ("extern", "extern"), ("0", "wrf.exe"), ("1", "hostname"))]
    assert file_of(learn, rows=rows, steps=steps) == {"wrf.exe": "nap"}
    assert "known by the job's name" not in ask(learn, rows=rows, steps=steps)


@pytest.mark.parametrize("starter", ["orted", "prted", "hydra_pmi_proxy", "env", "bash", "apptainer", "python3.11"])
def test_behind_a_starter_the_program_is_known_by_the_job(learn: Learn, starter: str) -> None:
    rows = site_rows()[:18]
    steps = [step_row(row["JobID"], "0", starter) for row in rows]
    assert file_of(learn, rows=rows, steps=steps) == {"wrf": "nap"}
    assert "18 jobs are known by the job's name alone" in " ".join(ask(learn, rows=rows, steps=steps).split())


def test_jobs_of_several_programs_are_left_out(learn: Learn) -> None:
    rows = site_rows()[:18]
    for row in rows[:2]:
        record = json.loads(row["AdminComment"])
        record["mpi_wait"]["steps"].append({**record["mpi_wait"]["steps"][0], "id": "1"})
        row["AdminComment"] = json.dumps(record)
    steps = [step_row(row["JobID"], step, name) for row in rows for step, name in (("0", "wrf"), ("1", "post"))]
    text = " ".join(ask(learn, rows=rows, steps=steps).split())
    assert "2 jobs ran several programs" in text and "16 jobs of 18 with a record" in text


def test_unreadable_old_and_partial_records_are_counted_and_left_out(learn: Learn) -> None:
    partial = record_of("nap", 0.2, (30.0, 0.1, 500), (30.0, 0.1))
    partial["mpi_wait"]["nodes"] = {"reported": 1, "of": 2}
    bad = [row_of(901, "eve", "wrf", '{"mpi_wait":{"v":2}}'), row_of(902, "eve", "wrf", '{"mpi_wait":{"v":'),
           row_of(903, "eve", "wrf", partial), row_of(904, "eve", "wrf", ""),
           row_of(905, "eve", "wrf", make_record())]
    day = ("--since", "2026-01-01", "--until", "2026-01-02")
    text = " ".join(ask(learn, *day, rows=site_rows() + bad, more=f"{'xDELIMITER' * 40}\n").split())
    assert "43 jobs of 48 with a record" in text
    assert "3 records cannot be read" in text and "1 record INCOMPLETE: nodes did not report. Left out." in text
    assert "1 job measured neither a cost nor a saving" in text
    assert file_of(learn, rows=site_rows() + bad) == file_of(learn)


def test_a_job_under_several_policies_tells_of_none() -> None:
    record = record_of("nap", 0.2, (0.2, 0.1, 500), (8.0, 0.1))
    step = record["mpi_wait"]["steps"][0]
    record["mpi_wait"]["steps"].append({**step, "id": "1", "policy": {**step["policy"], "used": "event"}})
    rows = [row_of(job, f"user{job % 4}", "wrf", record) for job in range(40)]
    assert verdicts_of(rows) == {"wrf": "try"}


@pytest.mark.parametrize("name", ["*", "wrf?", "[a-z]", "a b", "-x", "a/b", "\x1b[2J", "流体", "x" * 64, "a\\b"])
def test_names_that_would_be_patterns_are_not_in_the_file(learn: Learn, name: str) -> None:
    """A user who calls the jobs "*" would otherwise choose for all programs."""
    rows = [{**row, "JobName": name} for row in site_rows()[:18]]
    assert file_of(learn, rows=rows) == {}
    text = ask(learn, rows=rows)
    assert "1 program with a verdict cannot be named in the file" in " ".join(text.split()) and "\x1b" not in text


def test_simulated_energy_and_records_of_users_are_said(learn: Learn) -> None:
    rows = site_rows()
    record = json.loads(rows[0]["AdminComment"])
    record["mpi_wait"]["energy"]["source"] = "simulated"
    rows[0].update(AdminComment="", Extra=json.dumps(record))
    text = " ".join(ask(learn, rows=rows).split())
    assert "Energy is simulated for some of the jobs, not measured." in text
    assert "1 record from Extra, which a job's owner can change." in text


@pytest.mark.parametrize("words", [["--since", "yesterday"], ["--since", "1h", "--until", "2h"], ["--name", ""],
                                   ["--trust", "a,,b"], ["--allow", "51"], ["--allow", "nan"], ["--worth", "-1"],
                                   ["--limit", "0"], ["--user=--help"], ["--since", "1900-01-01"], ["x"]])
def test_wrong_usage(learn: Learn, words: list[str]) -> None:
    assert "usage:" in refused(learn(*words), status=2)


def test_a_limit(learn: Learn) -> None:
    text = ask(learn, "--limit", "1")
    assert "2 more (--limit 3)" in text and "vasp" not in text
