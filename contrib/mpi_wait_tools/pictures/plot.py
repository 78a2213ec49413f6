"""Pictures: one page of one job, or of several beside one another, as PNG, SVG or PDF. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure  # type: ignore[import]

from ..jobs.found import Found
from ..meaning.advice import ending_of
from ..meaning.imbalance import Imbalance, imbalance_of
from ..meaning.parts import gpus_tail
from ..meaning.reading import energy_nodes, incomplete_line, policy_line, ranks_of, whole_words
from ..meaning.worlds import ranks_words
from ..record.record import Record, Step
from ..text.units import duration, percent, plural, scaled
from .compare import comparison_page
from .panels import draw_calls, draw_distribution, draw_order, draw_power, draw_ranks, nothing, over_time, rows_of
from .style import INK, LEFT, LOST, QUIET, RIGHT, footer, new_page, plain, save_page, stamp

TILE_WIDTH = 0.152  # of the page's width
SECOND = 0.66  # where the second column begins
BOTTOM, TOP, BETWEEN, ROW_HEIGHT = 0.07, 0.72, 0.13, 0.0345  # of the page's height


def _title(found: Found) -> tuple[str, str]:
    record, step = found.record, found.step
    name = f"Job {plain(found.job.id)}" if found.job else plain(found.source) or "A record without its job"
    if step is not None:
        name += f", step {step.id}"
    elif found.job is not None and found.job.fields["JobName"]:
        name += f"  {plain(found.job.fields['JobName'], 28)}"
    ranks = step.ranks if step else record.wait.ranks if record.wait else 0
    policy = policy_line(step.policy if step and step.policy else record.policy)
    seen = ranks_words(record, step, ranks, "rank") if ranks or not policy.startswith("off") else "ranks not watched"
    seen += "" if record.is_complete else " seen"
    return name, f"{plain(policy, 90)} · {plural(record.nodes_of, 'node')}, {seen}"


def _tiles(found: Found, imbalance: Imbalance | None) -> list[tuple[str, str, str]]:
    """(figure, what it is, colour), the most important first."""
    record, step, wait = found.record, found.step, found.record.wait
    elapsed = step.elapsed if step else record.elapsed
    joules = step.joules if step else record.energy.joules if record.energy else None
    tiles = [(duration(elapsed), "time", INK)] if elapsed is not None else []
    if joules is not None:
        simulated = record.energy is not None and record.energy.source == "simulated"
        name = energy_nodes(record) or "energy"
        tiles.append((scaled(joules, "J"), f"{name}, simulated" if simulated else name, INK))
    if wait is not None and step is None and wait.share is not None:
        tiles.append((percent(wait.share), "of ranks' time waiting", INK))
        if wait.asleep is not None and wait.total > 0:
            tiles.append((percent(min(1.0, wait.asleep / wait.total)), "of the waiting asleep", INK))
    if imbalance is not None and imbalance.share is not None and not imbalance.lone:
        tiles.append((percent(imbalance.share), "lost to imbalance", LOST))
    return tiles


def _draw_tiles(figure: Figure, tiles: Sequence[tuple[str, str, str]]) -> None:
    for index, (value, name, colour) in enumerate(tiles):
        left = LEFT + index * TILE_WIDTH
        figure.text(left, 0.858, value, fontsize=17, fontweight="bold", color=colour, va="center")
        figure.text(left, 0.828, name, fontsize=8.5, color=QUIET, va="center")


def _draw_wait(figure: Figure, bottom: float, record: Record, step: Step | None, imbalance: Imbalance | None) -> None:
    by_rank = figure.add_axes((LEFT, bottom, 0.535, TOP - bottom))
    by_order = figure.add_axes((SECOND, bottom, RIGHT - SECOND, TOP - bottom))
    wait, ranks = record.wait, ranks_of(record, step)
    if wait is not None and ranks:
        draw_ranks(by_rank, record, ranks, step)
        draw_order(by_order, record, wait, ranks, imbalance)
    elif wait is not None and wait.quantiles and step is None:
        draw_distribution(by_rank, record, wait)
        draw_order(by_order, record, wait, ranks, imbalance)
    else:
        why = "no MPI rank was seen" if wait is None else "the record does not tell these ranks apart"
        nothing(by_rank, "Waiting by rank", why)
        by_order.set_axis_off()


def _page(found: Found) -> Figure:
    record, step = found.record, found.step
    imbalance = imbalance_of(record, step) if not ending_of(found.job).is_broken else None
    figure = new_page(*_title(found))
    if not record.is_complete:
        stamp(figure, incomplete_line(record))
    _draw_tiles(figure, _tiles(found, imbalance))
    below = BOTTOM + ROW_HEIGHT * rows_of(record)
    _draw_wait(figure, below + BETWEEN, record, step, imbalance)
    calls = figure.add_axes((0.185, BOTTOM, 0.41, below - BOTTOM))
    if record.wait is not None and (record.wait.calls or record.wait.profile):
        draw_calls(calls, record, record.wait, LEFT)
    else:
        nothing(calls, "Waiting by call", "no call waited", LEFT)
    corner = (SECOND, BOTTOM + ROW_HEIGHT) if over_time(record) else (0.76, BOTTOM)
    power = figure.add_axes((*corner, RIGHT - corner[0], below - corner[1]))
    draw_power(power, record, SECOND)
    footer(figure, _footer(record))
    return figure


def _footer(record: Record) -> str:
    said = ["Waiting times are the ranks' own figures"]
    if record.energy is not None:
        simulated = record.energy.source == "simulated"
        said.append("energy is simulated, not measured" if simulated else "energy was read by root from the counters")
        of = {"node": whole_words(record), "gpus": "the job's GPUs alone"}
        said.append(of.get(record.energy.scope, "the job's share of its nodes"))
        said += filter(None, [gpus_tail(record.energy)])
    return "; ".join(said) + "."


def draw(path: str, founds: Sequence[Found]) -> None:
    """Writes the page. Refusal where the file cannot be written."""
    save_page(_page(founds[0]) if len(founds) == 1 else comparison_page(founds), path)
