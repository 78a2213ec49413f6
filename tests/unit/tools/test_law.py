"""Manuals, README files and the comments of headers state the law's numbers as the sources have them."""

from __future__ import annotations

import re

import pytest

from tests.lib.law import ROOT, count, fraction, matched, ms, number, plain, policy

NAP, REST, PSTATE = policy("nap"), policy("umwait"), policy("pstate")
DUTY = 2 ** (number("LOOKS_PERIOD_SHIFT") - number("LOOKS_WINDOW_SHIFT"))
TIMES = {2: "twice", 3: "three times"}


def looks_for_saving(level: int) -> str:
    """Returns how many looks of that level make the least number of pairs: none of them is shorter than PAIR_S."""
    look_s = (2 ** (number("LOOKS_WINDOW_SHIFT") + level) - number("RENEWAL_NS")) / 1e9
    looks = number("SAVING_LOOKS_LEAST")
    while looks / number("SAVING_LOOKS_LEAST") * look_s < number("PAIR_S"):
        looks *= 2
    return plain(looks)


LAW = {
    "first": ms(number("LOOKS_FIRST_NS")),
    "window": ms(2 ** number("LOOKS_WINDOW_SHIFT")),
    "saving": looks_for_saving(3),
    "saving_17": looks_for_saving(2),
    "saving_8": looks_for_saving(1),
    "saving_4": looks_for_saving(0),
    "window_shift": plain(number("LOOKS_WINDOW_SHIFT")),
    "duty": fraction(DUTY),
    "periods": plain(DUTY),
    "steady": fraction(2 ** number("LOOKS_STEADY_SHIFT")),
    "steady_windows": count(2 ** number("LOOKS_STEADY_SHIFT")),
    "young": count(number("LOOKS_YOUNG")),
    "steps": count(number("LOOKS_STEPS")),
    "turn": count(matched(r"account, (\d+) \* looks_window_ns")),
    "known": count(number("FORECAST_KNOWN")),
    "ends": count(number("FORECAST_ENDS")),
    "long": ms(number("FORECAST_LONG_NS")),
    "slept": f"{count(DUTY - 1)} {fraction(DUTY)}s",
    "start": ms(number("ALLOWANCE_START_NS")),
    "kept": ms(number("ACCOUNT_KEPT_NS")),
    "cut": fraction(number("ACCOUNT_CUT")),
    "try": f"{number('TRY_NS') / 1e6:g}",
    "try_percent": plain(number("TRY_SHARE") * 100),
    "pause_grows": count(matched(r"account->resumed_ns, now_ns\)\)\s+return (\d+);")),
    "dear": TIMES[round(matched(r"lost_ns > (\d+) \* share"))],
    "pause_most": plain(number("PAUSE_MOST")),
    "spin_us": plain(NAP["spin_us"]),
    "share": plain(1 / NAP["relative"]),
    "most_us": plain(NAP["max_us"]),
    "percent": plain(NAP["slowdown_percent"]),
    "rest_share": plain(1 / REST["relative"]),
    "rest_more_us": plain(REST["absolute_us"]),
    "rest_us": plain(REST["max_us"]),
    "long_share": plain(number("LADDER_LONG_SHARE")),
    "long_times": count(number("LADDER_LONG_MOST")),
    "long_times_number": plain(number("LADDER_LONG_MOST")),
    "long_us": plain(NAP["max_us"] * number("LADDER_LONG_MOST")),
    "long_from": ms(NAP["max_us"] * 1e3 * number("LADDER_LONG_SHARE")),
    "shared_us": plain(number("LADDER_SHARED_NS") / 1e3),
    "slice": ms(number("WAIT_SLICE_NS")),
    "pstate": ms(PSTATE["pstate_after_us"] * 1e3),
    "pstate_us": plain(number("PSTATE_AFTER_NS") / 1e3),
}
SENTENCES = {
    "packaging/man/mpi-wait-policy.7": (
        "After the library saw {known} ends of a wait, the rank sleeps through the next one until shortly before the "
        "earliest of the latest {ends} ends",
        "In other waits the rank polls for the first {spin_us} microseconds",
        "for up to 1/{share} of the wait so far, and no longer than {most_us} microseconds. In waits beyond "
        "{long_from} milliseconds a nap may last 1/{long_share} of the wait, and never longer than {long_us} "
        "microseconds",
        "Looks take the first {first} milliseconds, then a {duty} of the time, and later a {steady} of that. A look "
        "lasts {window} milliseconds",
        "knows waits of {long} milliseconds and more without that; ranks sleep in them during a look too, for "
        "{slept} of the shortest",
        "lost it to another thread for {slice} milliseconds or more",
        "user-level wait state, {rest_us} microseconds at most",
        "once a wait has lasted {pstate} milliseconds",
        "The default of nap and auto is {percent}.",
        "is cut at a {cut} of the usual one",
        "lose this share of its run, and {start} milliseconds to start with",
        "pay from its {start} milliseconds and its share of the time so far",
    ),
    "packaging/man/mpi-wait-policy-file.5": (
        "lose this share of its run, and {start} milliseconds to start with",
        "The library knows a wait after it saw {known} ends of it",
        "Looks take the first {first} milliseconds, then a {duty} of the time, and later a {steady} of that. A look "
        "lasts {window} milliseconds",
        "knows waits of {long} milliseconds and more without that; ranks sleep in them during a look too, for "
        "{slept} of the shortest",
        "the library adds {shared_us} microseconds to absolute_us and to max_us",
        "in waits longer than {long_share} times max_us: to 1/{long_share} of the wait, and to at most {long_times} "
        "times max_us",
    ),
    "packaging/man/spank-mpi-wait.8": (
        "A look is {window} milliseconds long or more",
        "(waits of {long} ms and more are slept in there as well, for {slept} of what is known)",
        "fewer than {saving} looks were read; of looks that are shorter than 33 ms, {saving_17} of 17 ms, {saving_8} "
        "of 8 ms, and {saving_4} of 4 ms",
    ),
    "packaging/man/mpi-wait.1": ("the {start} milliseconds that a job may lose at its start",),
    "policies/README.md": (
        "| `yield` | polls, and offers its core to other threads | 1/{share} of the wait, {most_us} µs |",
        "in others for up to 1/{share} of them so far | in all {percent} % of its run, and {start} ms |",
        "(Intel) | 1/{rest_share} of the wait + {rest_more_us} µs, {rest_us} µs |",
        "on AMD | 1/{rest_share} of the wait + {rest_more_us} µs, {rest_us} µs |",
        "| see below; 1/{share} of the wait, {most_us} µs |",
        "once the wait has lasted {pstate} ms | 1/{share} of the wait, {most_us} µs, and the way back |",
        "the library adds {shared_us} µs to `absolute_us` and to `max_us`",
        "In a wait longer than {long_share} times `max_us` it grows to 1/{long_share} of the wait, up to {long_times} "
        "times `max_us`",
        "lose this share of its run, and {start} ms to start with",
        "The library knows a wait after it saw {known} ends of it",
        "Looks take the first {first} ms, then a {duty} of the time, and later a {steady} of that. A look lasts "
        "{window} ms, and longer where periods are long: it holds {steps} of them",
        "knows waits of {long} ms and more without that; ranks sleep in them during a look too, for {slept} of "
        "the shortest",
        "{pstate_us} unless given",
    ),
    "preload/README.md": (
        "the latest {ends} ends",
        "They take a {duty} of the time in the job's first periods, and a {steady} of that later",
        "Waits of {long} ms and more are slept in there too, for {slept} of the shortest that is known",
        "The job may lose {start} ms and `slowdown` percent of its time",
        "or of {try} ms and {try_percent} % of that share since the latest try",
        "the time of {turn} windows later at most the first time. After each try that fails it is {pause_grows} times "
        "as long if sleeping cost more than {dear} what it may",
        "a nap lasts {kept} ms at most",
        "as one is in the first {first} ms after `MPI_Init`",
        "if the known wait lasted for {long} ms or more, it sleeps through {slept} of that",
        "is cut at a {cut} of the usual period",
    ),
    "preload/contract/config_format.h": (
        "max inside MPI_Win_lock*, or 1/{long_share} of the wait if that is more",
        "MPICH, Intel MPI: {shared_us} us more budget",
    ),
    "preload/contract/looks.h": (
        "lasts for 2^({window_shift}+k) ns ({window} ms at level 0) and lies in a period of {periods} times that",
        "After {young} periods of its level a job looks in one window of {steady_windows}",
    ),
    "preload/budget/account.h": (
        "Each period is cut at a {cut} beside what is usual",
        "{try} milliseconds, and {try_percent} percent of what slowdown allows in its time",
        "({turn} windows of the looks)",
        "a multiple of the pause's length, 1 turn at first and {pause_most} at most",
        "If the try lost more than {dear} what slowdown allows in its time, sleeping does not pay: the pause is "
        "{pause_grows} times as long",
        "lost more than {try_percent} percent of what slowdown allows since the pause before began",
    ),
    "policies/nap.json": ("for up to 1/{share} of others so far",),
    "contrib/late-sender": ("LONG_SHARE, LONG_MOST = {long_share}, {long_times_number} ",),
}


def text_of(name: str) -> str:
    """On one line: without troff's requests and escapes, and without the stars that begin the lines of a comment."""
    lines = (ROOT / name).read_text().splitlines()
    bare = [re.sub(r"^\.[A-Z]+ ?|^ \* ", "", line).replace('"', "") for line in lines]
    return re.sub(r"\s+", " ", re.sub(r"\\ ", " ", " ".join(bare)).replace("\\-", "-"))


ROWS = [pytest.param(name, sentence, id=f"{name}-{row}")
        for name, sentences in SENTENCES.items() for row, sentence in enumerate(sentences)]


@pytest.mark.parametrize(("name", "sentence"), ROWS)
def test_a_sentence_has_the_numbers_of_the_sources(name: str, sentence: str) -> None:
    assert sentence.format(**LAW) in text_of(name)


@pytest.mark.parametrize(("name", "sentence"), ROWS)
def test_a_sentence_depends_on_each_of_its_numbers(name: str, sentence: str) -> None:
    words = re.findall(r"\{(\w+)\}", sentence)
    assert words and all(sentence.format(**{**LAW, word: "17"}) not in text_of(name) for word in words)
