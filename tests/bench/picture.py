"""Shared by all pictures: size, colours that the colour-blind can tell apart, and the line that says what was measured.

Pictures are drawn from the results' JSON alone, so that they can be drawn again without measuring.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

COLOURS = {  # Okabe and Ito's; the library's policies warm, everything else cold
    "no library": "#000000", "mpi_yield_when_idle": "#0072B2", "heavy yield": "#0072B2",
    "I_MPI_WAIT_MODE": "#0072B2", "counting tool": "#56B4E9", "nap": "#D55E00", "event": "#009E73",
    "yield": "#E69F00", "profile": "#CC79A7", "umwait": "#CC79A7", "mwaitx": "#CC79A7", "no plugin": "#000000",
    "off": "#56B4E9", "nap, not told": "#CC79A7", "ladder": "#56B4E9", "forecasts": "#009E73",
}
MARKERS = {"nap": "s", "event": "^", "yield": "v", "profile": "D", "foresight": "^", "off": "v", "counting tool": "x",
           "mpi_yield_when_idle": "D", "heavy yield": "D", "I_MPI_WAIT_MODE": "D"}
NAMES = {"openmpi": "Open MPI 4.1", "openmpi-5": "Open MPI 5.0", "mpich": "MPICH 4.0", "mpich-5": "MPICH 5.0",
         "intel": "Intel MPI 2021", "openmpi-ucx": "Open MPI 4.1, UCX",
         "mpich-5-ofi-tcp": "MPICH 5.0, libfabric", "mpich-4.3-ofi": "MPICH 4.3, libfabric",
         "openmpi-5-ofi": "Open MPI 5.0, libfabric", "intel-ofi": "Intel MPI 2021, libfabric"}
UNITS = ((1e6, "s"), (1e3, "ms"), (1, "µs"))
SPARE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DPI = 110
QUANTISED = 256  # colours in the file: halves its size


class Unavailable(Exception):
    """matplotlib is not installed."""


def pyplot() -> Any:
    try:
        import matplotlib
    except ImportError as error:
        raise Unavailable("no matplotlib (Debian: python3-matplotlib)") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot as plot
    plot.rcParams.update({
        "font.size": 9, "axes.titlesize": 10, "axes.spines.top": False, "axes.spines.right": False,
        "axes.grid": True, "grid.color": "#e4e4e4", "grid.linewidth": 0.6, "axes.axisbelow": True,
        "legend.frameon": False, "lines.linewidth": 1.6, "lines.markersize": 5, "figure.constrained_layout.use": True,
    })
    return plot


def colour(variant: str, number: int = 0) -> str:
    return COLOURS.get(variant, SPARE[number % len(SPARE)])


def remark(results: dict[str, Any]) -> str:
    """Returns the small print: where, when and how the figures were measured."""
    machine = results["machine"]
    kind = "virtual machine" if machine["virtual"] else "machine"
    energy = "energy not measured" if machine["energy"].startswith("not") else f"energy {machine['energy']}"
    rounds = f"median of {results['rounds']} rounds, bars: middle half" if results["rounds"] > 1 else "one round"
    if results["benchmark"] == "launches":
        rounds = "a mark: one launch"
    short = " · SHORT FORM: shows that it runs, no more" if results["short"] else ""
    return f"{kind}, {machine['cpus']} CPUs, {energy} · {results['began'][:10]} · {rounds}{short}"


def save(figure: Any, results: dict[str, Any], path: Path) -> None:
    figure.suptitle(results["title"], fontsize=12, x=0.01, ha="left", fontweight="bold")
    figure.supxlabel(remark(results), fontsize=7.5, color="#555555", x=0.01, ha="left")
    figure.savefig(path, dpi=DPI)
    pyplot().close(figure)
    shrink(path)


def shrink(path: Path) -> None:
    try:
        from PIL import Image
    except ImportError:
        return
    with Image.open(path) as image:
        small = image.convert("RGB").quantize(QUANTISED)
    small.save(path, optimize=True)


def rows_of(results: dict[str, Any], group: str = "", variant: str = "", **point: Any) -> list[dict[str, Any]]:
    return [row for row in results["rows"]
            if (not group or row["group"] == group) and (not variant or row["variant"] == variant)
            and all(row["point"].get(key) == value for key, value in point.items())]


def variants_of(rows: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["variant"] for row in rows))


def groups_of(results: dict[str, Any]) -> list[str]:
    return list(dict.fromkeys(row["group"] for row in results["rows"]))


def title_of(group: str) -> str:
    return NAMES.get(group, group)


def legend(figure: Any, panels: Any) -> None:
    """Draws one legend for all panels, with each name once, in the line of the title."""
    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            found.setdefault(label, handle)
    figure.legend(found.values(), found.keys(), loc="upper right", ncol=len(found), fontsize=8, borderaxespad=0.1,
                  columnspacing=1.2, handlelength=1.6)


def duration(microseconds: float) -> str:
    factor, unit = next((pair for pair in UNITS if microseconds >= pair[0]), UNITS[-1])
    return f"{microseconds / factor:g} {unit}"


def line(axes: Any, rows: list[dict[str, Any]], key: str, figure: str, variant: str, factor: float = 1,
         number: int = 0, label: str | None = None) -> None:
    """Draws a figure against a key of the points, with the middle half as bars."""
    rows = sorted((row for row in rows if figure in row["figures"]), key=lambda row: row["point"][key])
    found = [row["figures"][figure] for row in rows]
    middle = [factor * item["median"] for item in found]
    bars = [[factor * max(item["median"] - item["low"], 0) for item in found],
            [factor * max(item["high"] - item["median"], 0) for item in found]]
    axes.errorbar([row["point"][key] for row in rows], middle, yerr=bars, label=label or variant, capsize=2,
                  elinewidth=0.8, color=colour(variant, number), marker=MARKERS.get(variant, "o"))


def bars(axes: Any, names: list[str], series: dict[str, list[dict[str, float] | None]], factor: float = 1,
         text: str = "{:.3g}") -> None:
    """Draws horizontal bars: for each name one per series, with its value at its end."""
    height = 0.8 / max(len(series), 1)
    for number, (variant, figures) in enumerate(series.items()):
        for place, figure in enumerate(figures):
            if figure is None:
                continue
            y = place + number * height - 0.4 + height / 2
            value = factor * figure["median"]
            axes.barh(y, value, height * 0.86, color=colour(variant, number),
                      label=variant if place == next(i for i, item in enumerate(figures) if item) else None)
            axes.plot([factor * figure["low"], factor * figure["high"]], [y, y], color="#555555", linewidth=0.8)
            axes.annotate(text.format(value), (max(value, factor * figure["high"]), y), xytext=(4, 0), va="center",
                          textcoords="offset points", fontsize=7.5)
    axes.set_yticks(range(len(names)), [title_of(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)


def duration_ticks(axes: Any, values: list[float]) -> None:
    """Makes a logarithmic axis of microseconds, with ticks at the measured values as durations."""
    axes.set_xscale("log")
    axes.xaxis.set_ticks(values, [duration(value) for value in values])
    axes.xaxis.set_minor_locator(pyplot().NullLocator())


def written(value: float) -> str:
    factor, unit = next(((factor, unit) for factor, unit in ((1e6, " M"), (1e3, " k")) if value >= factor), (1, ""))
    return f"{value / factor:g}{unit}"


def plain_log(axes: Any, which: str) -> None:
    """Makes a logarithmic axis whose numbers are written out."""
    plot = pyplot()
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    axis = axes.xaxis if which == "x" else axes.yaxis
    low, high = axis.get_view_interval()
    axis.set_major_locator(plot.LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axis.set_major_formatter(plot.FuncFormatter(lambda value, _: written(value)))
    axis.set_minor_formatter(plot.NullFormatter())


def plain_ticks(axes: Any, values: list[float], which: str = "x") -> None:
    """Puts ticks at the measured values of a logarithmic axis, written as they are."""
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_ticks(values, [f"{value:g}" for value in values])
    axis.set_minor_locator(pyplot().NullLocator())
