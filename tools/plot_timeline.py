#!/usr/bin/env python3
"""Draws what every process of a job did, from the file of `oshrun --events`: the whole run above, the failure below.

    plot_timeline.py --out timeline.svg events.jsonl
"""

import argparse
import dataclasses
import json

import matplotlib.pyplot as plt
import plot_style
from matplotlib.patches import Patch
from plot_style import BLUE, INK, ORANGE, RED

COLOURS = {
    "asleep": "#e9edf0",
    "compute": "#a8cdea",
    "lost": "#f6c9cf",
    "checkpoint": BLUE,
    "waiting": "#8fa3b3",
    "recovery": ORANGE,
}
NAMES = {
    "asleep": "spare, asleep",
    "compute": "compute",
    "lost": "compute, rolled back",
    "checkpoint": "checkpoint",
    "waiting": "agree on the failure",
    "recovery": "recovery",
}
# Spans of the library and what they are drawn as; the parts of a restart lie inside it.
SPANS = {"checkpoint": "checkpoint", "agree": "waiting", "restart": "recovery"}


@dataclasses.dataclass
class Track:
    """One process."""

    rank: int
    label: str
    bars: list  # (begin, end, what), seconds
    death: float = -1.0


@dataclasses.dataclass
class Timeline:
    tracks: list
    end: float
    notices: list  # seconds


def _spans_of(events, rank):
    spans = [e for e in events if e["event"] == "span" and e["rank"] == rank and e["text"] in SPANS]
    return sorted(spans, key=lambda e: (e["begin_ns"], -e["end_ns"]))


def _commit_of(events, version):
    """When the first PE left the checkpoint of that version."""
    commits = [e for e in events if e["event"] == "span" and e["text"] == "checkpoint" and e["value"] == version]
    return min((e["end_ns"] for e in commits), default=0)


def _track(events, rank, origin, deaths, job_end, label, restarts):
    spans = _spans_of(events, rank)
    taken = next((e for e in events if e["event"] == "pe_taken" and e["rank"] == rank), None)
    is_spare = label.startswith("spare")
    death = deaths.get(rank)
    end = death if death is not None else job_end
    bars = []
    if is_spare:
        woken = min((s["begin_ns"] for s in spans), default=end)
        bars.append((origin, woken, "asleep"))
        at = woken
    else:
        at = min((s["begin_ns"] for s in spans), default=end)
    for span in spans:
        begin, finish = max(span["begin_ns"], at), min(span["end_ns"], end)
        if begin > at:
            bars.append((at, begin, "compute"))
        if finish > begin:
            bars.append((begin, finish, SPANS[span["text"]]))
            at = finish
    if end > at and not (is_spare and taken is None):
        bars.append((at, end, "compute"))
    # What was computed since the version that a restart went back to was for nothing.
    split = []
    for begin, finish, what in bars:
        is_lost = what == "compute" and any(since <= begin < until for since, until in restarts)
        split.append(((begin - origin) / 1e9, (finish - origin) / 1e9, "lost" if is_lost else what))
    return Track(rank, label, split, -1.0 if death is None else (death - origin) / 1e9)


def read_timeline(path: str) -> Timeline:
    with open(path, encoding="utf-8") as file:
        events = [json.loads(line) for line in file if line.strip()]
    starts = {e["rank"]: e for e in events if e["event"] == "initialized"}
    if not starts:
        raise SystemExit(f"plot_timeline: error: {path}: no process of the job reported to oshrun")
    spans = [e for e in events if e["event"] == "span"]
    origin = min((e["begin_ns"] for e in spans), default=min(e["t_ns"] for e in events))
    job_end = max(e["t_ns"] for e in events if e["event"] in ("finalized", "span", "pe_taken", "ended"))
    seen = [e for e in events if e["event"] == "failure_seen"]
    deaths: dict = {}
    for event in seen:
        dead = event["value"]  # its rank; event["rank"] is who reported it
        deaths[dead] = min(event["begin_ns"], deaths.get(dead, event["begin_ns"]))
    restarts = []
    for span in spans:
        if span["text"] == "restart":
            restarts.append((_commit_of(events, span["value"]), span["begin_ns"]))
    finished = max((e["t_ns"] for e in events if e["event"] == "finalized"), default=job_end)
    tracks = []
    for rank, start in sorted(starts.items()):
        taken = next((e for e in events if e["event"] == "pe_taken" and e["rank"] == rank), None)
        label = f"PE {start['pe']}" if start["pe"] >= 0 else "spare" + (f" → PE {taken['pe']}" if taken else "")
        tracks.append(_track(events, rank, origin, deaths, finished, label, restarts))
    return Timeline(tracks, (finished - origin) / 1e9, sorted((t - origin) / 1e9 for t in deaths.values()))


def _draw_tracks(axes, timeline: Timeline, begin: float, end: float, zero: float, scale: float) -> None:
    thinnest = (end - begin) * 0.0016  # a bar that is shorter would not be seen
    for row, track in enumerate(timeline.tracks):
        by_kind: dict = {}
        for bar_begin, bar_end, what in track.bars:
            if bar_end > begin and bar_begin < end:
                shortest = 0.0 if what in ("compute", "lost") else thinnest
                width = max(shortest, bar_end - bar_begin)
                by_kind.setdefault(what, []).append(((bar_begin - zero) * scale, width * scale))
        for what in (kind for kind in COLOURS if kind in by_kind):
            axes.broken_barh(by_kind[what], (row - 0.36, 0.72), facecolors=COLOURS[what], linewidth=0)
        if begin <= track.death <= end:
            axes.plot((track.death - zero) * scale, row, marker="x", markersize=9, markeredgewidth=2.6, color=RED,
                      zorder=5)
    axes.set_yticks(range(len(timeline.tracks)), [track.label for track in timeline.tracks])
    axes.set_ylim(len(timeline.tracks) - 0.4, -0.6)
    axes.set_xlim((begin - zero) * scale, (end - zero) * scale)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _zoom(timeline: Timeline):
    """From a little before the first notice to a little after the recovery that followed."""
    if not timeline.notices:
        return None
    first = timeline.notices[0]
    ends = [end for track in timeline.tracks for _, end, what in track.bars if what == "recovery" and end > first]
    last = min((max(e for e in ends if e <= min(ends) + 0.2),), default=first) if ends else first
    margin = max(0.35 * (last - first), 0.002)
    return max(0.0, first - margin), last + margin


def draw(events_path: str, out: str) -> None:
    timeline = read_timeline(events_path)
    zoom = _zoom(timeline)
    plot_style.begin()
    panels = 2 if zoom else 1
    height = panels * (0.9 + 0.42 * len(timeline.tracks)) + 0.7
    figure, grid = plt.subplots(panels, 1, figsize=(10, height), layout="constrained", squeeze=False)
    whole = grid[0][0]
    _draw_tracks(whole, timeline, 0.0, timeline.end, 0.0, 1.0)
    whole.set_title("The whole run", loc="left", fontweight="bold")
    whole.set_xlabel("seconds since the first checkpoint began")
    if zoom:
        whole.axvspan(*zoom, color=INK, alpha=0.12, linewidth=0)
        close = grid[1][0]
        _draw_tracks(close, timeline, *zoom, timeline.notices[0], 1e3)
        close.set_title("The failure", loc="left", fontweight="bold")
        close.set_xlabel("milliseconds since the death was noticed")
    drawn = {what for track in timeline.tracks for _, _, what in track.bars}
    handles = [Patch(color=COLOURS[what], label=NAMES[what]) for what in COLOURS if what in drawn]
    if timeline.notices:
        handles.append(plt.Line2D([], [], marker="x", markersize=8, markeredgewidth=2.4, color=RED, linestyle="none",
                                  label="death"))
    grid[-1][0].legend(handles=handles, loc="upper center", bbox_to_anchor=(0.46, -0.2), ncols=len(handles),
                       frameon=False, handlelength=1.2, columnspacing=1.4)
    plot_style.save(figure, out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--out", required=True, help="picture to write; its name ends in .svg or .png")
    parser.add_argument("events", help="file of oshrun --events")
    options = parser.parse_args()
    draw(options.events, options.out)


if __name__ == "__main__":
    main()
