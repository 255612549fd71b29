#!/usr/bin/env python3
"""Draws the table of costs that the simulator wrote: `sim --cost --json costs.json`.

    plot_costs.py --out costs.svg costs.json
"""

import argparse
import json

import matplotlib.pyplot as plt
import plot_style
from plot_style import BLUE, GREEN, INK, ORANGE, QUIET, RED

LINES = [
    ("recovery", "recovery: restart, restore, protect", RED),
    ("checkpoint", "checkpoint: arrive, ship, fold", BLUE),
    ("leader_fault", "the leader's death agreed", ORANGE),
    ("fault", "another death agreed", GREEN),
]


def draw(table: dict, out: str) -> None:
    rows = table["rows"]
    pes = [row["pes"] for row in rows]
    plot_style.begin()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for key, label, colour in LINES:
        style = (0, (4, 3)) if key == "fault" else "solid"
        left.plot(pes, [row[key]["us"] for row in rows], color=colour, marker="o", markersize=4, label=label,
                  linestyle=style)
    left.set_ylim(bottom=0)
    left.set_ylabel("microseconds")
    left.set_title("Control: grows with log P", loc="left", fontweight="bold")
    left.legend(frameon=False, fontsize=8)

    parts = [("detection_ms", "detection", QUIET), ("recovery_data_ms", "recovery, data", RED),
             ("checkpoint_data_ms", "checkpoint, data", BLUE)]
    for key, label, colour in parts:
        right.plot(pes, [row[key] for row in rows], color=colour, marker="o", markersize=4, label=label)
    right.plot(pes, [row["recovery"]["us"] / 1000 for row in rows], color=INK, marker="o", markersize=4,
               label="recovery, control")
    right.set_yscale("log")
    right.set_ylabel("milliseconds")
    right.set_title("All of it: the same at any size", loc="left", fontweight="bold")
    right.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_xlabel("PEs")
        axes.spines[["top", "right"]].set_visible(False)
    plot_style.save(figure, out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", required=True, help="picture to write; its name ends in .svg or .png")
    parser.add_argument("table", help="what the simulator wrote with --json")
    options = parser.parse_args()
    with open(options.table, encoding="utf-8") as file:
        table = json.load(file)
    draw(table, options.out)


if __name__ == "__main__":
    main()
