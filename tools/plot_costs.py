#!/usr/bin/env python3
"""Draws the table of costs that the simulator wrote: `sim --cost --json costs.json`.

    plot_costs.py --out costs.svg costs.json
"""

import argparse
import json

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

INK = "#22303c"
QUIET = "#b9c3cc"
LINES = [
    ("recovery", "recovery: restart, restore, protect", "#c8102e"),
    ("checkpoint", "checkpoint: arrive, ship, fold", "#1769aa"),
    ("leader_fault", "the leader's death agreed", "#f28c28"),
    ("fault", "another death agreed", "#5b8c5a"),
]


def draw(table: dict, out: str) -> None:
    rows = table["rows"]
    pes = [row["pes"] for row in rows]
    plt.rcParams.update({"font.size": 10, "font.family": "DejaVu Sans", "text.color": INK, "axes.edgecolor": QUIET,
                         "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "svg.fonttype": "none"})
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    for key, label, colour in LINES:
        style = (0, (4, 3)) if key == "fault" else "solid"
        left.plot(pes, [row[key]["us"] for row in rows], color=colour, marker="o", markersize=4, label=label,
                  linestyle=style)
    left.set_ylim(bottom=0)
    left.set_ylabel("microseconds")
    left.set_title("Control: grows with log P", loc="left", fontweight="bold")
    left.legend(frameon=False, fontsize=8)

    parts = [("detection_ms", "detection", "#b9c3cc"), ("recovery_data_ms", "recovery, data", "#c8102e"),
             ("checkpoint_data_ms", "checkpoint, data", "#1769aa")]
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
    figure.savefig(out, metadata={"Date": None} if out.endswith(".svg") else None)


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
