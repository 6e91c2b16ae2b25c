// The compression explorer: how much of attention survives in m slots.
//
// Full attention compares N queries with N keys; Linformer first mixes the
// keys and values into m of each.  Beside it, what the closest weights of
// rank m give, and what a plain mean of all values gives.

const WIDTH = 16;                       // d and d_v
const MOST_TOKENS = 96, LAST_SEED = 999;
const INPUTS = { random: "Random tokens",
                 smooth: "Smooth: neighbours are alike" };
const PROJECTIONS = { random: "E, F random", mean: "E, F average neighbours" };

// ---- the inputs ----

/** N × d normal numbers from a source of uniform ones. */
function normals(next, rows, columns) {
  return Array.from({ length: rows }, () => Array.from({ length: columns },
    () => Math.sqrt(-2 * Math.log(1 - next())) *
          Math.cos(2 * Math.PI * next())));
}

/** Neighbours alike: each row is .95 of the last, and something new. */
function smooth(x, keep = 0.95) {
  const rows = [x[0]];
  for (const row of x.slice(1)) {
    rows.push(row.map((e, i) =>
      keep * rows.at(-1)[i] + Math.sqrt(1 - keep ** 2) * e));
  }
  return rows;
}

/** q, k, v and a square of random numbers that E and F are cut from. */
function tokens({ N, inputs, scale, seed }) {
  const next = uniform(seed);
  const [x, y, v] = [0, 1, 2].map(() => normals(next, N, WIDTH));
  const G = normals(next, N, N);
  const alike = inputs === "smooth";
  const k = alike ? smooth(x) : x;
  const q = (alike ? k : y).map((row) => row.map((a) => scale * a));
  return { q, k, v: alike ? smooth(v) : v, G };
}

/** The m × N matrix that both E and F are. */
function projection({ N, projection: kind }, G, m) {
  if (kind === "random") {
    return G.slice(0, m).map((row) => row.map((x) => x / Math.sqrt(m)));
  }
  return Array.from({ length: m }, (_, a) => {
    const from = Math.floor(a * N / m), to = Math.floor((a + 1) * N / m);
    return Array.from({ length: N },
      (_, j) => from <= j && j < to ? 1 / (to - from) : 0);
  });
}

// ---- attention ----

const inner = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);
const times = (A, B) => A.map((row) => {
  const sum = new Array(B[0].length).fill(0);
  row.forEach((x, j) => {
    if (x) B[j].forEach((y, i) => { sum[i] += x * y; });
  });
  return sum;
});

/** Softmax weights of queries (n, d) on keys (m, d). */
function weights(q, k) {
  const scale = 1 / Math.sqrt(q[0].length);
  return q.map((query) => {
    const scores = k.map((key) => scale * inner(query, key));
    const top = Math.max(...scores);
    const powers = scores.map((s) => Math.exp(s - top));
    const total = powers.reduce((a, b) => a + b);
    return powers.map((p) => p / total);
  });
}

const softmax = (q, k, v) => times(weights(q, k), v);
const linformer = (q, k, v, E, F) => softmax(q, times(E, k), times(F, v));

/** ‖A − B‖ / ‖B‖, over all entries. */
function distance(A, B) {
  let above = 0, below = 0;
  B.forEach((row, i) => row.forEach((b, j) => {
    above += (A[i][j] - b) ** 2;
    below += b ** 2;
  }));
  return Math.sqrt(above / below);
}

/**
 * Singular values of a square A, largest first, and the rows vᵢᵀ.  One-sided
 * Jacobi: turn pairs of columns until all stand at right angles; their
 * lengths are the singular values.
 */
function singular(A) {
  const n = A.length;
  const U = A[0].map((_, j) => A.map((row) => row[j]));     // columns, as rows
  const V = U.map((_, i) => U.map((_, j) => Number(i === j)));
  for (let sweep = 0, turned = true; turned && sweep < 40; sweep++) {
    turned = false;
    for (let i = 0; i < n; i++) {
      for (let j = i + 1; j < n; j++) {
        const a = inner(U[i], U[i]), b = inner(U[j], U[j]);
        const c = inner(U[i], U[j]);
        if (Math.abs(c) <= 1e-14 * Math.sqrt(a * b) || a * b === 0) continue;
        turned = true;
        const zeta = (b - a) / (2 * c);
        const t = (zeta < 0 ? -1 : 1) /
                  (Math.abs(zeta) + Math.sqrt(1 + zeta ** 2));
        const cos = 1 / Math.sqrt(1 + t * t), sin = cos * t;
        for (const M of [U, V]) {
          for (let l = 0; l < n; l++) {
            const x = M[i][l], y = M[j][l];
            M[i][l] = cos * x - sin * y;
            M[j][l] = sin * x + cos * y;
          }
        }
      }
    }
  }
  return U.map((u, i) => ({ s: Math.sqrt(inner(u, u)), v: V[i] }))
    .sort((a, b) => b.s - a.s);
}

/** Everything that is shown, for every m from 1 to N. */
function measure(options) {
  const { q, k, v, G } = tokens(options), N = options.N;
  const A = weights(q, k), o = times(A, v);
  const values = singular(A);
  const total = values.reduce((sum, { s }) => sum + s, 0);
  const size = Math.hypot(...o.flat());
  const mean = times([v.map(() => 1 / N)], v)[0];
  const squares = values.reduce((sum, { s }) => sum + s * s, 0);
  const kept = [], matrix = [], best = [], compressed = [];
  for (let m = 1; m <= N; m++) {
    const lost = values.slice(m);
    kept.push(1 - lost.reduce((sum, { s }) => sum + s, 0) / total);
    matrix.push(Math.sqrt(lost.reduce((sum, { s }) => sum + s * s, 0) /
                          squares));
    // The lost part of the output is Σ sᵢ uᵢ (vᵢᵀ V), and the uᵢ are at
    // right angles.
    best.push(Math.sqrt(lost.reduce((sum, { s, v: row }) => sum +
      s * s * times([row], v)[0].reduce((a, x) => a + x * x, 0), 0)) / size);
    const E = projection(options, G, m);
    compressed.push(distance(linformer(q, k, v, E, E), o));
  }
  return { kept, matrix, best, compressed,
           mean: distance(o.map(() => mean), o) };
}

// ---- the pictures ----

/** Curves over m = 1 … N; `y` places a value between 0 (below) and 1. */
function curves({ label, width, N, m, lines, ticks, y, yTitle }) {
  const height = 210, left = 50, right = 12, top = 10, bottom = 40;
  const X = (at) => left + (at - 1) / Math.max(N - 1, 1) *
                           (width - left - right);
  const Y = (value) => top + (1 - Math.max(0, Math.min(1, y(value)))) *
                             (height - top - bottom);
  const text = (x, at, content, anchor = "middle", more = {}) => {
    const node = svg("text", { x, y: at, "text-anchor": anchor, ...more });
    node.textContent = content;
    return node;
  };
  return svg("svg", { width, height, role: "img", "aria-label": label },
    ...ticks.flatMap((value) => [
      svg("line", { class: "lt-grid", x1: left, x2: width - right,
                    y1: Y(value), y2: Y(value) }),
      text(left - 5, Y(value) + 4, String(value), "end")]),
    text(left, height - bottom + 16, "1"),
    text(X(N), height - bottom + 16, N),
    text((left + width - right) / 2, height - 6, "slots m"),
    text(0, 0, yTitle, "middle", { transform:
      `translate(12 ${(top + height - bottom) / 2}) rotate(-90)` }),
    svg("line", { class: "lt-here", x1: X(m), x2: X(m), y1: top,
                  y2: height - bottom }),
    ...lines.flatMap(({ values, hue, dash }) => [
      svg("polyline", { class: "lt-curve", "stroke-dasharray": dash,
        style: `stroke: var(--lt-${hue})`,
        points: values.map((v, i) => `${X(i + 1)},${Y(v)}`).join(" ") }),
      svg("circle", { cx: X(m), cy: Y(values[m - 1]), r: 4.5,
                      style: `fill: var(--lt-${hue})` })]));
}

const LINES = {         // hue, dash, words
  compressed: ["o", "", "Linformer"],
  best: ["read", "7 4", "closest weights of rank m"],
  mean: ["muted", "2 3", "the mean of all values"],
};

/** A stroke as its line is drawn. */
const sample = (hue, dash) => svg("svg", { width: 30, height: 10,
  "aria-hidden": "true", style: "display: inline-block" },
  svg("line", { class: "lt-curve", x1: 0, x2: 30, y1: 5, y2: 5,
                "stroke-dasharray": dash,
                style: `stroke: var(--lt-${hue})` }));

const percent = (x) => `${(100 * x).toFixed(1)}%`;
const size = (x) => x < 1e-3 ? "below 0.001" : String(+x.toPrecision(2));

// ---- the widget ----

function render({ model, el }) {
  const names = ["N", "m", "scale", "inputs", "projection", "seed"];
  const options = () => Object.fromEntries(
    names.map((name) => [name, model.get(name)]));
  const opened = options();
  let saving = false;
  const save = (changes) => {
    saving = true;
    for (const [name, value] of Object.entries(changes)) {
      model.set(name, value);
    }
    model.set("m", Math.max(1, Math.min(model.get("N"), model.get("m"))));
    model.save_changes();
    saving = false;
    draw();
  };

  // -- controls --
  const why = h("p", { class: "lt-why", role: "alert" });
  const refused = (reason) => { why.textContent = reason; };
  const whole = (name, label, low, high) => counter({ label, low, high,
    refused, get: () => model.get(name), set: (n) => save({ [name]: n }) });
  const counters = [whole("N", "tokens N", 2, MOST_TOKENS),
                    whole("seed", "seed", 0, LAST_SEED)];
  const choice = (name, label, table) => {
    const select = h("select", { "aria-label": label,
      onchange: () => save({ [name]: select.value }) },
      ...Object.entries(table).map(([value, text]) =>
        h("option", { value, text })));
    return select;
  };
  const inputs = choice("inputs", "Inputs", INPUTS);
  const mix = choice("projection", "Projection", PROJECTIONS);
  const slider = h("input", { type: "range", min: 1, "aria-label": "Slots m",
    title: "Arrow keys, Home and End",
    oninput: () => save({ m: Number(slider.value) }) });
  const slots = h("span", { class: "lt-count" });
  const heat = h("input", { type: "range", min: -4, max: 6, step: 1,
    "aria-label": "Input scale",
    oninput: () => save({ scale: 2 ** (Number(heat.value) / 2) }) });
  const warmth = h("span", { class: "lt-count" });
  const says = h("p", { class: "lt-says", role: "status" });
  const spectrum = h("div", { class: "lt-card lt-plot" });
  const errors = h("div", { class: "lt-card lt-plot" });

  let drawn = "", measured;
  function draw() {
    const now = options(), { N, m, scale } = now;
    if (!(2 <= N && N <= MOST_TOKENS && 1 <= m && m <= N && scale >= 0.2 &&
          scale <= 9 && now.inputs in INPUTS && now.projection in PROJECTIONS &&
          0 <= now.seed && now.seed <= LAST_SEED)) {
      says.textContent = "These settings cannot be used.";
      return;
    }
    const key = JSON.stringify({ ...now, m: 0 });
    if (key !== drawn) measured = measure(now);
    drawn = key;
    const at = Object.fromEntries(["kept", "matrix", "best", "compressed"]
      .map((name) => [name, measured[name][m - 1]]));
    inputs.value = now.inputs;
    mix.value = now.projection;
    slider.max = N;
    slider.value = m;
    slider.setAttribute("aria-valuetext", `${m} of ${N} slots`);
    slots.textContent = `m = ${m} of ${N}`;
    heat.value = Math.round(2 * Math.log2(scale));
    warmth.textContent = `scale ${+scale.toPrecision(2)}`;
    heat.setAttribute("aria-valuetext", warmth.textContent);
    counters.forEach((control) => control.draw());
    const words = `With ${m} of ${N} slots, Linformer's output is off by ` +
      `${size(at.compressed)} of its own size. The closest weights of rank ` +
      `${m} would be off by ${size(at.best)}, the mean of all values by ` +
      `${size(measured.mean)}.`;
    if (says.textContent !== words) says.textContent = words;

    const width = Math.max(240, Math.min(spectrum.clientWidth - 24 || 320,
                                         440));
    spectrum.replaceChildren(
      h("p", { class: "lt-title", text: "The weights: singular values kept" }),
      curves({ label: "Sum of the first m singular values, of all", width,
        N, m, ticks: [0, 0.5, 1], y: (value) => value, yTitle: "share",
        lines: [{ values: measured.kept, hue: "read", dash: "7 4" }] }),
      h("p", { class: "lt-cost", text: `The first ${m} hold ` +
        `${percent(at.kept)} of their sum; without the rest the matrix is ` +
        `off by ${size(at.matrix)}. ${N * m} weights instead of ` +
        `${N * N}.` }));
    errors.replaceChildren(
      h("p", { class: "lt-title", text: "The output: how far off" }),
      curves({ label: "Error of the output against m, logarithmic", width,
        N, m, ticks: [0.01, 0.1, 1, 10, 100], yTitle: "relative error",
        y: (value) => (Math.log10(value) + 2.5) / 4.7,
        lines: Object.entries(LINES).map(([name, [hue, dash]]) => ({ hue,
          dash, values: name === "mean" ? measured.kept.map(
            () => measured.mean) : measured[name] })) }),
      h("p", { class: "lt-cost" }, ...Object.values(LINES)
        .flatMap(([hue, dash, text], i) => [i ? "  " : "",
          h("span", { style: "white-space: nowrap" }, sample(hue, dash),
            ` ${text}`)])));
  }

  const root = h("div", { class: "lt lt-compression", role: "group",
                          "aria-label": "Compression explorer" },
    h("div", { class: "lt-bar" },
      button("Reset", () => { refused(""); save(opened); }), slider, slots),
    h("div", { class: "lt-bar" }, h("span", { text: "Input scale" }), heat,
      warmth),
    says, h("div", { class: "lt-pair" }, spectrum, errors),
    h("div", { class: "lt-card" }, h("div", { class: "lt-sizes" }, inputs,
      mix, ...counters.map(({ node }) => node)), why));
  root.addEventListener("keydown", (event) => {
    if (event.target === heat) event.stopPropagation();
  }, true);
  const go = (to) => () => save({ m: to() });
  onKeys(root, {
    ArrowRight: go(() => model.get("m") + 1), Home: go(() => 1),
    ArrowLeft: go(() => model.get("m") - 1), End: go(() => model.get("N")),
  });
  el.append(root);
  draw();
  const resized = new ResizeObserver(() => draw());
  resized.observe(root);
  const watched = names.map((name) => `change:${name}`).join(" ");
  const changed = () => { if (!saving) draw(); };
  model.on(watched, changed);
  return () => { resized.disconnect(); model.off(watched, changed); };
}

export { tokens, projection, weights, softmax, linformer, singular, measure };
export default { render };
