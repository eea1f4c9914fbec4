"""What is drawn, read from the axes."""

from matplotlib.patches import PathPatch


def names(ax):
    """The names of the rows."""
    return [label.get_text() for label in ax.get_yticklabels()]


def texts(ax):
    return [text.get_text() for text in ax.texts]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()] if ax.get_legend() else []


def boxes(ax):
    """(left, right, top, bottom, colour) of each bar of `plotting.gantt`, by top and left."""
    found = []
    for patch in ax.patches:
        if isinstance(patch, PathPatch):
            for corners in patch.get_path().vertices.reshape(-1, 5, 2):
                (left, top), (right, bottom) = corners[:4].min(axis=0), corners[:4].max(axis=0)
                colour = tuple(patch.get_facecolor())
                found.append((*map(float, (left, right, top, bottom)), colour))
    return sorted(found, key=lambda box: (box[2], box[0]))
