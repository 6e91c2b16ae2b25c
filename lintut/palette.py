"""The book's colours: one hue for each symbol and each mechanism.

Plots, widgets and the pages' style sheet all take them from here.  The hues
are Okabe and Ito's, told apart by colour-blind readers; the dark variants are
lightened until they stand 3:1 against the dark page.  A colour is never the
only sign: every mark also carries its letter, a dash or a shape.
"""

# symbol: (on a light page, on a dark page)
SYMBOLS = {
    "q": ("#0072b2", "#5db7ee"),
    "k": ("#b86e00", "#f0a830"),
    "v": ("#007a5a", "#2ec79c"),
    "S": ("#a8457f", "#e395c1"),
    "z": ("#5a6ea8", "#a3b4ea"),
    "o": ("#c04a00", "#ff8a4d"),
}

# mechanism: (light, dark, plotly dash, plotly marker)
MECHANISMS = {
    "softmax": ("#222222", "#eeeeee", "solid", "circle"),
    "flash": ("#222222", "#eeeeee", "dot", "circle-open"),
    "sliding_window": ("#0072b2", "#5db7ee", "dash", "square"),
    "longformer": ("#0072b2", "#5db7ee", "dot", "square-open"),
    "bigbird": ("#0072b2", "#5db7ee", "dashdot", "diamond-open"),
    "linformer": ("#5a6ea8", "#a3b4ea", "dash", "cross"),
    "linear": ("#007a5a", "#2ec79c", "solid", "triangle-up"),
    "performer": ("#007a5a", "#2ec79c", "dot", "triangle-down"),
    "retention": ("#b86e00", "#f0a830", "solid", "diamond"),
    "gla": ("#b86e00", "#f0a830", "dash", "star"),
    "delta": ("#a8457f", "#e395c1", "solid", "x"),
    "gated_delta": ("#c04a00", "#ff8a4d", "solid", "hexagon"),
    "hybrid": ("#222222", "#eeeeee", "dash", "pentagon"),
}

# the page: ink, paper, the lines between, and the two actions
PAGE = {
    "ink": ("#1c1e21", "#e6e8eb"),
    "muted": ("#5c6370", "#a7adb8"),
    "paper": ("#ffffff", "#14181e"),
    "line": ("#d0d4da", "#3d444f"),
    "write": ("#c04a00", "#ff8a4d"),    # what is being written now
    "read": ("#0072b2", "#5db7ee"),     # what is being read now
}


def css(selector_light, selector_dark):
    """CSS custom properties (`--lt-q`, `--lt-ink` …) for both themes."""
    rules = []
    for selector, column in ((selector_light, 0), (selector_dark, 1)):
        lines = [f"  --lt-{name}: {pair[column]};"
                 for table in (SYMBOLS, PAGE)
                 for name, pair in table.items()]
        lines += [f"  --lt-{name.replace('_', '-')}: {entry[column]};"
                  for name, entry in MECHANISMS.items()]
        rules.append(selector + " {\n" + "\n".join(lines) + "\n}")
    return "\n".join(rules)
