"""Maths, rendered to HTML and MathML while the book is built (KaTeX).

Pages need KaTeX's style sheet and fonts only: no script runs in the reader's
browser, and screen readers get the MathML.
"""

import json
import re
import subprocess
from html import escape
from pathlib import Path

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

from book import packages

logger = logging.getLogger(__name__)

_node = None    # the running KaTeX


def render(tex, display):
    """The HTML of one formula; ValueError says what is wrong with it."""
    global _node
    if _node is None:
        _node = subprocess.Popen(
            [packages.NODE, packages.HERE / "katex.cjs"], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8")
    _node.stdin.write(json.dumps({"tex": tex, "display": display}) + "\n")
    _node.stdin.flush()
    answer = json.loads(_node.stdout.readline())
    if "error" in answer:
        raise ValueError(answer["error"])
    return answer["html"]


def _formula(node, display):
    tex = node.astext().strip()
    # KaTeX would number these environments itself; the book numbers them.
    tex = re.sub(r"\b(begin|end)\{(align|gather|equation)\}", r"\1{\2*}", tex)
    try:
        return render(tex, display)
    except ValueError as error:
        logger.warning("formula not understood: %s", error, location=node)
        return "<code></code>"


class KeepPunctuation(SphinxPostTransform):
    """Move what follows a formula, as in `$q$,`, into it.

    A browser may break the line after any formula, and would start the next
    one with the comma.
    """

    default_priority = 900

    def run(self, **_):
        for node in self.document.findall(nodes.math):
            text = node.next_node(descend=False, siblings=True)
            if isinstance(text, nodes.Text):
                mark = re.match(r"[-,.;:?!)\]’”]+", text)
                if mark:
                    node["after"] = mark[0]
                    # by place: `replace` takes the first text that is equal
                    place = node.parent.index(node) + 1
                    node.parent[place] = nodes.Text(text[mark.end():])


def visit_math(self, node):
    """Inline: $…$."""
    html = _formula(node, False)
    if "after" in node:
        # KaTeX ends with its last unbreakable box, itself in two others.
        html = html.removesuffix("</span></span></span>") + (
            f'<span class="after">{node["after"]}</span></span></span></span>')
    if _is_heading(node):
        # Checkers of accessibility find no text in MathML.
        html = (f'<span class="visually-hidden">{_plain(node)}</span>'
                f'<span aria-hidden="true">{html}</span>')
    self.body.append(f'<span class="math notranslate nohighlight">{html}'
                     "</span>")
    raise nodes.SkipNode


def _is_heading(node):
    """Whether a formula alone heads a table's column."""
    cell = node.parent.parent
    return (isinstance(cell, nodes.entry) and len(node.parent) == 1
            and isinstance(cell.parent.parent, nodes.thead))


def visit_math_block(self, node):
    """Displayed: a box that scrolls, and the number beside it."""
    self.body.append(self.starttag(
        node, "div", CLASS="math notranslate nohighlight"))
    self.body.append(f'<div class="equation">{_formula(node, True)}</div>')
    if node["number"]:
        number = get_node_equation_number(self, node)
        self.body.append(f'<span class="eqno">({number})</span>')
    self.body.append("</div>\n")
    raise nodes.SkipNode


def number_by_chapter(app, doctree):
    """Equation 3 of chapters/06-recurrence is (6.3) everywhere."""
    docname = app.env.docname
    chapter = re.match(r"(\d+)-", Path(docname).name)
    if not chapter:
        return
    equations = app.env.get_domain("math").equations
    for node in doctree.findall(nodes.math_block):
        if node["number"]:
            node["number"] = f"{int(chapter[1])}.{node['number']}"
            equations[node["label"]] = (docname, node["number"])


def plain_title(app, pagename, templatename, context, doctree):
    """Formulas of a page's title as text, for the browser's tab."""
    if pagename in app.env.titles:
        context["title"] = "".join(
            _plain(child) for child in app.env.titles[pagename].children)


def _plain(node):
    if not isinstance(node, nodes.math):
        return escape(node.astext())
    mathml = re.search(r"<math.*?<annotation", _formula(node, False))
    return re.sub(r"<[^>]*>?", "", mathml[0])


def stop(app, exception):
    """End KaTeX with the build."""
    global _node
    if _node is not None:
        _node.stdin.close()
        _node.wait()
        _node = None


def setup(app):
    app.add_html_math_renderer(
        "katex", (visit_math, None), (visit_math_block, None))
    app.add_post_transform(KeepPunctuation)
    app.connect("doctree-read", number_by_chapter)
    app.connect("html-page-context", plain_title)
    app.connect("build-finished", stop)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
