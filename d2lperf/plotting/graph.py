"""Small graphs of nodes and arrows."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from d2lperf.plotting import style
from d2lperf.plotting.colours import COLOURS, INK, SOFT

_NODE, _INPUT = ("#DCEBF5", COLOURS["blue"]), ("#F2F2F2", SOFT)  # face, edge
_MARKED = "#FBE3B5", COLOURS["vermillion"]


def graph(
    nodes: Iterable[Hashable], edges: Iterable[Sequence[Any]], *,
    labels: Mapping[Any, str] | None = None, highlight: Iterable[Hashable] = (), ax: Any = None,
) -> Any:  # fmt: skip
    """Draw a small directed graph without cycles, from left to right; return the axes.

    Each node stands right of those it depends on (networkx's topological generations), an input
    just left of the first node that needs it. Inputs are grey, highlighted nodes orange.

    Args:
        nodes: names, in the order in which they stand in their column from the top.
        edges: pairs (from, to), or triples (from, to, text beside the arrow).
        labels: texts to show instead of the names.
        highlight: nodes to stand out.
        ax: where to draw; a new figure by default.

    Raises:
        ValueError: no nodes, an edge or a label of a node that is not given, or a cycle.
    """
    import networkx as nx

    nodes, edges, labels = list(nodes), [tuple(edge) for edge in edges], dict(labels or {})
    used = {*(end for edge in edges for end in edge[:2]), *labels, *highlight}
    if not nodes or used - set(nodes):
        raise ValueError(f"these are not nodes: {used - set(nodes)}" if nodes else "no nodes")
    flow = nx.DiGraph(edge[:2] for edge in edges)
    flow.add_nodes_from(nodes)
    if not nx.is_directed_acyclic_graph(flow):
        raise ValueError(f"the graph has a cycle: {nx.find_cycle(flow)}")
    column = {n: i for i, layer in enumerate(nx.topological_generations(flow)) for n in layer}
    for node in nodes:
        if not flow.in_degree(node) and flow.out_degree(node):
            column[node] = min(column[after] for after in flow[node]) - 1
    layers = [[n for n in nodes[::-1] if column[n] == i] for i in range(max(column.values()) + 1)]
    place = nx.multipartite_layout(flow, dict(enumerate(layers)))
    text = {node: str(labels.get(node, node)) for node in nodes}
    wide = max(len(line) for label in text.values() for line in label.split("\n"))
    tall = max(label.count("\n") for label in text.values())
    rows, columns = max(map(len, layers)), len(layers)
    ax = style.axes(ax, min(12, columns * (0.09 * wide + 0.75)), rows * (0.55 + 0.25 * tall) + 0.4)
    ax.set_axis_off()
    ax.margins(0.6 / (columns + 1), 0.15 if rows > 1 else 0.5)
    boxes = {}
    for node in nodes:
        fill, line = _NODE if flow.in_degree(node) else _INPUT
        fill, line = _MARKED if node in highlight else (fill, line)
        box = {"facecolor": fill, "edgecolor": line, "boxstyle": "round,pad=0.5"}
        boxes |= nx.draw_networkx_labels(
            flow, place, {node: text[node]}, font_size=10, font_color=INK, bbox=box, ax=ax
        )
    for source, target, *label in edges:
        bend = 0.25 if column[target] - column[source] > 1 else 0  # around what lies between
        (arrow,) = nx.draw_networkx_edges(
            flow, place, [(source, target)], node_size=0, edge_color="#666666", arrowsize=14, ax=ax,
            connectionstyle=f"arc3,rad={-bend if place[source][1] >= 0 else bend}",
        )  # fmt: skip
        arrow.set(patchA=boxes[source].get_bbox_patch(), patchB=boxes[target].get_bbox_patch())
        arrow.set_zorder(5)  # it ends where a box ends, so the boxes are drawn first
        if label:
            beside = nx.draw_networkx_edge_labels(
                flow, place, {(source, target): str(label[0])}, font_size=9, rotate=False, ax=ax
            )
            beside[source, target].set_zorder(6)
    for written in ax.texts:
        written.set(parse_math=False, clip_on=False)
    return ax
