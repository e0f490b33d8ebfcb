"""Settings of the documentation site: `make docs`."""

import sys
from importlib.metadata import version as installed
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "dpcov"
version = release = installed("dpcov")
language = "en"
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.mathjax",
    "dpcov_site",
]
exclude_patterns = ["_build", "_ext"]
default_role = "py:obj"
needs_sphinx = "8.0"
smartquotes = False

html_theme = (
    "furo"  # all it needs is in the folder that is built: no network, no fonts from elsewhere
)
html_title = "dpcov"
html_static_path = ["_static"]
html_css_files = ["print.css"]  # the page for the data protection officer fits on one sheet
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

mathjax_path = "mathjax/tex-chtml.js"  # dpcov_site copies the file: no network

myst_heading_anchors = 3
myst_enable_extensions = ["dollarmath"]

autodoc_typehints = "none"  # they are in the signature
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = ["Guarantee", "Sensitivity", "Not protected", "Cost", "Source"]
