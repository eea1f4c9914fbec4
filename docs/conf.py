"""Settings of the web page for Sphinx; docs/book.py calls it."""

import shutil
from importlib.util import find_spec
from pathlib import Path

from book import BUILD, repository

from d2lperf import __version__

project = "d2lperf"
author = "the d2lperf authors"
copyright = "the d2lperf authors, MIT licence"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["README.md"]  # index.md includes its table of notebooks
default_role = "code"  # docstrings write `names` as Markdown does

# Notebooks show their stored outputs.
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

# The package's pages come from its docstrings, without torch and the other large libraries.
autosummary_generate = True
autodoc_mock_imports = [
    *("cloudpickle", "IPython", "matplotlib", "networkx", "numpy", "pandas", "pooch", "psutil"),
    *("requests", "scipy", "torch", "torchvision", "tqdm"),
]
autodoc_preserve_defaults = True
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": False}
napoleon_numpy_docstring = False
napoleon_use_ivar = True
toc_object_entries = False

mathjax_path = "mathjax/tex-chtml.js"  # served with the page

html_theme = "sphinx_book_theme"
html_title = "d2lperf"
html_static_path = [str(BUILD / "static")]
html_favicon = str(BUILD / "static" / "favicon.svg")
html_css_files = ["book.css"]
html_js_files = ["book.js"]
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_theme_options = {
    "navbar_persistent": [],  # the search box stands in the side bar
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "use_download_button": True,
    "use_fullscreen_button": False,
    "article_header_end": ["article-header-buttons"],
}
if repository().startswith("https://github.com/"):  # Colab opens no others
    html_theme_options |= {
        "repository_url": repository(),
        "repository_branch": "main",
        "use_repository_button": True,
        "use_issues_button": True,
        "launch_buttons": {"colab_url": "https://colab.research.google.com"},
    }


def add_mathjax(app, error):
    """Copy MathJax and its fonts from the package that has them."""
    if error:
        return
    package = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
    served = Path(app.outdir) / "_static" / "mathjax"
    fonts = "output/chtml/fonts"
    shutil.copytree(package / fonts, served / fonts, dirs_exist_ok=True)
    shutil.copy(package / "tex-chtml.js", served)


def without_launch_buttons(app, page, template, context, doctree):
    """Take them from the pages of notebooks whose kernels Colab does not have."""
    if page.startswith("notebooks/frameworks/"):
        buttons = context["header_buttons"]
        context["header_buttons"] = [b for b in buttons if b.get("label") != "launch-buttons"]


def setup(app):
    """Tell Sphinx what to do after the theme, and at the end."""
    app.connect("html-page-context", without_launch_buttons, priority=900)
    app.connect("build-finished", add_mathjax)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
