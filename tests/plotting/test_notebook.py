"""Figures of a notebook have twice the pixels, at the same size on the page."""

import base64
import io

import nbclient
import nbformat
from PIL import Image

DRAW = "from d2lperf import plotting\nplotting.bars({'a': 1.0});"


def drawn(*sources):
    """(width on the page, width of the picture) of the figure that the cells draw."""
    cells = [nbformat.v4.new_code_cell(source) for source in sources]
    book = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    (output,) = book.cells[-1].outputs
    with Image.open(io.BytesIO(base64.b64decode(output.data["image/png"]))) as image:
        return output.metadata.get("image/png", {}).get("width"), image.width


def test_a_figure_has_twice_the_pixels():
    shown, pixels = drawn(DRAW)
    assert abs(pixels - 2 * shown) <= 1
