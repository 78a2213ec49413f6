"""contrib/TUTORIAL.md: its ten commands do what the page says that they do."""

from __future__ import annotations

import re

import pytest

from tests.lib.throwaway import Fleet
from tests.lib.tutorial import PAGE, Follower, examples

pytestmark = pytest.mark.cluster


@pytest.mark.timeout(300)  # a dozen jobs and questions, with the time that a record takes
def test_the_commands_of_the_tutorial(cluster: Fleet) -> None:
    """Each succeeds, and shows the words that the page names, here as there."""
    page = examples(PAGE.read_text())
    assert len(page) == 10 == len(re.findall(r"^\*\*\d+\.", PAGE.read_text(), re.M))
    follower = Follower(cluster, brief=True)
    for example in page:
        status, text = follower.follow(example.command)
        print(f"$ {example.command}\n{text}")
        assert status == 0, example.command
        for word in filter(None, (shown.strip() for shown in example.shows)):
            here = re.sub(r"(?<=Job )\d|^\d(?= \()", lambda match: follower.numbers[match[0]], word)
            assert word in example.output and here in text, (example.command, word)
