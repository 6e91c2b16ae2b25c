"""The Sphinx extension: what the pages load, and what fails the build."""

import importlib
import json
import re
import shutil
from pathlib import Path

from pybtex.plugin import register_plugin
from pybtex.style.formatting.unsrt import Style as UnsrtStyle
from pybtex.style.labels import BaseLabelStyle
from sphinx.util import logging

from book import packages
from book.figures import dark_colours
from lintut import palette
from lintut.check.graft import solution_of

logger = logging.getLogger(__name__)

HERE = Path(__file__).parent
STATIC = HERE / "static"
KATEX = packages.MODULES / "katex" / "dist"
PLOTLY = (packages.MODULES / "plotly.js-cartesian-dist-min"
          / "plotly-cartesian.min.js")


# -- notebooks --------------------------------------------------------------

def check_notebook(app, docname, content):
    """Warn of stored errors and of cells that were never run.

    Exercises are there to be run by the reader.
    """
    path = Path(app.env.doc2path(docname))
    if path.suffix != ".ipynb" or solution_of(path):
        return
    for index, cell in enumerate(json.loads(content[0])["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code" or not source.strip():
            continue
        fault = _fault(cell)
        if fault:
            logger.warning("cell %d (%s) %s", index,
                           source.strip().splitlines()[0], fault,
                           location=docname)


def name_solutions(app, docname, content):
    """A solved notebook differs from the reader's in its first cell too."""
    if docname.startswith("exercises/solutions/"):
        notebook = json.loads(content[0])
        first = notebook["cells"][0]
        text = "".join(first["source"]).replace("# Exercises", "# Solutions", 1)
        first["source"] = re.sub(
            r"Write your answer into.*?at\s+once\.(\s+An answer is stopped"
            r"[^.]*\.)?", "Below each question one right answer is folded; the "
            "check passes others too.", text, count=1, flags=re.S)
        content[0] = json.dumps(notebook)


def _fault(cell):
    if cell["execution_count"] is None:
        return "was never run (store its output with `python -m book run`)"
    if "raises-exception" in cell["metadata"].get("tags", []):
        return None
    for output in cell["outputs"]:
        if output["output_type"] == "error":
            return f"failed: {output['ename']}: {output['evalue']}"
    return None


# -- what a page loads ------------------------------------------------------

def used_widgets(body):
    """Names of the widgets on a page, in order of appearance."""
    return list(dict.fromkeys(re.findall(
        r'class="lintut-widget"[^>]*?data-widget="([\w-]+)"', body)))


def widget_assets():
    """lintut.widgets.assets, which needs no anywidget."""
    return importlib.import_module("lintut.widgets.assets")


def add_page_assets(app, pagename, templatename, context, doctree):
    """Scripts for plots and widgets, only on the pages that have some."""
    body = context.get("body", "")
    if "lintut-plot" in body:
        app.add_js_file("lintut-dark.js", loading_method="defer")
        app.add_js_file("plots.js", loading_method="defer")
    widgets = used_widgets(body)
    if widgets:
        app.add_css_file("lintut-widgets.css")
        app.add_js_file("widget-host.js", loading_method="defer")
    for name in widgets:
        if name not in widget_assets().names():
            logger.warning("no widget is called %s", name, location=pagename)
        app.add_js_file(f"lintut-widget-{name}.js", loading_method="defer")


# What axe finds wrong in the HTML that docutils and myst-nb write.
MENDS = [
    # roles of a bibliography's entries that ARIA no longer has
    (r' role="doc-biblioentry"', ""),
    (r'<div role="list" class="citation-list">',
     '<div class="citation-list">'),
    # a label that hides the words "Show code cell source" from speech
    (r'<summary aria-label="Toggle hidden content">', "<summary>"),
    # the empty corner of a table is no heading
    (r'<th class="head">(<p></p>)?</th>', "<td></td>"),
]


def mend_html(app, pagename, templatename, context, doctree):
    for pattern, better in MENDS:
        context["body"] = re.sub(pattern, better, context.get("body", ""))


def write_assets(app, exception):
    """Write the generated style sheets and scripts; drop what is unused."""
    if exception or app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    # Sphinx copies them only when a page has changed as well.
    shutil.copytree(STATIC, static, dirs_exist_ok=True)
    _write(static / "lintut-palette.css", palette.css(
        ":root", 'html[data-theme="dark"]'))
    _write(static / "lintut-dark.js",
           f"window.lintutDark = {json.dumps(dark_colours())};\n")
    shutil.copytree(KATEX / "fonts", static / "katex" / "fonts",
                    ignore=shutil.ignore_patterns("*.ttf", "*.woff"),
                    dirs_exist_ok=True)
    shutil.copy(KATEX / "katex.min.css", static / "katex")
    shutil.copy(PLOTLY, static / "plotly.min.js")
    _write_widgets(static)
    for unused in ("vendor", "scripts/fontawesome.js", "sphinx-thebe.js"):
        path = static / unused
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for source_map in static.rglob("*.map"):
        source_map.unlink()


def _write_widgets(static):
    """Each widget's module as text in a classic script.

    A page opened from a file may not import a module, but may import a Blob
    made from its text.
    """
    try:
        assets = widget_assets()
    except ModuleNotFoundError:
        return
    _write(static / "lintut-widgets.css", assets.css())
    for name in assets.names():
        _write(static / f"lintut-widget-{name}.js",
               f"lintutWidgets.register({json.dumps(name)}, "
               f"{json.dumps(assets.module(name))});\n")


def _write(path, text):
    path.write_text(text, encoding="utf-8")


# -- the theme --------------------------------------------------------------

def configure(app, config):
    """Our static files and templates; the maths; the launch button."""
    # Appended here because Jupyter Book would put every script of a static
    # folder that it knew of into every page.
    config.html_static_path.append(str(STATIC))
    config.templates_path.insert(0, str(HERE / "templates"))
    config.html_math_renderer = "katex"
    config.html_context.setdefault("default_mode", "auto")
    config.html_sidebars = {"**": [
        "brand.html", "search-button-field.html", "sbt-sidebar-nav.html"]}
    options = config.html_theme_options
    options |= {"use_fullscreen_button": False, "navbar_persistent": [],
                "launch_buttons": {}}
    if options.get("repository_url"):
        options["launch_buttons"] = {
            "colab_url": "https://colab.research.google.com"}


def disconnect_thebe(app):
    """Jupyter Book always loads sphinx-thebe, whose script has an error."""
    for name, listeners in app.events.listeners.items():
        app.events.listeners[name] = [
            listener for listener in listeners
            if listener.handler.__module__ != "sphinx_thebe"]


# -- papers -----------------------------------------------------------------

class AuthorYear(BaseLabelStyle):
    """Labels as the citations say them: "Yang et al., 2024a"."""

    def format_labels(self, entries):
        for entry in entries:
            names = [" ".join(map(str, person.prelast_names
                                  + person.last_names))
                     for person in entry.persons["author"]]
            names = (names if len(names) < 2 else [" and ".join(names)]
                     if len(names) == 2 else [f"{names[0]} et al."])
            yield f"{names[0]}, {entry.fields['year']}"


class Papers(UnsrtStyle):
    """Papers by author and year, each under such a label."""
    default_sorting_style = "author_year_title"
    default_label_style = AuthorYear


register_plugin("pybtex.style.formatting", "author_year", Papers)


def setup(app):
    app.setup_extension("book.maths")
    app.setup_extension("book.figures")
    app.setup_extension("book.equations")
    app.connect("config-inited", configure)
    app.connect("builder-inited", disconnect_thebe, priority=1)
    app.connect("source-read", check_notebook)
    app.connect("source-read", name_solutions)
    app.connect("html-page-context", add_page_assets)
    app.connect("html-page-context", mend_html)
    app.connect("build-finished", write_assets)
    app.add_css_file("katex/katex.min.css")
    app.add_css_file("lintut-palette.css")
    app.add_css_file("book.css", priority=900)
    app.add_js_file("book.js", loading_method="defer")
    return {"version": "1", "parallel_read_safe": True,
            "parallel_write_safe": True}
