// The mask explorer: who sees whom in one layer, who hears whom in several.
//
// A mask is a matrix of kinds, query (row) by key (column): 0 is not seen.
// It equals the masks of lintut.reference, but for BigBird's random blocks:
// they follow the same rule, drawn by another generator.

const WINDOW = 1, GLOBAL = 2, RANDOM = 3;
const KINDS = [null, ["window", "square"], ["global", "ring"],
               ["random", "diamond"]];
const MOST = 64;

const PATTERNS = {
  window: ["Window, plain or dilated", ["window", "dilation"]],
  longformer: ["Longformer", ["window", "dilation"]],
  bigbird: ["BigBird", ["block_size", "n_window", "n_global", "n_random",
                        "seed"]],
};
const COUNTERS = {              // trait: [label, least, most]
  N: ["tokens N", 2, MOST],
  depth: ["layers L", 1, MOST],
  window: ["window w", 1, MOST],
  dilation: ["dilation", 1, MOST],
  block_size: ["block size", 1, MOST],
  n_window: ["window blocks", 1, MOST],
  n_global: ["global blocks", 0, MOST],
  n_random: ["random blocks", 0, MOST],
  seed: ["seed", 0, 999999999],
};

// ---- masks ----

const range = (n) => Array.from({ length: n }, (_, i) => i);
const square = (n, cell) => range(n).map((i) => range(n).map(
  (j) => cell(i, j)));

/** How many of the w keys lie before the query, and how many after it. */
const sides = (w, causal) =>
  causal ? [w - 1, 0] : [Math.floor(w / 2), Math.floor((w - 1) / 2)];

function longformer({ pattern, N, window, dilation, global_positions,
                      causal }) {
  const [before, after] = sides(window, causal);
  const chosen = pattern === "longformer" ? global_positions : [];
  return square(N, (i, j) => {
    const steps = (j - i) / dilation;
    if (causal && j > i) return 0;
    if (Number.isInteger(steps) && -before <= steps && steps <= after) {
      return WINDOW;
    }
    return chosen.includes(i) || chosen.includes(j) ? GLOBAL : 0;
  });
}

function bigbird({ N, block_size, n_window, n_global, n_random, seed,
                   causal }) {
  const blocks = Math.ceil(N / block_size);
  const [before, after] = sides(n_window, causal);
  const next = uniform(seed);
  const between = range(blocks).map((b) => {
    const row = Array(blocks).fill(0), rest = [];
    for (const c of range(causal ? b + 1 : blocks)) {
      if (Math.min(b, c) < n_global) row[c] = GLOBAL;
      else if (b - before <= c && c <= b + after) row[c] = WINDOW;
      else rest.push(c);
    }
    for (let n = Math.min(n_random, rest.length); n > 0; n--) {
      row[rest.splice(Math.floor(next() * rest.length), 1)[0]] = RANDOM;
    }
    return row;
  });
  const block = (i) => Math.floor(i / block_size);
  return square(N, (i, j) => causal && j > i ? 0 : between[block(i)][block(j)]);
}

const kinds = (options) =>
  (options.pattern === "bigbird" ? bigbird : longformer)(options);

// ---- the graph ----

/** After how many layers token i hears each token; null is never. */
function hops(mask, i) {
  const distance = mask.map(() => null), queue = [i];
  distance[i] = 0;
  for (const from of queue) {
    for (const j of mask.keys()) {
      if (!mask[from][j] || distance[j] !== null) continue;
      distance[j] = distance[from] + 1;
      queue.push(j);
    }
  }
  return distance;
}

/** How much of token i is each token, if every layer took plain means. */
function shares(mask, i, depth) {
  const degree = mask.map((row) => row.filter(Boolean).length);
  let share = mask.map((_, j) => Number(i === j));
  for (let layer = 0; layer < depth; layer++) {
    share = mask.map((_, j) => share.reduce(
      (sum, p, from) => sum + (mask[from][j] ? p / degree[from] : 0), 0));
  }
  return share;
}

/** Pairs seen, of how many; most keys in a row; layers until all is heard. */
function counts(mask, causal) {
  const N = mask.length;
  const rows = mask.map((row) => row.filter(Boolean).length);
  let layers = 0;
  for (const i of mask.keys()) {
    for (const distance of hops(mask, i).slice(0, causal ? i + 1 : N)) {
      layers = distance === null ? Infinity : Math.max(layers, distance);
    }
  }
  return { pairs: rows.reduce((a, b) => a + b),
           all: causal ? N * (N + 1) / 2 : N * N, most: Math.max(...rows),
           layers };
}

// ---- in words ----

const percent = (x) => x >= 0.0995 ? `${(100 * x).toFixed(0)}%` :
  x >= 0.00095 ? `${(100 * x).toFixed(1)}%` :
  (100 * x).toExponential(0).replace(/e(.*)/, (_, e) => `·10${raised(e)}%`);
const some = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

function sentence(mask, token, depth) {
  const seen = mask[token].filter(Boolean).length;
  const distance = hops(mask, token);
  const heard = range(mask.length).filter(
    (j) => distance[j] !== null && distance[j] <= depth);
  const far = heard.reduce((a, b) =>
    Math.abs(b - token) > Math.abs(a - token) ? b : a);
  return `Token ${token} sees ${some(seen, "token")} in one layer and hears ` +
    `${heard.length} in ${some(depth, "layer")}, itself included. ` +
    (far === token ? "It hears no other." :
     `The farthest is token ${far}: if every layer took the plain mean of ` +
     "what it sees, its share of the result would be " +
     `${percent(shares(mask, token, depth)[far])}.`);
}

// ---- the pictures ----

/** Unit cells [column, row] as one path; the shape tells the kind. */
function cells(where, shape) {
  const draw = {
    square: (x, y) => `M${x + .06} ${y + .06}h.88v.88h-.88z`,
    ring: (x, y) => `M${x + .06} ${y + .06}h.88v.88h-.88z` +
                    `M${x + .3} ${y + .3}v.4h.4v-.4z`,
    diamond: (x, y) => `M${x + .5} ${y}l.5 .5l-.5 .5l-.5 -.5z`,
    dot: (x, y) => `M${x + .35} ${y + .35}h.3v.3h-.3z`,
  }[shape];
  return svg("path", { class: `lt-cell-${shape}`,
                       d: where.map(([x, y]) => draw(x, y)).join("") });
}

/** A drawing of columns × rows cells; a click picks a column or a row. */
function drawing(columns, rows, label, pick, ...children) {
  return svg("svg", {
    class: "lt-cells", role: "img", "aria-label": label,
    viewBox: `-0.3 -0.3 ${columns + 0.6} ${rows + 0.6}`,
    onclick(event) {
      const box = event.currentTarget.getBoundingClientRect();
      const at = (offset, size, n) => Math.max(0, Math.min(n - 1,
        Math.floor(offset / size * (n + 0.6) - 0.3)));
      pick(at(event.clientX - box.left, box.width, columns),
           at(event.clientY - box.top, box.height, rows));
    },
  }, svg("rect", { class: "lt-frame", x: 0, y: 0, width: columns,
                   height: rows }), ...children);
}

const band = (x, y, width, height) =>
  svg("rect", { class: "lt-band", x, y, width, height });

function maskPicture(mask, token, depth, pick) {
  const N = mask.length, distance = hops(mask, token);
  const every = range(N).flatMap((i) => range(N).map((j) => [j, i]));
  const indirect = range(N).filter((j) =>
    !mask[token][j] && distance[j] !== null && distance[j] <= depth);
  return drawing(N, N,
    `Mask, ${N} queries (rows) by ${N} keys (columns); row ${token} is chosen`,
    (_, row) => pick(row),
    ...[WINDOW, GLOBAL, RANDOM].map((kind) => cells(
      every.filter(([j, i]) => mask[i][j] === kind), KINDS[kind][1])),
    cells(indirect.map((j) => [j, token]), "dot"),
    band(0, token, N, 1));
}

/** Row l holds the tokens that are heard within l layers. */
function reachPicture(mask, token, depth, pick) {
  const N = mask.length, distance = hops(mask, token);
  const where = (test) => range(depth + 1).flatMap((l) => range(N)
    .filter((j) => distance[j] !== null && test(distance[j], l))
    .map((j) => [j, l]));
  return drawing(N, depth + 1,
    `Tokens (columns) that token ${token} hears within 0 to ${depth} ` +
    "layers (rows)", pick,
    cells(where((hop, l) => hop === l), "square"),
    cells(where((hop, l) => hop < l), "dot"),
    band(token, 0, 1, depth + 1));
}

// ---- the widget ----

function render({ model, el }) {
  const names = ["pattern", "causal", "token", "global_positions",
                 ...Object.keys(COUNTERS)];
  const options = () => Object.fromEntries(
    names.map((name) => [name, model.get(name)]));
  const opened = options();
  let saving = false;
  const save = (changes) => {
    saving = true;
    for (const [name, value] of Object.entries(changes)) {
      model.set(name, value);
    }
    const { N, token, global_positions } = options();
    model.set("token", Math.max(0, Math.min(N - 1, token)));
    model.set("global_positions", global_positions.filter((j) => j < N));
    model.save_changes();
    saving = false;
    draw();
  };
  const pick = (token) => save({ token });

  // -- controls --
  const refused = (reason) => { why.textContent = reason; };
  const why = h("p", { class: "lt-why", role: "alert" });
  const pattern = h("select", { "aria-label": "Pattern",
    onchange: () => save({ pattern: pattern.value }) },
    ...Object.entries(PATTERNS).map(([value, [text]]) =>
      h("option", { value, text })));
  const causal = h("input", { type: "checkbox",
    onchange: () => save({ causal: causal.checked }) });
  const counters = Object.entries(COUNTERS).map(([name, [label, low, high]]) =>
    ({ name, ...counter({ label, low, high, refused,
                          get: () => model.get(name),
                          set: (n) => save({ [name]: n }) }) }));
  const globals = field({ label: "Global positions", text: "",
    accept(text) {
      const N = model.get("N");
      const parts = text.split(/[\s,]+/).filter(Boolean);
      const good = parts.every((x) => /^\d{1,9}$/.test(x) && Number(x) < N);
      const reason = good ? "" : "Global positions are whole numbers from 0 " +
        `to ${N - 1}, with commas between; “${text.slice(0, 20)}” is not.`;
      refused(reason);
      if (good) {
        save({ global_positions:
          [...new Set(parts.map(Number))].sort((a, b) => a - b) });
      }
      return reason;
    } });
  const globalBox = h("span", { class: "lt-size" }, "global positions ",
                      globals);
  const slider = h("input", { type: "range", min: 0, "aria-label": "Token",
    title: "Arrow keys, Home and End",
    oninput: () => pick(Number(slider.value)) });
  const says = h("p", { class: "lt-says", role: "status" });
  const count = h("span", { class: "lt-count" });
  const numbers = h("div");
  const pictures = h("div", { class: "lt-roads" });

  // -- all of it --
  function draw() {
    const now = options(), { N, token, depth } = now;
    const bad = Object.entries(COUNTERS).find(([name, [, low, high]]) =>
      !(low <= now[name] && now[name] <= high));
    if (bad) {
      says.textContent = `These settings cannot be used: ${bad[1][0]} is ` +
                         `${now[bad[0]]}.`;
      return;
    }
    pattern.value = now.pattern;
    causal.checked = now.causal;
    slider.max = N - 1;
    slider.value = token;
    slider.setAttribute("aria-valuetext", `token ${token} of 0 to ${N - 1}`);
    count.textContent = `Token ${token}`;
    const used = ["N", "depth", ...PATTERNS[now.pattern][1]];
    for (const { name, node, draw: redraw } of counters) {
      node.hidden = !used.includes(name);
      redraw();
    }
    globalBox.hidden = now.pattern !== "longformer";
    if (globals.getAttribute("aria-invalid") !== "true") {
      globals.value = now.global_positions.join(", ");
    }
    const mask = kinds(now);
    const { pairs, all, most, layers } = counts(mask, now.causal);
    const words = sentence(mask, token, depth);
    if (says.textContent !== words) says.textContent = words;
    numbers.replaceChildren(h("table", { class: "lt-facts" }, h("tbody", {},
      ...[["pairs compared", `${pairs} of ${all} (${percent(pairs / all)})`],
          ["most keys in a row", most],
          ["layers until each token hears all it may",
           layers === Infinity ? "never" : layers]]
        .map(([name, value]) => h("tr", {},
          h("th", { scope: "row", text: name }), h("td", { text: value }))))));
    pictures.replaceChildren(
      h("div", { class: "lt-card" },
        h("p", { class: "lt-title", text: "One layer: who sees whom" }),
        maskPicture(mask, token, depth, pick),
        h("p", { class: "lt-cost", text: "Row: query. Column: key. " +
          "■\u00a0window ▣\u00a0global ◆\u00a0random ▪\u00a0heard through others" })),
      h("div", { class: "lt-card" },
        h("p", { class: "lt-title",
                 text: `${some(depth, "layer")}: whom token ${token} hears` }),
        reachPicture(mask, token, depth, pick),
        h("p", { class: "lt-cost", text: "Column: token. Row l, from 0 at " +
          "the top: heard within l layers, ■\u00a0for the first time." }),
        numbers));
  }

  const root = h("div", { class: "lt lt-mask-explorer", role: "group",
                          "aria-label": "Mask explorer" },
    h("div", { class: "lt-bar" },
      button("Reset", () => { refused(""); save(opened); }), pattern,
      h("label", {}, causal, " causal"), slider, count),
    says, pictures,
    h("div", { class: "lt-card" }, h("div", { class: "lt-sizes" },
      ...counters.map(({ node }) => node), globalBox), why));
  onKeys(root, {
    ArrowRight: () => pick(model.get("token") + 1),
    ArrowLeft: () => pick(model.get("token") - 1),
    Home: () => pick(0), End: () => pick(model.get("N") - 1),
  });
  el.append(root);
  draw();
  const watched = names.map((name) => `change:${name}`).join(" ");
  const changed = () => { if (!saving) draw(); };
  model.on(watched, changed);
  return () => model.off(watched, changed);
}

export { kinds, hops, shares, counts, percent };
export default { render };
