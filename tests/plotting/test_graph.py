"""Boxes and arrows from left to right."""

import pytest
from matplotlib.patches import FancyArrowPatch

from d2lperf.plotting import graph

NODES = ["x", "w", "mul", "b", "add", "y"]
EDGES = [("x", "mul"), ("w", "mul"), ("mul", "add"), ("b", "add"), ("add", "y"), ("x", "y")]


def place(ax):
    return {text.get_text(): text.get_position() for text in ax.texts}


def boxes(ax):
    """Extents of the boxes on the canvas."""
    ax.figure.canvas.draw()
    patches = {t.get_text(): t.get_bbox_patch() for t in ax.texts if t.get_bbox_patch()}
    return {name: patch.get_window_extent() for name, patch in patches.items()}


def arrows(ax):
    return [patch for patch in ax.patches if isinstance(patch, FancyArrowPatch)]


def test_every_node_has_a_box_right_of_what_it_depends_on():
    at = place(graph(NODES, EDGES))
    assert sorted(at) == sorted(NODES)
    assert all(at[source][0] < at[target][0] for source, target in EDGES)


def test_nodes_of_a_column_stand_in_their_order_from_the_top():
    at = place(graph("abcd", [("a", "d"), ("b", "d"), ("c", "d")]))
    assert at["a"][1] > at["b"][1] > at["c"][1]


def test_boxes_do_not_overlap_and_lie_inside_the_figure():
    ax = graph(NODES, EDGES)
    found = list(boxes(ax).values())
    assert not any(a.overlaps(b) for i, a in enumerate(found) for b in found[:i])
    frame = ax.figure.bbox
    assert all(frame.x0 <= b.x0 and b.x1 <= frame.x1 for b in found)
    assert all(frame.y0 <= b.y0 and b.y1 <= frame.y1 for b in found)


def test_arrows_run_from_border_to_border():
    ax = graph(NODES, EDGES[:5])
    found = boxes(ax)
    assert len(arrows(ax)) == 5
    for (source, target), arrow in zip(EDGES, arrows(ax)):
        path = arrow.get_path()
        x = arrow.get_transform().transform(path.vertices[path.codes != path.CLOSEPOLY])[:, 0]
        near = 4 * ax.figure.dpi / 72
        assert found[source].x1 - near <= x.min() < x.max() <= found[target].x0 + near


def test_highlighted_nodes_look_different():
    faces = {t.get_text(): t.get_bbox_patch().get_facecolor() for t in
             graph(NODES, EDGES, highlight=["mul"]).texts}  # fmt: skip
    assert faces["mul"] != faces["add"] == faces["x"]


def test_single_node_and_any_hashable():
    graph(["alone"], []).figure.canvas.draw()
    graph([("a", 1), 7, 2.5], [(("a", 1), 7)]).figure.canvas.draw()


@pytest.mark.parametrize(
    ("nodes", "edges", "words"),
    [
        ("", "", "at least one node"),
        ("ab", [("a", "c")], r"both ends of \[\('a', 'c'\)\] among the nodes \['a', 'b'\]"),
        ("aab", [], r"each node once, but got more than one of \['a'\]"),
        ("ab", ["ab", "ba"], r"no cycles, but got \[\('a', 'b'\), \('b', 'a'\)\]"),
    ],
)
def test_graph_says_what_is_wrong(nodes, edges, words):
    with pytest.raises(ValueError, match=words):
        graph(nodes, edges)


def test_an_edge_over_several_columns_is_bent():
    bent = [arrow.get_connectionstyle().rad != 0 for arrow in arrows(graph(NODES, EDGES))]
    assert sum(bent) == 2  # from x and from b
