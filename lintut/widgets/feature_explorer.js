// The feature explorer: how near random features come to exp(x·y), pair by
// pair, and how near the output of attention comes to softmax's.
//
// x = q/d^¼ and y = k/d^¼ for queries and keys drawn as σ N(0, I).  The same
// tokens serve every kind and every seed of the features.

const D = 8, N = 24, TOKENS_SEED = 8, REDRAWS = 40;
const KINDS = ["positive", "hyperbolic", "trigonometric"];
const COUNTS = [2, 4, 8, 16, 32, 64, 128, 256];
const LARGEST_SCALE = 3;

// ---- random numbers ----

/** N(0, 1) numbers from uniform ones: Box and Muller. */
function normals(seed) {
  const next = uniform(seed);
  return () => Math.sqrt(-2 * Math.log(1 - next())) *
               Math.cos(2 * Math.PI * next());
}

const rowsOf = (normal, n, d) =>
  Array.from({ length: n }, () => Array.from({ length: d }, normal));
/** `dot` of plain numbers, fast: it is called a million times a drawing. */
function inner(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}
const norm = (x) => Math.sqrt(inner(x, x));

/** m rows N(0, I) of width d; `orthogonal`: so in blocks of d. */
function projection(m, d, normal, orthogonal) {
  if (!orthogonal) return rowsOf(normal, m, d);
  const rows = [];
  while (rows.length < m) {
    const block = [];               // Gram and Schmidt, twice for the digits
    for (let row of rowsOf(normal, d, d)) {
      for (const other of [...block, ...block]) {
        const along = inner(row, other);
        row = row.map((x, i) => x - along * other[i]);
      }
      const length = norm(row);
      block.push(row.map((x) => x / length));
    }
    for (const row of block) {
      const length = norm(Array.from({ length: d }, normal));     // χ_d
      rows.push(row.map((x) => x * length));
    }
  }
  return rows.slice(0, m);
}

// ---- features ----

/** φ(x) with every factor, for one x; `rows` is Ω. */
function features(x, rows, kind) {
  const half = inner(x, x) / 2;
  const u = rows.map((row) => inner(row, x));
  if (kind === "trigonometric") {
    const size = Math.exp(half) / Math.sqrt(u.length);
    return [...u.map((y) => size * Math.cos(y)),
            ...u.map((y) => size * Math.sin(y))];
  }
  const all = kind === "hyperbolic" ? [...u, ...u.map((y) => -y)] : u;
  return all.map((y) => Math.exp(y - half) / Math.sqrt(all.length));
}

/** Attention's outputs for a matrix of weights not yet divided. */
function outputs(similarity, v) {
  return similarity.map((row) =>
    inner(row, v) / row.reduce((a, b) => a + b));
}

/** Mean squared error of φ(x)·φ(y), r features, independent rows: lemma 2. */
function lemma2(x, y, r, kind) {
  const square = (f) => x.reduce((sum, a, i) => sum + f(a, y[i]) ** 2, 0);
  const s = square((a, b) => a + b), t = square((a, b) => a - b);
  const K = Math.exp(inner(x, y));
  const positive = Math.exp(s) * K ** 2 * (1 - Math.exp(-s)) / r;
  return kind === "positive" ? positive :
    kind === "hyperbolic" ? positive * (1 - Math.exp(-s)) :
    Math.exp(s) / K ** 2 * (1 - Math.exp(-t)) ** 2 / r;
}

/** Everything that is shown for these settings. */
function explore({ n_features: r, kind, orthogonal, scale, seed }) {
  const normal = normals(TOKENS_SEED);
  const shrink = scale / D ** 0.25;
  const [q, k] = [0, 1].map(() => rowsOf(normal, N, D).map(
    (row) => row.map((x) => x * shrink)));
  const v = Array.from({ length: N }, normal);
  const kernel = q.map((x) => k.map((y) => Math.exp(inner(x, y))));
  const exactly = outputs(kernel, v);
  const meanSquare = (o) =>
    o.reduce((sum, y, i) => sum + (y - exactly[i]) ** 2, 0) / N;
  const average = v.reduce((a, b) => a + b) / N;

  const draw = normals(seed + 1);
  const rows = kind === "positive" ? r : r / 2;
  const tries = Array.from({ length: REDRAWS }, () => {
    const omega = projection(rows, D, draw, orthogonal);
    const [fq, fk] = [q, k].map((X) =>
      X.map((x) => features(x, omega, kind)));
    const estimate = fq.map((a) => fk.map((b) => inner(a, b)));
    return { estimate, error: meanSquare(outputs(estimate, v)) };
  });
  // each pair's relative mean squared error, over the draws
  const relative = kernel.flatMap((row, i) => row.map((value, j) =>
    mean(tries.map(({ estimate }) => (estimate[i][j] / value - 1) ** 2))));
  return {
    kernel, estimate: tries[0].estimate,
    measured: median(relative),
    predicted: median(q.flatMap((x, i) => k.map((y, j) =>
      lemma2(x, y, r, kind) / kernel[i][j] ** 2))),
    error: tries[0].error,
    median: median(tries.map(({ error }) => error)),
    averaging: meanSquare(exactly.map(() => average)),
    below: tries[0].estimate.flat().filter((value) => value <= 0).length,
  };
}

const median = (list) => {
  const sorted = [...list].sort((a, b) => a - b), n = sorted.length;
  return (sorted[Math.floor((n - 1) / 2)] + sorted[Math.floor(n / 2)]) / 2;
};
const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length;

/** At most six round numbers between 10^low and 10^high. */
function ticks(low, high) {
  const powers = Array.from({ length: Math.ceil(high) - Math.floor(low) + 1 },
                            (_, i) => Math.floor(low) + i);
  for (const digits of [[1, 2, 5], [1, 3], [1]]) {
    const found = powers.flatMap((e) => digits.map((n) => n * 10 ** e))
      .filter((x) => x >= 10 ** low && x <= 10 ** high);
    if (found.length <= 6) return found;
  }
  const every = Math.ceil(powers.length / 6);
  return powers.filter((e) => e % every === 0 && e >= low && e <= high)
    .map((e) => 10 ** e);
}

/** Two digits: 0.012, 3.4, 5.6·10⁻⁷. */
function rough(x) {
  if (!Number.isFinite(x)) return "beyond a double";
  if (x !== 0 && (x < 1e-3 || x >= 1e5)) {
    const [digits, power] = x.toExponential(1).split("e");
    return `${digits}·10${power.replace("+", "").replace("-", "⁻")
      .replace(/\d/g, (i) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[i])}`;
  }
  return String(+x.toPrecision(2));
}

// ---- the widget ----

function render({ model, el }) {
  const names = ["n_features", "kind", "orthogonal", "scale", "seed"];
  const options = () => Object.fromEntries(
    names.map((name) => [name, model.get(name)]));
  const opened = options();
  let saving = false;
  const save = (changes) => {
    saving = true;
    for (const [name, value] of Object.entries(changes)) {
      model.set(name, value);
    }
    model.save_changes();
    saving = false;
    draw();
  };

  // -- controls --
  const why = h("p", { class: "lt-why", role: "alert" });
  const refused = (reason) => { why.textContent = reason; };
  const select = (label, values, name) => {
    const node = h("select", { "aria-label": label, onchange() {
      const found = values.find((value) => String(value) === node.value);
      save({ [name]: found });
    } }, ...values.map((value) => h("option", { value, text: value })));
    return node;
  };
  const count = select("Features r", COUNTS, "n_features");
  const kind = select("Kind", KINDS, "kind");
  const orthogonal = h("input", { type: "checkbox",
    onchange: () => save({ orthogonal: orthogonal.checked }) });
  const scale = field({ label: "Scale σ", text: "", accept(text) {
    const { value, why: bad } = parseNumber(text);
    const number = bad ? 0 : exact.number(value);
    const reason = bad ? `Scale σ: ${bad}. It stays ${model.get("scale")}.` :
      number > 0 && number <= LARGEST_SCALE ? "" : "Scale σ must be above 0 " +
        `and at most ${LARGEST_SCALE}. It stays ${model.get("scale")}.`;
    refused(reason);
    if (!reason) save({ scale: number });
    return reason;
  } });
  const slider = h("input", { type: "range", min: 1, max: 30, step: 1,
    "aria-label": "Scale σ, in tenths", oninput() {
      refused("");
      scale.setAttribute("aria-invalid", "false");
      save({ scale: Number(slider.value) / 10 });
    } });
  const seed = counter({ label: "seed", low: 0, high: 999999, refused,
    get: () => model.get("seed"), set: (n) => save({ seed: n }) });

  // -- the scatter --
  const plot = h("div", { class: "lt-plot" });
  function drawPlot({ kernel, estimate }) {
    const width = Math.max(250, Math.min(plot.clientWidth || 420, 560));
    const height = 260, left = 34, right = 12, top = 12, bottom = 40;
    const logs = kernel.flat().map(Math.log10);
    const low = Math.min(-0.1, ...logs), high = Math.max(0.1, ...logs);
    const bound = 4;                        // ratios beyond ±4: at the edge
    const X = (l) => left + (l - low) / (high - low) * (width - left - right);
    const Y = (y) => top + (bound - y) / (2 * bound) * (height - top - bottom);
    const text = (x, y, content, anchor = "middle") => {
      const node = svg("text", { x, y, "text-anchor": anchor });
      node.textContent = content;
      return node;
    };
    const parts = [-4, -2, 0, 2, 4].flatMap((y) => [
      svg("line", { class: "lt-grid", x1: left, x2: width - right, y1: Y(y),
                    y2: Y(y) }),
      text(left - 6, Y(y) + 4, short(y), "end")]);
    for (const tick of ticks(low, high)) {
      parts.push(text(X(Math.log10(tick)), height - bottom + 16, rough(tick)));
    }
    parts.push(text((left + width - right) / 2, height - 4,
                    "true kernel exp(x·y)"),
      svg("line", { class: "lt-here", x1: left, x2: width - right, y1: Y(1),
                    y2: Y(1) }));
    const inside = [], outside = [];
    estimate.forEach((row, i) => row.forEach((value, j) => {
      const ratio = value / kernel[i][j];
      const x = X(Math.log10(kernel[i][j]));
      if (Math.abs(ratio) <= bound) inside.push([x, Y(ratio)]);
      else outside.push([x, Y(Math.sign(ratio) * bound)]);
    }));
    parts.push(
      svg("path", { class: "lt-dots", d: inside.map(([x, y]) =>
        `M${x.toFixed(1)} ${y.toFixed(1)}h.01`).join("") }),
      svg("path", { class: "lt-out", d: outside.map(([x, y]) =>
        `M${(x - 3).toFixed(1)} ${y.toFixed(1)}h6`).join("") }));
    plot.replaceChildren(svg("svg", { width, height, role: "img",
      "aria-label": `Estimate divided by true kernel, for ${N * N} pairs; ` +
        `${outside.length} lie beyond 4 times` }, ...parts));
  }

  // -- all of it --
  const says = h("p", { class: "lt-says", role: "status" });
  const facts = h("div");
  function draw() {
    const now = options();
    const good = COUNTS.includes(now.n_features) &&
      KINDS.includes(now.kind) && now.scale > 0 &&
      now.scale <= LARGEST_SCALE && Number.isInteger(now.seed);
    if (!good) {
      says.textContent = "These settings cannot be used.";
      return;
    }
    count.value = now.n_features;
    kind.value = now.kind;
    orthogonal.checked = now.orthogonal;
    slider.value = Math.round(10 * now.scale);
    slider.setAttribute("aria-valuetext", `σ = ${now.scale}`);
    if (scale.getAttribute("aria-invalid") !== "true") scale.value = now.scale;
    seed.draw();
    const found = explore(now);
    const better = found.median < found.averaging;
    const words = `${now.n_features} ${now.kind} features, ` +
      `${now.orthogonal ? "orthogonal" : "independent"} rows, σ = ` +
      `${now.scale}: the median output error is ${rough(found.median)}, ` +
      `${better ? "below" : "above"} the ${rough(found.averaging)} of ` +
      "answering the mean of V." + (found.below ? ` ${found.below} of ` +
      `${N * N} estimates are zero or less.` : "");
    if (says.textContent !== words) says.textContent = words;
    drawPlot(found);
    facts.replaceChildren(h("table", { class: "lt-facts" }, h("tbody", {},
      ...[["kernel, relative squared error of the median pair, mean of " +
             `${REDRAWS} draws`, found.measured],
          ["the same by lemma 2" +
             (now.orthogonal ? ", for independent rows" : ""),
           found.predicted],
          ["output, squared error: this draw", found.error],
          [`output, squared error: median of ${REDRAWS} draws`, found.median],
          ["output: answering the mean of V", found.averaging]]
        .map(([name, value]) => h("tr", {},
          h("th", { scope: "row", text: name }),
          h("td", { text: rough(value) }))))));
  }

  const root = h("div", { class: "lt lt-feature-explorer", role: "group",
                          "aria-label": "Feature explorer" },
    h("div", { class: "lt-bar" },
      button("Reset", () => {
        refused("");
        scale.setAttribute("aria-invalid", "false");
        save(opened);
      }),
      h("label", {}, "r ", count), kind,
      h("label", {}, orthogonal, " orthogonal rows")),
    h("div", { class: "lt-bar" }, h("label", {}, "σ ", scale), slider,
      seed.node),
    why, says,
    h("div", { class: "lt-roads" },
      h("div", { class: "lt-card" },
        h("p", { class: "lt-title", text: "Estimate ÷ true kernel" }), plot,
        h("p", { class: "lt-cost", text: `A dot a pair: ${N} queries, ${N} ` +
          `keys, d = ${D}. Dashes at the edge lie beyond ±4. All on the ` +
          "dotted line would be exact." })),
      h("div", { class: "lt-card" }, facts)));
  onKeys(root, {});
  el.append(root);
  draw();
  let width = plot.clientWidth;
  const observer = new ResizeObserver(() => {
    if (plot.clientWidth !== width) {
      width = plot.clientWidth;
      draw();
    }
  });
  observer.observe(plot);
  const changed = () => { if (!saving) draw(); };
  const watched = names.map((name) => `change:${name}`).join(" ");
  model.on(watched, changed);
  return () => { observer.disconnect(); model.off(watched, changed); };
}

export { normals, projection, features, outputs, lemma2, explore };
export default { render };
