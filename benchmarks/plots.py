#!/usr/bin/env python3
"""Draws what script/bench has measured: an SVG beside each JSON that it knows.

    plots.py bench-out

Checkpoint and recovery over the size of the state and over the number of PEs, the run time with deaths (the thesis's figures 6.1,
6.2 and 6.4, of this system), schemes of redundancy, checkpoints in the background, small ones, applications between their checkpoints. Bounds
are dashed: what copies of the same bytes took in the same run.
"""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import matplotlib.pyplot as plt  # noqa: E402
import plot_style  # noqa: E402
from plot_style import BLUE, GREEN, INK, ORANGE, QUIET, RED  # noqa: E402

DASHED = (0, (4, 3))


def rows_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("{")]


def picture(title, x_label, y_label):
    figure, axes = plt.subplots(figsize=(8.4, 4), layout="constrained")
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    return figure, axes


def finish(figure, axes, out):
    axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1))
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    plot_style.save(figure, str(out))
    print(f"plots: {out}")


def draw_lines(rows, what, key, axes, label, colour, bound=None):
    """One kind of row over the size or the number of PEs; with `bound`, its bound beside it, under that name."""
    mine = {}
    for row in rows:
        if row["what"] == what:  # each survivor tells of its recovery: the slowest counts
            before = mine.get(row[key])
            mine[row[key]] = row if before is None or row["median_ms"] > before["median_ms"] else before
    if not mine:
        return
    xs = sorted(mine)
    axes.plot(xs, [mine[x]["median_ms"] for x in xs], color=colour, marker="o", markersize=4, label=label)
    if bound is not None:
        axes.plot(xs, [mine[x]["bound_ms"] for x in xs], color=colour, linestyle=DASHED, linewidth=1, label=bound)


def draw_over(path, key, x_label, title):
    rows = rows_of(path)
    figure, axes = picture(f"Checkpoint {title}", x_label, "milliseconds")
    draw_lines(rows, "first", key, axes, "the first one", ORANGE, "first touch of two copies")
    draw_lines(rows, "dirty", key, axes, "all has changed", BLUE, "two copies")
    draw_lines(rows, "sparse", key, axes, "1 % of the pages has changed", GREEN)
    draw_lines(rows, "clean", key, axes, "nothing has changed", QUIET)
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(sorted({row[key] for row in rows}), [str(x) for x in sorted({row[key] for row in rows})])
    axes.minorticks_off()
    finish(figure, axes, path.with_suffix(".svg"))
    figure, axes = picture(f"Recovery {title}", x_label, "milliseconds")
    draw_lines(rows, "recovery", key, axes, "from the failed call to the return of shmem_restart_pes", RED, "two copies")
    axes.set_ylim(bottom=0)
    finish(figure, axes, path.with_name(path.stem + "_recovery.svg"))


def draw_faults(path):
    rows = json.loads(path.read_text(encoding="utf-8"))
    figure, axes = picture("jacobi1d with deaths of PEs", "deaths", "seconds")
    deaths = [row["deaths"] for row in rows]
    axes.bar(deaths, [row["seconds"] for row in rows], color=BLUE, width=0.6, label="run time")
    axes.plot(deaths, [row["expected_s"] for row in rows], color=INK, marker="_", markersize=24, linestyle="none",
              label="expected: lost interval and recovery for each")
    axes.axhline(rows[0]["seconds_without_copies"], color=RED, linestyle=DASHED, label="without copies and deaths")
    axes.set_xticks(deaths)
    axes.set_ylim(0, 1.25 * max(row["seconds"] for row in rows))
    finish(figure, axes, path.with_suffix(".svg"))


def draw_schemes(path):
    rows = json.loads(path.read_text(encoding="utf-8"))
    names = [f"{row['mode']}\n{row['pes']} PEs, {row['nodes']} node{'s' if row['nodes'] > 1 else ''}\n"
             f"{row['memory_states']:.1f} x memory" for row in rows]
    figure, axes = picture(f"Schemes of redundancy, {rows[0]['mib']} MiB per PE", "", "milliseconds")
    places = range(len(rows))
    for offset, key, label, colour in ((-0.2, "checkpoint_ms", "checkpoint, all has changed", BLUE),
                                       (0.2, "recovery_ms", "recovery", RED)):
        axes.bar([place + offset for place in places], [row[key] for row in rows], width=0.38, color=colour, label=label)
    axes.plot(places, [2 * row["memcpy_ms"] for row in rows], color=INK, marker="_", markersize=30, linestyle="none",
              label="two copies of all PEs at once")
    axes.set_xticks(list(places), names, fontsize=8)
    finish(figure, axes, path.with_suffix(".svg"))


def draw_background(path):
    rows = rows_of(path)
    calls = [row for row in rows if row["what"] == "stall"]
    steps = [row for row in rows if row["what"] == "step"]
    copies = [row["ms"] for row in rows if row["what"] == "memcpy"]
    names = [f"{row['pes']} PE{'s' if row['pes'] > 1 else ''}\n{row['percent']} % changed\n{row['setting']}" for row in calls]
    figure, axes = picture(f"Checkpoints while the program goes on, {calls[0]['mib']} MiB per PE", "", "milliseconds")
    places = range(len(calls))
    bars = [
        ([row["all_ms"] for row in calls], "shmem_checkpoint_all, the call", BLUE),
        ([row["nb_ms"] for row in calls], "shmem_ft_checkpoint_nb, the call", GREEN),
        ([row["all_ms"] - row["none_ms"] for row in steps], "what the first adds to a step", ORANGE),
        ([row["nb_ms"] - row["none_ms"] for row in steps], "what the second adds to a step", RED),
    ]
    for number, (values, label, colour) in enumerate(bars):
        offset = 0.2 * (number - 1.5)
        axes.bar([place + offset for place in places], values, width=0.18, color=colour, label=label)
    axes.plot(places, [copy * row["percent"] / 100 for copy, row in zip(copies, calls, strict=True)], color=INK, marker="_",
              markersize=30, linestyle="none", label="one copy of what has changed")
    axes.set_xticks(list(places), names, fontsize=8)
    finish(figure, axes, path.with_suffix(".svg"))


def draw_small(path):
    rows = rows_of(path)
    figure, axes = picture("A checkpoint with nothing to copy", "PEs", "microseconds")
    pes = [row["pes"] for row in rows]
    axes.plot(pes, [row["checkpoint_us"] for row in rows], color=BLUE, marker="o", markersize=4, label="checkpoint")
    axes.plot(pes, [row["barrier_us"] for row in rows], color=QUIET, marker="o", markersize=4, label="barrier")
    axes.plot(pes, [8 * row["barrier_us"] for row in rows], color=QUIET, linestyle=DASHED, label="eight barriers")
    axes.set(xscale="log", yscale="log")
    axes.set_xticks(pes, [str(n) for n in pes])
    axes.minorticks_off()
    finish(figure, axes, path.with_suffix(".svg"))


def draw_applications(path):
    rows = [row for row in json.loads(path.read_text(encoding="utf-8")) if row["mode"] != "none"]
    figure, axes = picture("Applications between their checkpoints", "", "time of the rest, with copies / without")
    names = [f"{row['program']} {row['flags']}, {row['mode']}" for row in rows]
    axes.barh(names, [row["rest_s_ratio"] for row in rows], color=BLUE, height=0.6, label="median of pairs of runs")
    axes.axvline(1, color=INK, linewidth=1)
    axes.axvline(1.02, color=RED, linestyle=DASHED, linewidth=1, label="2 % more")
    axes.set_xlim(0.8, max(1.1, 1.02 * max(row["rest_s_ratio"] for row in rows)))
    axes.tick_params(axis="y", labelsize=7)
    axes.invert_yaxis()
    axes.set_xlabel(axes.get_ylabel())
    axes.set_ylabel("")
    finish(figure, axes, path.with_suffix(".svg"))


DRAWN = {
    "checkpoint.jsonl": lambda path: draw_over(path, "mib", "MiB of symmetric heap in each of 2 PEs", "over the state"),
    "checkpoint_pes.jsonl": lambda path: draw_over(path, "pes", "PEs of 16 MiB on this machine", "over the number of PEs"),
    "faults.json": draw_faults,
    "schemes.json": draw_schemes,
    "background.jsonl": draw_background,
    "small_checkpoints.jsonl": draw_small,
    "application_overhead.json": draw_applications,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    found = [folder / name for name in DRAWN if (folder / name).exists()]
    if not found:
        sys.exit(f"plots: error: {folder} has none of {', '.join(DRAWN)}: script/bench makes them")
    plot_style.begin()
    for path in found:
        DRAWN[path.name](path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
