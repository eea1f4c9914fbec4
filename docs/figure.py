"""Draw docs/example.svg: run the example of README.md and draw its result twice."""

import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

HERE = Path(__file__).resolve().parent


def example(readme: str) -> str:
    """Return the code of the first example in README.md."""
    code, *_ = re.findall(r"^```python\n(.*?)^```", readme, re.M | re.S)
    return code


def main() -> None:
    """Run the example and write the figure."""
    names: dict = {}
    exec(example((HERE.parent / "README.md").read_text(encoding="utf-8")), names)
    # Two runs differ in their numbers, not in the file's identifiers and date.
    plt.rcParams.update({"svg.hashsalt": "d2lperf", "font.size": 9})
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 2.6), layout="constrained")
    names["result"].plot(ax=left)
    names["result"].plot(ax=right, kind="ratios")
    for points in left.collections:
        points.set_rasterized(True)  # thousands of samples as one picture
    figure.savefig(HERE / "example.svg", metadata={"Date": None}, dpi=200)


if __name__ == "__main__":
    main()
