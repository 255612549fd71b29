#!/usr/bin/env python3
"""Draws the temperatures that `jacobi1d --output` wrote: the beginning, and the end with and without a death.

    plot_profile.py --out profile.svg --pes 4 --dead 2 without-kill.csv with-kill.csv
"""

import argparse
import csv

import matplotlib.pyplot as plt
import plot_style
from plot_style import BLUE, INK, ORANGE, QUIET, RED


def read_profile(path: str):
    with open(path, encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [int(r["cell"]) for r in rows], [float(r["initial"]) for r in rows], [float(r["final"]) for r in rows]


def draw(without_path: str, with_path: str, out: str, pes: int, dead: int) -> None:
    cells, initial, without = read_profile(without_path)
    with_cells, _, with_kill = read_profile(with_path)
    if with_cells != cells:
        raise SystemExit("plot_profile: error: the two files are not about the same cells")
    total = cells[-1] + (cells[1] - cells[0])
    plot_style.begin()
    figure, (top, bottom) = plt.subplots(2, 1, figsize=(10, 5.6), sharex=True, height_ratios=[5, 1],
                                         layout="constrained")
    top.plot(cells, initial, color=QUIET, linewidth=0.8, label="beginning")
    top.plot(cells, without, color=BLUE, linewidth=3.2, alpha=0.55, label="end, nobody died")
    top.plot(cells, with_kill, color=ORANGE, linewidth=1.3, label=f"end, PE {dead} killed on the way")
    top.set_ylabel("temperature")
    top.legend(frameon=False, loc="upper right", ncols=3, bbox_to_anchor=(1.0, 1.14), borderaxespad=0)
    top.set_title("Jacobi, one dimension", loc="left", fontweight="bold")

    difference = [a - b for a, b in zip(with_kill, without)]
    largest = max(map(abs, difference))
    bottom.plot(cells, difference, color=RED if largest else BLUE, linewidth=1.3)
    bottom.set_ylim((-1, 1) if largest == 0 else (-1.2 * largest, 1.2 * largest))
    bottom.set_yticks([0])
    bottom.set_ylabel("difference")
    bottom.text(0.01, 0.78, "zero everywhere" if largest == 0 else f"largest: {largest:.3g}",
                transform=bottom.transAxes, va="center")
    bottom.set_xlabel("cell")

    for axes in (top, bottom):
        axes.set_xlim(0, total)
        axes.spines[["top", "right"]].set_visible(False)
        axes.axvspan(total * dead / pes, total * (dead + 1) / pes, color=RED, alpha=0.06, linewidth=0)
        for pe in range(1, pes):
            axes.axvline(total * pe / pes, color=QUIET, linewidth=0.8, linestyle=(0, (4, 4)))
    low, high = top.get_ylim()
    top.set_ylim(low - 0.06 * (high - low), high)
    for pe in range(pes):
        top.text(total * (pe + 0.5) / pes, top.get_ylim()[0] + 0.02 * (high - low), f"PE {pe}", ha="center",
                 color=RED if pe == dead else INK)
    plot_style.save(figure, out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", required=True, help="picture to write; its name ends in .svg or .png")
    parser.add_argument("--pes", type=int, required=True)
    parser.add_argument("--dead", type=int, required=True, help="PE that was killed")
    parser.add_argument("without_kill")
    parser.add_argument("with_kill")
    options = parser.parse_args()
    draw(options.without_kill, options.with_kill, options.out, options.pes, options.dead)


if __name__ == "__main__":
    main()
