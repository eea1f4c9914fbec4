"""Small graphs of nodes and arrows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from d2lperf.plotting import style
from d2lperf.plotting.colours import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def graph(
    nodes: Sequence[str],
    edges: Sequence[tuple[str, str]],
    *,
    highlight: Collection[str] = (),
    ax: Axes | None = None,
) -> Axes:
    """Draw a small directed graph without cycles, from left to right; return the axes.

    Each node stands right of those it depends on (networkx's topological generations).

    Args:
        nodes: names, in the order in which they stand in their column from the top.
        edges: pairs (from, to).
        highlight: nodes to stand out.

    Raises:
        ValueError: no nodes, one of them twice, a cycle, or an edge to something else.
    """
    import networkx as nx

    _check(nodes, edges)
    flow = nx.DiGraph(edges)
    flow.add_nodes_from(nodes)
    if not nx.is_directed_acyclic_graph(flow):
        raise ValueError(f"graph draws no cycles, but got {nx.find_cycle(flow)}")
    layers = [[n for n in nodes[::-1] if n in layer] for layer in nx.topological_generations(flow)]
    place = nx.multipartite_layout(flow, dict(enumerate(layers)))
    rows, wide = max(map(len, layers)), max(len(str(node)) for node in nodes)
    ax = style.axes(ax, min(12, len(layers) * (0.09 * wide + 0.75)), 0.55 * rows + 0.4)
    ax.set_axis_off()
    ax.margins(0.6 / (len(layers) + 1), 0.15 if rows > 1 else 0.5)
    box = {"facecolor": "#DCEBF5", "edgecolor": COLOURS["blue"], "boxstyle": "round,pad=0.5"}
    texts = nx.draw_networkx_labels(flow, place, {n: str(n) for n in nodes}, 10, bbox=box, ax=ax)
    for node, text in texts.items():
        text.set(parse_math=False, clip_on=False)
        text.get_bbox_patch().set(facecolor="#FBE3B5" if node in highlight else "#DCEBF5")
    column = {node: i for i, layer in enumerate(layers) for node in layer}
    arrows = nx.draw_networkx_edges(flow, place, edges, node_size=0, arrowsize=14, ax=ax)
    for arrow, (source, target) in zip(arrows, edges):
        bend = 0.0
        if column[target] - column[source] > 1:  # it goes around what lies between
            bend = -0.25 if place[source][1] >= 0 else 0.25
        arrow.set_connectionstyle("arc3", rad=bend)
        boxes = texts[source].get_bbox_patch(), texts[target].get_bbox_patch()
        arrow.set(patchA=boxes[0], patchB=boxes[1], zorder=5)  # boxes are drawn first
    return ax


def _check(nodes: Sequence[str], edges: Sequence[tuple[str, str]]) -> None:
    """Raise ValueError unless each node is there once, and each edge is between two of them."""
    if not nodes:
        raise ValueError("graph needs at least one node")
    twice = [node for node, count in Counter(nodes).items() if count > 1]
    if twice:
        raise ValueError(f"graph needs each node once, but got more than one of {twice}")
    loose = [edge for edge in edges if not {*edge} <= {*nodes}]
    if loose:
        raise ValueError(f"graph needs both ends of {loose} among the nodes {list(nodes)}")
