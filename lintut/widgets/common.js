// What every widget of the book is built on.  A widget's module is this text
// followed by its own, so its functions are simply there; nothing is imported.
//
//   DOM        h(tag, properties, ...children)   make an element
//              button(label, onclick), scroller(child), sub(3) → "₃"
//   numbers    parseNumber(text, check) → { value } or { why }
//              exact, decimal: the same arithmetic on fractions { n, d }
//              (BigInt) and on plain numbers; uniform(seed): random numbers
//   costs      evaluate(formula, sizes): a formula of lintut.cost; costOf: all
//              of a mechanism; amount(x, "FLOP" | "bytes" | "seconds")
//   algebra    vadd, dot, outer, madd, transposeTimes: first argument exact
//              or decimal, vectors are arrays, matrices arrays of rows
//   pictures   picture({ caption, head, body, foot }): a matrix as a table,
//              its cells { text, note, symbol, mark }; headings(texts): cells
//              of its head; field(…): a number that refuses what is not one;
//              counter({ … }): a whole number with − and + beside it
//   curves     logPlot({ … }): lines over two logarithmic axes
//   control    onKeys(root, actions), player({ … }), enable(button, yes),
//              resetter(model, names, why)
//
// Colour is never the only sign.  A cell takes the hue of its `symbol` (q, k,
// v, S, z, o); `mark: "write"` is a thick solid outline and the tag "write",
// `mark: "read"` a dashed one and the tag "read"; `mark: "note"` is a thin
// outline for what a caption speaks of.

// ---- DOM ----

/** An element; properties named on… are listeners, text becomes its text. */
function h(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "text") node.textContent = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child || child === 0));
  return node;
}

const button = (label, onclick) =>
  h("button", { type: "button", text: label, onclick });

/** Puts the model's `names` back to what they are now; `why` falls silent. */
function resetter(model, names, why) {
  const opened = names.map((name) => [name, model.get(name)]);
  const reset = button("Reset", () => {
    why.textContent = "";
    for (const input of reset.closest(".lt").querySelectorAll("input")) {
      input.removeAttribute("aria-invalid");
    }
    for (const [name, value] of opened) model.set(name, value);
    model.save_changes();
  });
  return reset;
}

/** Greyed and inert, but still able to hold the keyboard's focus. */
function enable(control, yes) {
  control.setAttribute("aria-disabled", String(!yes));
}

/** A box that scrolls sideways, reachable by keyboard when it does. */
function scroller(child, label) {
  const box = h("div", { class: "lt-scroll" }, child);
  const mark = () => {            // edges behind which there is more fade
    box.classList.toggle("lt-more-left", box.scrollLeft > 2);
    box.classList.toggle("lt-more-right",
      box.scrollWidth - box.clientWidth - box.scrollLeft > 2);
  };
  new ResizeObserver(() => {
    const wide = box.scrollWidth > box.clientWidth;
    for (const [name, value] of [["tabindex", "0"], ["role", "group"],
                                 ["aria-label", label]]) {
      if (wide) box.setAttribute(name, value);
      else box.removeAttribute(name);
    }
    mark();
  }).observe(box);
  box.addEventListener("scroll", mark, { passive: true });
  return box;
}

/** `h` for drawings: an SVG element. */
function svg(tag, properties = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const sub = (n) => String(n).replace(/\d/g, (digit) => "₀₁₂₃₄₅₆₇₈₉"[digit]);

// ---- numbers ----

const LARGEST = 1000000n;

/** Read "2", "-0.5" or "1/6".  `check(value)` may object with a reason. */
function parseNumber(text, check = () => "") {
  const clean = String(text).trim().replace("−", "-");
  const parts =
    /^([+-]?)(?=\.?\d)(\d*)(?:\.(\d*)|\/(\d+))?$/.exec(clean);
  if (!parts || clean.length > 20) {
    return { why: (clean ? `“${clean.slice(0, 20)}” is not a number` :
                           "it is empty") +
                  ": write one such as 2, 0.5 or 1/6" };
  }
  const [, sign, whole, decimals = "", below = "1"] = parts;
  let n = BigInt(whole + decimals);
  const d = BigInt(below) * 10n ** BigInt(decimals.length);
  if (d === 0n) return { why: `${clean} divides by zero` };
  if (n > LARGEST * d) return { why: `${clean} is beyond a million` };
  if (d > LARGEST) return { why: `${clean} is finer than a millionth` };
  if (sign === "-") n = -n;
  const value = fraction(n, d);
  const why = check(value);
  return why ? { why } : { value };
}

function gcd(a, b) {
  while (b) [a, b] = [b, a % b];
  return a < 0n ? -a : a;
}

/** n/d in lowest terms, d > 0. */
function fraction(n, d = 1n) {
  const g = d < 0n ? -gcd(n, d) : gcd(n, d);
  return { n: n / g, d: d / g };
}

/** A plain number with at most three decimals. */
function short(x) {
  const text = Math.abs(x) >= 1e6 ? x.toExponential(2) : String(+x.toFixed(3));
  return text.replace("-", "−").replace(/^−0$/, "0");
}

/** Uniform numbers in [0, 1) from a seed: mulberry32. */
function uniform(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) >>> 0;
    let x = Math.imul(seed ^ (seed >>> 15), seed | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
}

const LONGEST = 11;         // a longer fraction is shown as a decimal

const exact = {
  zero: fraction(0n),
  add: (a, b) => fraction(a.n * b.d + b.n * a.d, a.d * b.d),
  times: (a, b) => fraction(a.n * b.n, a.d * b.d),
  over: (a, b) => fraction(a.n * b.d, a.d * b.n),
  sign: (a) => Number(a.n > 0n) - Number(a.n < 0n),
  number({ n, d }) {
    const spare = Math.max(n.toString(2).length, d.toString(2).length) - 1000;
    const shift = BigInt(Math.max(spare, 0));
    return Number(n >> shift) / Number(d >> shift);
  },
  of: (value) => value,
  show(a) {
    const text = a.d === 1n ? `${a.n}` : `${a.n}/${a.d}`;
    return text.length > LONGEST ? `≈${short(exact.number(a))}` :
                                   text.replace("-", "−");
  },
  /** Each a/b as text over one denominator, not reduced: 10/6, 7/6. */
  ratios(as, b) {
    const scale = [...as, b].reduce((l, x) => l * (x.d / gcd(l, x.d)), 1n);
    const over = (b.n * scale) / b.d;
    const texts = as.map((a) => `${(a.n * scale) / a.d}`.replace("-", "−") +
                                (over === 1n ? "" : `/${over}`));
    return texts.every((text) => text.length <= LONGEST) ? texts :
      as.map((a) => exact.show(exact.over(a, b)));
  },
};

const decimal = {
  zero: 0,
  add: (a, b) => a + b,
  times: (a, b) => a * b,
  over: (a, b) => a / b,
  sign: Math.sign,
  number: (a) => a,
  of: (value) => exact.number(value),
  show: short,
  ratios: (as, b) => as.map((a) => short(a / b)),
};

// ---- costs ----

const compiled = new Map();

/** A formula of lintut.cost at these sizes, floored; true counts as 1. */
function evaluate(formula, sizes) {
  const names = Object.keys(sizes);
  const key = `${names}:${formula}`;
  if (!compiled.has(key)) {
    compiled.set(key, new Function(...names, "min", "ceil", "floor",
      `return Math.floor(${formula.replaceAll("//", "/")})`));
  }
  return compiled.get(key)(...Object.values(sizes), Math.min, Math.ceil,
                           Math.floor);
}

/**
 * { metric: value or null }, as lintut.cost gives them, from a mechanism's
 * formulas.  `settings` holds the sizes, heads, batch, bytes (of an element)
 * and on_chip.
 */
function costOf(f, settings) {
  const { N, heads, batch, bytes, on_chip } = settings;
  const fits = Math.max(1, Math.floor(
    on_chip / (2 * (settings.d + settings.d_v) * bytes)));
  const C = Math.min(settings.C, N);
  const sizes = { ...settings, C, B: Math.min(N, fits),
                  L: C > 1 ? Math.ceil(Math.log2(C)) : 0, P: 0 };
  sizes.P = evaluate(f.pairs, sizes);
  const sum = (unit, ...formulas) => formulas.some((text) => !text) ? null :
    formulas.reduce((total, text) => total + evaluate(text, sizes), 0) *
    heads * batch * unit;
  return { prefill_flops: sum(1, f.products, f.other),
           bytes_moved: sum(bytes, f.moved),
           saved_bytes: sum(bytes, f.saved),
           decode_flops: sum(1, f.step_products, f.step_other),
           decode_bytes: sum(bytes, f.step_moved),
           state_bytes: sum(bytes, f.state) };
}

const UNITS = {
  FLOP: [1000, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP",
                "EFLOP"]],
  bytes: [1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]],
  seconds: [1000, ["ns", "µs", "ms", "s"]],
};

/** "4.29 GFLOP", "8 MiB", "3.1 µs": three digits and a unit. */
function amount(x, unit) {
  const [base, units] = UNITS[unit];
  if (unit === "seconds") x *= 1e9;
  let i = 0;
  while (x >= base && i < units.length - 1) { x /= base; i += 1; }
  const digits = x >= 100 || Number.isInteger(x) ? 0 : x >= 10 ? 1 : 2;
  return `${x.toFixed(digits)} ${units[i]}`;
}

// ---- algebra ----

const vadd = (F, a, b) => a.map((x, i) => F.add(x, b[i]));
const dot = (F, a, b) =>
  a.reduce((sum, x, i) => F.add(sum, F.times(x, b[i])), F.zero);
const outer = (F, a, b) => a.map((x) => b.map((y) => F.times(x, y)));
const madd = (F, A, B) => A.map((row, i) => vadd(F, row, B[i]));
const transposeTimes = (F, A, x) =>
  A[0].map((_, j) => dot(F, A.map((row) => row[j]), x));
const list = (texts) => `[${texts.join(", ")}]`;

// ---- pictures ----

/**
 * A matrix as a table.  `head`, `body` and `foot` are rows of cells; a cell
 * is a text or { text, note, symbol, mark, span, name, quiet }: `note` is the
 * small line below, `name` makes it a heading, `quiet` greys it.  The first
 * cell of a body or foot row is its heading.
 */
function picture({ caption, head = [], body, foot = [] }) {
  const part = (tag, rows, scope) => rows.length ? h(tag, {},
    ...rows.map((cells) => h("tr", {}, ...cells.map((cell, i) =>
      pictureCell(cell, cell.name || scope === "row" && i === 0
        ? scope : null))))) : null;
  return h("table", { class: "lt-picture" }, h("caption", {}, caption),
           part("thead", head, "col"), part("tbody", body, "row"),
           part("tfoot", foot, "row"));
}

/** Texts as headings of a picture's columns. */
const headings = (texts) => texts.map((text) => ({ text, name: true }));

const SAID = { write: " (written now)", read: " (read now)" };

function pictureCell(cell, scope) {
  if (typeof cell === "string") cell = { text: cell };
  const { text = "", note, symbol, mark, span, quiet, fresh } = cell;
  const heads = scope && text.trim() !== "";
  return h(heads ? "th" : "td", {
    scope: heads ? (span > 1 && scope === "col" ? "colgroup" : scope) : null,
    colspan: span,
    class: [symbol && `lt-hue lt-${symbol}`, mark && `lt-mark-${mark}`,
            quiet && "lt-quiet", fresh && "lt-fresh"]
      .filter(Boolean).join(" ") || null,
  }, text, note && h("small", { text: note }),
     SAID[mark] && h("span", { class: "lt-unseen", text: SAID[mark] }));
}

const tag = (mark) =>
  h("span", { class: `lt-tag lt-tag-${mark}`, text: mark });

/** A number to edit.  `accept(text)` returns a reason to refuse, or "". */
function field({ label, text, symbol, accept }) {
  const input = h("input", {
    type: "text", "aria-label": label, size: 3, autocomplete: "off",
    spellcheck: "false", class: symbol && `lt-hue lt-${symbol}`,
    onchange() {
      const why = accept(input.value);
      input.setAttribute("aria-invalid", String(Boolean(why)));
      input.title = why;
    },
  });
  input.value = text;
  return input;
}

/**
 * A whole number from `low` to `high`, typed or stepped with − and +.
 * `get()` and `set(n)` reach it; `refused(why)` shows a reason, or "".
 */
function counter({ label, low = 0, high, get, set, refused }) {
  const step = (by) => button(by < 0 ? "−" : "+", () => {
    if (low <= get() + by && get() + by <= high) put(get() + by);
  });
  const put = (n) => {
    input.setAttribute("aria-invalid", "false");
    refused("");
    set(n);
  };
  const input = field({ label, text: String(get()), accept(text) {
    const n = /^\d{1,9}$/.test(text.trim()) ? Number(text) : NaN;
    if (low <= n && n <= high) {
      put(n);
      return "";
    }
    const why = `${label} must be a whole number from ${low} to ${high}; ` +
                `“${text.slice(0, 20)}” is not. It stays ${get()}.`;
    refused(why);
    return why;
  } });
  const [less, more] = [step(-1), step(1)];
  less.setAttribute("aria-label", `Less: ${label}`);
  more.setAttribute("aria-label", `More: ${label}`);
  return {
    node: h("span", { class: "lt-size", role: "group", "aria-label": label },
            `${label} `, less, input, more),
    draw() {
      if (input.getAttribute("aria-invalid") !== "true") input.value = get();
      enable(less, get() > low);
      enable(more, get() < high);
    },
  };
}

// ---- curves ----

/**
 * Lines over two logarithmic axes.  An axis is { label, low, high, tick },
 * its ends as powers of its base, `tick(e)` the text at base^e; x may have
 * base 2, y has base 10.  A curve is { points, hue, dash, label }, the label
 * at its end; a mark { x, y, label } is a ring; `here` a dotted upright.
 */
function logPlot({ width, height = 320, x, y, base = 2, curves, marks = [],
                   here = null, name }) {
  const edge = { left: 62, right: width < 480 ? 84 : 110, top: 30,
                 bottom: 42 };
  const right = width - edge.right, foot = height - edge.bottom;
  const X = (at) => edge.left + (Math.log(at) / Math.log(base) - x.low) /
    (x.high - x.low) * (right - edge.left);
  const Y = (at) => foot - (Math.log10(at) - y.low) / (y.high - y.low) *
    (foot - edge.top);
  const write = (left, top, text, anchor) => {
    const node = svg("text", { x: left, y: top, "text-anchor": anchor });
    node.textContent = text;
    return node;
  };
  const parts = [write((edge.left + right) / 2, height - 4, x.label, "middle"),
                 write(0, 13, y.label, "start")];
  const stride = (low, high, most) => Math.ceil((high - low) / most) || 1;
  for (let e = Math.ceil(y.low); e <= y.high; e += stride(y.low, y.high, 6)) {
    parts.push(svg("line", { x1: edge.left, x2: right, y1: Y(10 ** e),
                             y2: Y(10 ** e), class: "lt-grid" }),
               write(edge.left - 6, Y(10 ** e) + 4, y.tick(e), "end"));
  }
  const most = width < 480 ? 4 : 8;
  for (let e = Math.ceil(x.low); e <= x.high; e += stride(x.low, x.high, most)) {
    parts.push(write(X(base ** e), foot + 18, x.tick(e), "middle"));
  }
  if (here !== null) {
    parts.push(svg("line", { x1: X(here), x2: X(here), y1: edge.top, y2: foot,
                             class: "lt-here" }));
  }
  let above = -Infinity;
  for (const { points, hue, dash = "", label } of [...curves].sort(
    (a, b) => b.points.at(-1)[1] - a.points.at(-1)[1])) {
    const [endX, endY] = points.at(-1);
    above = Math.max(Y(endY), above + 15);
    parts.push(svg("polyline", {
      points: points.map((p) => `${X(p[0])},${Y(p[1])}`).join(" "),
      class: "lt-curve", style: `stroke: var(--lt-${hue})`,
      "stroke-dasharray": dash }),
    write(X(endX) + 8, above + 4, label, "start"));
  }
  for (const mark of marks) {
    parts.push(svg("circle", { cx: X(mark.x), cy: Y(mark.y), r: 6,
                               class: "lt-cross" }),
               write(X(mark.x), Y(mark.y) - 11, mark.label, "middle"));
  }
  return svg("svg", { width, height, role: "img", "aria-label": name },
             ...parts);
}

const raised = (e) => String(e).replace(/\d|-/g, (i) =>
  "⁰¹²³⁴⁵⁶⁷⁸⁹"[i] ?? "⁻");

/** Redraw `draw()` whenever the width of `box` changes. */
function onWidth(box, draw) {
  let width = box.clientWidth;
  const observer = new ResizeObserver(() => {
    if (box.clientWidth === width) return;
    width = box.clientWidth;
    draw();
  });
  observer.observe(box);
  return () => observer.disconnect();
}

// ---- control ----

/** Keys such as ArrowRight, wherever in `root` no text is being typed. */
function onKeys(root, actions) {
  root.setAttribute("data-lm-suppress-shortcuts", "true");     // JupyterLab
  root.addEventListener("keydown", (event) => {
    const typing = event.target.matches(
      "input:not([type=range]), select, textarea");
    const modified = event.altKey || event.ctrlKey || event.metaKey ||
                     event.shiftKey;
    const act = actions[event.key];
    if (typing || modified || !act) return;
    event.preventDefault();
    event.stopPropagation();    // themes and notebooks turn pages on arrows
    act();
  });
}

/**
 * A Play button.  `begin()` runs when it is pressed; `advance()` goes one step
 * on and returns false when that was the last.  Readers who asked their system
 * for less motion get one step a press, and no running clock.
 */
function player({ interval = 1800, begin = () => {}, advance }) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  let timer = null;
  const control = button("Play", () => {
    if (timer) return stop();
    begin();
    if (!calm.matches) timer = setInterval(tick, interval);
    label();
    tick();
  });
  const tick = () => { if (!advance()) stop(); };
  const label = () => {
    control.textContent = timer ? "Pause" : "Play";
    control.title = calm.matches ?
      "One step a press: your system asks for less motion" : "";
  };
  const stop = () => { clearInterval(timer); timer = null; label(); };
  calm.addEventListener("change", stop);
  label();
  return { control, stop };
}

export { parseNumber, fraction, exact, decimal, vadd, dot, outer, madd,
         transposeTimes };
