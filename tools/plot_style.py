"""How all pictures of this project look."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

INK = "#22303c"
QUIET = "#b9c3cc"
RED = "#c8102e"
BLUE = "#1769aa"
ORANGE = "#f28c28"
GREEN = "#5b8c5a"


def begin() -> None:
    plt.rcParams.update({"font.size": 10, "font.family": "DejaVu Sans", "text.color": INK, "axes.edgecolor": QUIET,
                         "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "svg.fonttype": "none"})


def save(figure, out: str) -> None:
    """The same picture is the same file."""
    figure.savefig(out, metadata={"Date": None} if out.endswith(".svg") else None)
    plt.close(figure)
