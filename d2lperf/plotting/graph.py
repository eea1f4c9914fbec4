"""Small graphs of nodes and arrows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from d2lperf.plotting import style
from d2lperf.plotting.colours import COLOURS, INK, SOFT

_INPUT, _NODE, _RESULT, _MARKED = (
    ("#F2F2F2", SOFT),
    ("#DCEBF5", COLOURS["blue"]),
    ("#D9F0E8", COLOURS["green"]),
    ("#FBE3B5", COLOURS["vermillion"]),
)


def graph(
    nodes: Iterable[Hashable],
    edges: Iterable[Sequence[Any]],
    *,
    labels: Mapping[Any, str] | None = None,
    highlight: Iterable[Hashable] = (),
    ax: Any = None,
) -> Any:
    """Draw a small directed graph without cycles, such as a data flow, from left to right.

    Each node stands one column right of the last of those it depends on (networkx's topological
    generations). Inputs are grey, results green, highlighted nodes orange, others blue.

    Args:
        nodes: names, in the order in which they stand in their column from the top.
        edges: pairs (from, to), or triples (from, to, text beside the arrow).
        labels: texts to show instead of the names.
        highlight: nodes to stand out.
        ax: where to draw.

    Returns:
        The axes.

    Raises:
        ValueError: no nodes, an edge or a label of a node that is not given, or a cycle.
    """
    import networkx as nx

    nodes, edges = list(nodes), [tuple(edge) for edge in edges]
    labels, highlight = dict(labels or {}), set(highlight)
    if not nodes:
        raise ValueError("there are no nodes to draw")
    for node in [*(end for edge in edges for end in edge[:2]), *labels, *highlight]:
        if node not in nodes:
            raise ValueError(f"an edge, label or highlight names {node!r}, which is not a node")
    flow = nx.DiGraph()
    flow.add_nodes_from(nodes)
    flow.add_edges_from(edge[:2] for edge in edges)
    if not nx.is_directed_acyclic_graph(flow):
        cycle = [str(a) for a, _ in nx.find_cycle(flow)]
        raise ValueError(f"the graph has a cycle: {' -> '.join([*cycle, cycle[0]])}")
    layers = [sorted(layer, key=nodes.index) for layer in nx.topological_generations(flow)]
    column = {node: i for i, layer in enumerate(layers) for node in layer}
    text = {node: str(labels.get(node, node)) for node in nodes}
    place = nx.multipartite_layout(flow, dict(enumerate(layer[::-1] for layer in layers)))
    widest = max(len(line) for label in text.values() for line in label.split("\n"))
    tall = max(label.count("\n") + 1 for label in text.values())
    across = min(12.0, len(layers) * (0.09 * widest + 0.75))
    ax = style.axes(ax, across, 0.4 + max(map(len, layers)) * (0.3 + 0.25 * tall))
    ax.set_axis_off()
    ax.margins(0.6 / (len(layers) + 1), 0.15 if max(map(len, layers)) > 1 else 0.5)
    boxes = {}
    for node in nodes:
        fill, line = _NODE
        if node in highlight:
            fill, line = _MARKED
        elif not flow.in_degree(node):
            fill, line = _INPUT
        elif not flow.out_degree(node):
            fill, line = _RESULT
        box = {"facecolor": fill, "edgecolor": line, "boxstyle": "round,pad=0.5"}
        drawn = nx.draw_networkx_labels(
            flow, place, {node: text[node]}, font_size=10, font_color=INK, bbox=box, ax=ax
        )
        boxes |= drawn
    for source, target, *label in edges:
        far = column[target] - column[source] > 1
        (arrow,) = nx.draw_networkx_edges(
            flow, place, [(source, target)], node_size=0, edge_color="#666666", arrowsize=14,
            connectionstyle=f"arc3,rad={-0.25 if far else 0}", ax=ax,
        )  # fmt: skip
        arrow.set(patchA=boxes[source].get_bbox_patch(), patchB=boxes[target].get_bbox_patch())
        arrow.set_zorder(5)  # after the boxes, where it ends
        if label:
            nx.draw_networkx_edge_labels(
                flow, place, {(source, target): str(label[0])}, font_size=9, rotate=False, ax=ax
            )
    for written in ax.texts:
        written.set(parse_math=False, clip_on=False)
    return ax
