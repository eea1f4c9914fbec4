"""The bars of `plotting.gantt`, read from the axes."""

from matplotlib.patches import PathPatch


def boxes(ax):
    """(left, right, top, bottom, colour) of each bar, by top and left."""
    found = []
    for patch in ax.patches:
        if isinstance(patch, PathPatch):
            for corners in patch.get_path().vertices.reshape(-1, 5, 2):
                (left, top), (right, bottom) = corners[:4].min(axis=0), corners[:4].max(axis=0)
                colour = tuple(patch.get_facecolor())
                found.append((*map(float, (left, right, top, bottom)), colour))
    return sorted(found, key=lambda box: (box[2], box[0]))
