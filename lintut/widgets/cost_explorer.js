// The cost explorer: every mechanism's FLOPs, bytes and state at one setting,
// and one of these against the length.
//
// The formulas are those of lintut.cost, part of the state; this module only
// evaluates and draws them.

const SIZES = {         // label, least, most
  N: ["length N", 1, 1 << 20], d: ["width d", 1, 4096],
  d_v: ["value width dᵥ", 1, 4096], heads: ["heads", 1, 1024],
  batch: ["batch", 1, 4096], r: ["features r", 1, 65536],
  w: ["window w", 1, 1 << 20], m: ["compressed length m", 1, 1 << 20],
  C: ["chunk C", 1, 65536],
};
const METRICS = {       // label, unit
  prefill_flops: ["FLOPs, whole sequence", "FLOP"],
  bytes_moved: ["bytes moved, whole sequence", "bytes"],
  decode_flops: ["FLOPs, one decode step", "FLOP"],
  decode_bytes: ["bytes moved, one decode step", "bytes"],
  state_bytes: ["state between decode steps, bytes", "bytes"],
};
const DASHES = { solid: "", dash: "8 5", dot: "2 4", dashdot: "8 4 2 4" };

// ---- numbers ----

/** { mechanism: { metric: value or null } } at these sizes.  A hybrid is the
 *  mean of its `halves`: half of the heads follow each. */
const costs = (formulas, settings, N = settings.N) => {
  const of = (f) => {
    if (!f.halves) return costOf(f, { ...settings, N });
    const [a, b] = f.halves.map(of);
    return Object.fromEntries(Object.keys(a).map((key) =>
      [key, (a[key] + b[key]) / 2]));
  };
  return Object.fromEntries(Object.entries(formulas).map(([name, f]) =>
    [name, of(f)]));
};

/** The least N in (low, high] where a and b have changed order. */
function crossing(a, b, low, high) {
  const before = a(low) > b(low);
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (a(middle) > b(middle) === before) low = middle;
    else high = middle;
  }
  return high;
}

const tokens = (N) => N.toLocaleString("en");

// ---- the widget ----

function render({ model, el }) {
  const root = h("div", { class: "lt lt-explorer" });
  const says = h("p", { class: "lt-says", role: "status" });
  const why = h("p", { class: "lt-why", role: "alert" });
  const plot = h("div", { class: "lt-plot" });
  const crossings = h("ul", { class: "lt-reads" });
  const table = h("div");
  const fields = {};

  const settings = () => ({ ...model.get("sizes"),
                            bytes: model.get("dtypes")[model.get("dtype")] });
  const put = (name, value) => { model.set(name, value); model.save_changes(); };
  const change = (name, value) => {
    why.textContent = "";
    put("sizes", { ...model.get("sizes"), [name]: value });
    draw();
  };

  // ---- controls ----

  const size = (name) => {
    const [label, least, most] = SIZES[name];
    fields[name] = field({ label, text: model.get("sizes")[name],
      accept(text) {
        const n = /^\d{1,9}$/.test(text.trim()) ? Number(text) : NaN;
        if (least <= n && n <= most) { change(name, n); return ""; }
        const reason = `${label} must be a whole number from ${least} to ` +
          `${tokens(most)}; “${text.slice(0, 20)}” is not. It stays ` +
          `${model.get("sizes")[name]}.`;
        why.textContent = reason;
        return reason;
      } });
    return h("label", { class: "lt-size" }, `${label} `, fields[name]);
  };

  const slider = h("input", { type: "range", min: 4, max: 20, step: 1,
    "aria-label": "length N, a power of two",
    oninput() { change("N", 2 ** Number(slider.value)); } });

  const select = (label, options, value, onchange) => {
    const node = h("select", { "aria-label": label,
                               onchange: () => onchange(node.value) },
      ...Object.entries(options).map(([key, text]) =>
        h("option", { value: key, text, selected: key === value })));
    return node;
  };
  const presets = model.get("presets");
  const preset = select("preset", {
    "": "Examples: real models …",
    ...Object.fromEntries(presets.map((p, i) => [i, p.label])),
  }, "", (i) => {
    if (i === "") return;
    why.textContent = "";
    put("sizes", { ...model.get("sizes"), ...presets[i].sizes });
    for (const input of Object.values(fields)) {
      input.setAttribute("aria-invalid", "false");
    }
    draw();
  });
  const source = h("p", { class: "lt-cost" });
  const metric = select("what to draw",
    Object.fromEntries(Object.entries(METRICS).map(([k, [t]]) => [k, t])),
    model.get("metric"), (value) => { put("metric", value); draw(); });
  const dtype = select("dtype",
    Object.fromEntries(Object.keys(model.get("dtypes")).map((t) => [t, t])),
    model.get("dtype"), (value) => { put("dtype", value); draw(); });

  const boxes = {};
  const shown = h("div", { class: "lt-bar lt-checks", role: "group",
                           "aria-label": "mechanisms drawn" },
    ...Object.entries(model.get("formulas")).map(([name, { label }]) => {
      const box = boxes[name] = h("input", { type: "checkbox",
        onchange() {
          const now = new Set(model.get("shown"));
          if (box.checked) now.add(name); else now.delete(name);
          put("shown", Object.keys(model.get("formulas"))
            .filter((key) => now.has(key)));
          draw();
        } });
      return h("label", {}, box, ` ${label}`);
    }));

  // ---- drawing ----

  function draw() {
    const sizes = settings();
    const formulas = model.get("formulas");
    const all = costs(formulas, sizes);
    for (const [name, input] of Object.entries(fields)) {
      if (input.getAttribute("aria-invalid") !== "true") {
        input.value = sizes[name];
      }
    }
    slider.value = Math.round(Math.log2(sizes.N));
    const at = presets.findIndex((p) => Object.entries(p.sizes).every(
      ([name, size]) => sizes[name] === size));
    preset.value = at < 0 ? "" : at;
    source.textContent = at < 0 ? "" : presets[at].source;
    metric.value = model.get("metric");
    dtype.value = model.get("dtype");
    for (const [name, box] of Object.entries(boxes)) {
      box.checked = model.get("shown").includes(name);
    }
    drawTable(all);
    drawPlot(sizes);
    const key = model.get("metric");
    const [label, unit] = METRICS[key];
    says.textContent = `N = ${tokens(sizes.N)}. ${label}: ` +
      model.get("shown").map((name) => `${formulas[name].label} ` +
        (all[name][key] === null ? "has none" : amount(all[name][key], unit)))
      .join("; ") + ".";
  }

  function drawTable(all) {
    const cell = (x, unit) => ({ text: x === null ? "–" : amount(x, unit) });
    table.replaceChildren(scroller(picture({
      caption: "Every mechanism at these sizes, one layer. – means that it " +
               "cannot decode causally as it stands.",
      head: [["", { text: "sequence", span: 2, name: true },
              { text: "one decode step", span: 2, name: true },
              { text: "kept", name: true }],
             headings(["", "FLOPs", "bytes", "FLOPs", "bytes", "state"])],
      body: Object.entries(model.get("formulas")).map(([name, { label }]) =>
        [label, ...Object.entries(METRICS).map(([key, [, unit]]) =>
          cell(all[name][key], unit))]),
    }), "the table of costs"));
  }

  function drawPlot(sizes) {
    const key = model.get("metric");
    const [label, unit] = METRICS[key];
    const formulas = model.get("formulas");
    const names = model.get("shown");
    const Ns = Array.from({ length: 33 }, (_, i) =>
      Math.round(2 ** (4 + i / 2)));
    const at = (name) => (N) => costs({ [name]: formulas[name] }, sizes,
                                      N)[name][key];
    const curves = names.map((name) => ({ name, y: Ns.map(at(name)) }))
      .filter(({ y }) => y.every((value) => value > 0));

    const width = Math.max(plot.clientWidth || 640, 280);
    const height = 340;
    const left = 62, right = width < 480 ? 92 : 118, top = 30, bottom = 40;
    const values = curves.flatMap(({ y }) => y);
    const low = Math.log10(Math.min(...values, 1e18));
    const high = Math.max(Math.log10(Math.max(...values, 10)), low + 1);
    const X = (N) => left + (Math.log2(N) - 4) / 16 * (width - left - right);
    const Y = (y) => top + (high - Math.log10(y)) / (high - low) *
                           (height - top - bottom);
    const text = (x, y, content, more = {}) => {
      const node = svg("text", { x, y, ...more });
      node.textContent = content;
      return node;
    };

    const parts = [];
    const step = Math.ceil((high - low) / 6);
    for (let e = Math.ceil(low); e <= high; e += step) {
      parts.push(svg("line", { x1: left, x2: width - right, y1: Y(10 ** e),
                               y2: Y(10 ** e), class: "lt-grid" }),
                 text(left - 6, Y(10 ** e) + 4, tick(e, unit),
                      { "text-anchor": "end" }));
    }
    for (let e = 4; e <= 20; e += 4) {
      parts.push(text(X(2 ** e), height - bottom + 18,
                      e < 10 ? 2 ** e : e < 20 ? `${2 ** (e - 10)}k` : "1M",
                      { "text-anchor": "middle" }));
    }
    parts.push(text(0, 13, label),
               text((left + width - right) / 2, height - 4,
                    "length N (tokens)", { "text-anchor": "middle" }),
               svg("line", { x1: X(sizes.N), x2: X(sizes.N), y1: top,
                             y2: height - bottom, class: "lt-here" }));

    for (const { name, y } of curves) {
      parts.push(svg("polyline", {
        points: Ns.map((N, i) => `${X(N)},${Y(y[i])}`).join(" "),
        class: "lt-curve", style: `stroke: ${hue(name)}`,
        "stroke-dasharray": DASHES[formulas[name].dash] ?? "" }));
    }
    const ends = apart(curves.map(({ y }) => Y(y.at(-1))), 15,
                       top + 6, height - bottom);
    curves.forEach(({ name, y }, i) => {
      parts.push(svg("line", { x1: X(2 ** 20), y1: Y(y.at(-1)),
                               x2: X(2 ** 20) + 8, y2: ends[i],
                               style: `stroke: ${hue(name)}` }),
                 text(X(2 ** 20) + 11, ends[i] + 4, formulas[name].label,
                      { class: "lt-end" }));
    });

    const found = meetings(curves, Ns, at);
    for (const { N, y } of found) {
      parts.push(svg("circle", { cx: X(N), cy: Y(y), r: 5,
                                 class: "lt-cross" }));
    }
    const drawing = svg("svg", { width, height, role: "img",
      "aria-label": `${label} against length, for ` +
                    curves.map(({ name }) => formulas[name].label)
                      .join(", ") }, ...parts);
    plot.replaceChildren(drawing);
    crossings.replaceChildren(...found.map(({ N, cheaper, dearer }) =>
      h("li", {}, `◯ From N = ${tokens(N)} on, ${formulas[cheaper].label} ` +
                  `takes less than ${formulas[dearer].label}.`)));
    if (!found.length) {
      crossings.append(h("li", {}, "No two curves cross."));
    }
  }

  /** Where two of the drawn curves cross. */
  function meetings(curves, Ns, at) {
    const found = [];
    curves.forEach((first, place) => curves.slice(0, place).forEach((other) => {
      for (let i = 1; i < Ns.length; i++) {
        const was = Math.sign(other.y[i - 1] - first.y[i - 1]);
        const now = Math.sign(other.y[i] - first.y[i]);
        if (was * now >= 0) continue;
        const [a, b] = [at(other.name), at(first.name)];
        const N = crossing(a, b, Ns[i - 1], Ns[i]);
        const [cheaper, dearer] = now > 0 ? [first, other] : [other, first];
        found.push({ N, y: b(N), cheaper: cheaper.name,
                     dearer: dearer.name });
      }
    }));
    return found.sort((a, b) => a.N - b.N);
  }

  root.append(
    h("div", { class: "lt-bar" },
      resetter(model, ["sizes", "metric", "dtype", "shown"], why), preset,
      dtype),
    source,
    h("label", { class: "lt-bar" }, "N ", slider),
    h("div", { class: "lt-sizes" }, ...Object.keys(SIZES).map(size)),
    why, says,
    h("div", { class: "lt-bar" }, metric), shown,
    plot, crossings, table);
  el.append(root);
  draw();
  let width = plot.clientWidth;
  const observer = new ResizeObserver(() => {
    if (plot.clientWidth !== width) {
      width = plot.clientWidth;
      drawPlot(settings());
    }
  });
  observer.observe(plot);
  const redraw = () => draw();
  for (const name of ["sizes", "metric", "dtype", "shown"]) {
    model.on(`change:${name}`, redraw);
  }
  return () => {
    observer.disconnect();
    for (const name of ["sizes", "metric", "dtype", "shown"]) {
      model.off(`change:${name}`, redraw);
    }
  };
}

const hue = (name) => `var(--lt-${name.replaceAll("_", "-")})`;

/** The label of 10^e on an axis. */
const tick = (e, unit) => unit === "FLOP" ?
  `${10 ** (e % 3)} ${UNITS.FLOP[1][Math.floor(e / 3)].replace("FLOP", "")}` :
  `10${String(e).replace(/\d/g, (i) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[i])}`;

/** Positions near `wanted`, in their order, at least `gap` apart. */
function apart(wanted, gap, low, high) {
  const order = wanted.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b]);
  const placed = [];
  let last = low - gap;
  for (const i of order) {
    last = Math.max(wanted[i], last + gap);
    placed[i] = last;
  }
  let next = high + gap;
  for (const i of order.reverse()) {
    next = Math.min(placed[i], next - gap);
    placed[i] = next;
  }
  return placed;
}

export { costs, amount };
export default { render };
