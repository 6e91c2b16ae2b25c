// The weights viewer: the N×N effective weights of a rule, for chosen gates.
//
// W_ij is how much of v_j the query of token i reads, through all that came
// after j: o = W v.  Keys are drawn from a seed: unit vectors, more or less
// alike.

const RULES = {
  additive: { name: "additive", uses: [] },
  normalised: { name: "normalised, φ = ELU + 1", uses: [] },
  retention: { name: "retention", uses: ["gamma"] },
  gla: { name: "GLA", uses: ["alpha", "dip", "dip_alpha", "spread"] },
  delta: { name: "delta", corrects: true, uses: ["beta"] },
  gated_delta: { name: "gated delta", corrects: true,
                 uses: ["alpha", "dip", "dip_alpha", "beta"] },
};
const QUERIES = {
  random: "queries drawn like the keys",
  own: "each query is its token's key",
  first: "every query is the first key",
};
const MOST_TOKENS = 24, WIDEST = 16, LAST_SEED = 999;
const STATE = ["rule", "n", "d", "seed", "similarity", "queries", "gamma",
               "alpha", "dip", "dip_alpha", "spread", "beta"];

// ---- the arithmetic ----

const inner = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

/** Keys and queries, n unit vectors each, of mean cosine ≈ similarity. */
function vectors({ seed, n, d, similarity, queries }) {
  const next = uniform(seed);
  const normal = () => Math.sqrt(-2 * Math.log(1 - next())) *
                       Math.cos(2 * Math.PI * next());
  const unit = (x) => {
    const length = Math.sqrt(inner(x, x));
    return x.map((y) => y / length);
  };
  const direction = () => unit(Array.from({ length: d }, normal));
  const common = direction();
  const drawn = () => Array.from({ length: n }, () => unit(direction().map(
    (x, i) => Math.sqrt(1 - similarity) * x +
              Math.sqrt(similarity) * common[i])));
  const k = drawn(), other = drawn();
  return { k, q: queries === "random" ? other :
                 queries === "own" ? k : k.map(() => k[0]) };
}

/** What fades each channel at each token: (n, d). */
function gates({ rule, n, d, gamma, alpha, dip, dip_alpha, spread }) {
  return Array.from({ length: n }, (_, t) => {
    const a = { retention: gamma, gla: alpha, gated_delta: alpha }[rule] ?? 1;
    const now = rule !== "retention" && RULES[rule].uses.includes("dip") &&
                t + 1 === dip ? dip_alpha : a;
    return Array.from({ length: d }, (__, c) => rule === "gla" && spread &&
      d > 1 ? now + (1 - now) * c / (d - 1) : now);
  });
}

/** The weights, row by row: each query looks back from its own token. */
function weights(options) {
  const { rule, n, beta } = options, { k, q } = vectors(options);
  if (rule === "normalised") {
    const φ = (x) => x.map((y) => Math.max(y, 0) + Math.exp(Math.min(y, 0)));
    return q.map((query, i) => {
      const row = k.map((key, j) => j > i ? 0 : inner(φ(query), φ(key)));
      const total = row.reduce((a, b) => a + b);
      return row.map((w) => w / total);
    });
  }
  const a = gates(options), corrects = RULES[rule].corrects;
  return q.map((query, i) => {
    const row = Array(n).fill(0);
    let look = query;
    for (let j = i; j >= 0; j -= 1) {
      row[j] = (corrects ? beta : 1) * inner(look, k[j]);
      look = look.map((x, c) =>
        a[j][c] * (corrects ? x - row[j] * k[j][c] : x));
    }
    return row;
  });
}

// ---- the picture ----

const CELL = 20, EDGE = 26;

/** A cell's colour: orange above zero, blue below, paper at zero. */
const colour = (w, largest) => `color-mix(in srgb, var(--lt-${
  w < 0 ? "read" : "write"}) ${Math.min(100, 100 * Math.abs(w) / largest)
  .toFixed(1)}%, var(--lt-paper))`;

function matrixPicture(W, largest, point) {
  const n = W.length, size = EDGE + n * CELL;
  const at = (i) => EDGE + i * CELL;
  const label = (i, x, y) => svg("text", { x, y, class: "lt-map-label" },
                                 String(i + 1));
  const cells = W.flatMap((row, i) => row.slice(0, i + 1).map((w, j) => {
    const sign = w < 0 && Math.abs(w) > 0.02 * largest;
    return [svg("rect", { x: at(j) + 0.5, y: at(i) + 0.5, width: CELL - 1,
                          height: CELL - 1, rx: 2,
                          style: `fill: ${colour(w, largest)}` }),
            sign && svg("path", { class: "lt-map-minus",
                                  d: `M${at(j) + 7} ${at(i) + 10}h6` })];
  })).flat().filter(Boolean);
  const every = n > 12 ? 4 : 1;
  const labels = W.flatMap((_, i) => i && (i + 1) % every ? [] :
    [label(i, at(i) + CELL / 2, EDGE - 7),
     label(i, EDGE - 11, at(i) + CELL / 2 + 4)]);
  const marker = svg("rect", { class: "lt-map-row", x: EDGE - 1, rx: 3,
                               height: CELL + 2 });
  const cross = svg("rect", { class: "lt-map-cell", width: CELL,
                              height: CELL, rx: 3 });
  const place = (event) => {
    const box = node.getBoundingClientRect();
    const to = (x) => Math.floor((x * size - EDGE) / CELL);
    const i = to((event.clientY - box.top) / box.height);
    const j = to((event.clientX - box.left) / box.width);
    if (i >= 0 && i < n) point(i, j >= 0 && j <= i ? j : -1);
  };
  const node = svg("svg", { viewBox: `0 0 ${size} ${size}`, role: "img",
                            class: "lt-map", onpointermove: place,
                            onpointerdown: place },
                   ...labels, ...cells, marker, cross);
  return { node, select(i, j) {
    marker.setAttribute("y", at(i) - 1);
    marker.setAttribute("width", (i + 1) * CELL + 2);
    cross.setAttribute("x", at(j));
    cross.setAttribute("y", at(i));
    cross.style.display = j < 0 ? "none" : "";
  } };
}

/** A row's numbers, which a phone scrolls. */
function rowTable(W, i, j, largest) {
  const row = W[i].slice(0, i + 1);
  return h("table", { class: "lt-weights" },
    h("tbody", {},
      h("tr", {}, h("th", { scope: "row", text: "j" }),
        ...row.map((_, c) => h("td", { text: c + 1, class: "lt-quiet" }))),
      h("tr", {}, h("th", { scope: "row", text: `W${sub(i + 1)}ⱼ` }),
        ...row.map((w, c) => h("td", {
          text: Number(w.toFixed(3)).toFixed(3).replace("-", "−"),
          class: c === j && "lt-mark-read",
          style: `box-shadow: inset 0 -5px ${colour(w, largest)}` })))));
}

/** The row in words. */
function sentence(W, i) {
  const row = W[i].slice(0, i + 1);
  const total = row.reduce((a, b) => a + b);
  const most = row.reduce((best, w, j) =>
    Math.abs(w) > Math.abs(row[best]) ? j : best, 0);
  return `Row ${i + 1}: o${sub(i + 1)} takes ${short(row[i])} of its own v` +
    (i ? `, ${short(row[0])} of the first` : "") +
    `; most, ${short(row[most])}, of v${sub(most + 1)}. ` +
    `The row sums to ${short(total)}.`;
}

// ---- the widget ----

function render({ model, el }) {
  const options = () => Object.fromEntries(
    STATE.map((name) => [name, model.get(name)]));
  let W, largest, map, column = -1, saving = false;

  const save = (changes) => {
    saving = true;                      // one drawing a change
    for (const [name, value] of Object.entries(changes)) {
      model.set(name, value);
    }
    model.save_changes();
    saving = false;
    draw();
  };
  const row = () => Math.max(1, Math.min(model.get("n"), model.get("row")));
  const select = (i, j = -1) => {
    column = j;
    const to = Math.max(1, Math.min(model.get("n"), i));
    if (to !== model.get("row")) {
      saving = true;
      model.set("row", to);
      model.save_changes();
      saving = false;
    }
    drawRow();
  };

  // -- controls --
  const why = h("p", { class: "lt-why", role: "alert" });
  const refused = (reason) => { why.textContent = reason; };
  const choice = (name, label, texts) => {
    const node = h("select", { "aria-label": label, onchange() {
      save({ [name]: node.value });
    } }, ...Object.entries(texts).map(([value, text]) =>
      h("option", { value, text })));
    return { node, draw() { node.value = model.get(name); } };
  };
  const whole = (name, label, low, high, set) => counter({
    label, low, high, refused, get: () => model.get(name),
    set: set ?? ((n) => save({ [name]: n })) });
  const number = (name, label, low, high, open) => {
    const accept = (text) => {
      const { value, why: bad } = parseNumber(text);
      const x = bad ? NaN : exact.number(value);
      const outside = !(x >= low && x <= high) || (open && x === low);
      const reason = bad ?? (outside ? `it must lie ${open ?
        `above ${low}, and be at most ${high}` : `from ${low} to ${high}`}` :
        "");
      refused(reason && `${label}: ${reason}. It stays ${model.get(name)}.`);
      if (!reason) save({ [name]: x });
      return reason;
    };
    const input = field({ label, text: String(model.get(name)), accept });
    return {
      node: h("label", { class: "lt-guess" }, `${label} `, input),
      draw() {
        if (input.getAttribute("aria-invalid") !== "true" &&
            input !== document.activeElement) {
          input.value = model.get(name);
        }
      },
    };
  };
  const alike = h("input", { type: "range", min: 0, max: 1, step: 0.05,
    "aria-label": "Similarity of the keys",
    oninput() { save({ similarity: Number(alike.value) }); } });
  const alikeText = h("span", {});
  const spread = h("input", { type: "checkbox", onchange() {
    save({ spread: spread.checked });
  } });
  const controls = {
    rule: choice("rule", "Rule", Object.fromEntries(
      Object.entries(RULES).map(([rule, { name }]) => [rule, name]))),
    gamma: number("gamma", "γ", 0, 1, true),
    alpha: number("alpha", "α", 0, 1, true),
    dip: whole("dip", "dip at token (0: none)", 0, MOST_TOKENS),
    dip_alpha: number("dip_alpha", "α at the dip", 0, 1, true),
    spread: {
      node: h("label", {}, spread, " channels from α up to 1"),
      draw() { spread.checked = model.get("spread"); },
    },
    beta: number("beta", "β", 0, 2, false),
    queries: choice("queries", "Queries", QUERIES),
    similarity: {
      node: h("label", { class: "lt-bar" }, alikeText, alike),
      draw() {
        alike.value = model.get("similarity");
        alikeText.textContent =
          `keys alike: ${model.get("similarity").toFixed(2)}`;
      },
    },
    n: whole("n", "tokens N", 1, MOST_TOKENS, (n) => {
      save({ n, row: row() === model.get("n") ? n : Math.min(row(), n) });
    }),
    d: whole("d", "width d", 1, WIDEST),
    seed: whole("seed", "seed", 0, LAST_SEED),
  };
  const rows = h("input", { type: "range", min: 1, "aria-label": "Row",
    title: "Arrow keys, Home and End",
    oninput: () => select(Number(rows.value)) });
  const says = h("p", { class: "lt-says", role: "status" });
  const cell = h("p", { class: "lt-cost" });
  const numbers = h("div");
  const square = h("div");
  const ends = [h("span"), h("span")];
  const scale = h("p", { class: "lt-scale" }, ends[0],
                  h("span", { class: "lt-scale-bar" }), ends[1]);

  // -- all of it --
  function draw() {
    const { uses } = RULES[model.get("rule")];
    for (const [name, control] of Object.entries(controls)) {
      control.draw();
      control.node.hidden = GATES.includes(name) && !uses.includes(name);
    }
    W = weights(options());
    largest = Math.max(...W.flat().map(Math.abs)) || 1;
    map = matrixPicture(W, largest, (i, j) => select(i + 1, j));
    square.replaceChildren(map.node);
    ends[0].textContent = `−${short(largest)}`;
    ends[1].textContent = short(largest);
    rows.max = W.length;
    drawRow();
  }
  function drawRow() {
    const i = row() - 1, j = column <= i ? column : -1;
    const words = sentence(W, i);
    map.select(i, j);
    map.node.setAttribute("aria-label", `${W.length} by ${W.length} weights ` +
      `of ${RULES[model.get("rule")].name}, row ${i + 1} marked`);
    rows.value = i + 1;
    if (says.textContent !== words) says.textContent = words;
    numbers.replaceChildren(scroller(rowTable(W, i, j, largest),
                                     `Row ${i + 1}`));
    cell.textContent = j < 0 ? "Point at a cell, or move the row." :
      `Query ${i + 1}, key ${j + 1}: W = ${W[i][j].toPrecision(4)
        .replace("-", "−")}`;
  }

  const reading = h("div", { class: "lt-card" },
    square, scale,
    h("label", { class: "lt-bar" }, "row ", rows), cell);
  const { rule, queries, ...others } = controls;
  const root = h("div", { class: "lt lt-weights-viewer", role: "group",
                          "aria-label": "Weights viewer" },
    h("div", { class: "lt-bar" }, resetter(model, [...STATE, "row"], why),
      rule.node, queries.node),
    says,
    h("div", { class: "lt-view" }, reading,
      h("div", { class: "lt-card" },
        h("div", { class: "lt-knobs" },
          ...Object.values(others).map(({ node }) => node)), why)),
    numbers);
  const move = (by) => () => select(row() + by);
  onKeys(reading, {
    ArrowUp: move(-1), ArrowLeft: move(-1), ArrowDown: move(1),
    ArrowRight: move(1), Home: () => select(1),
    End: () => select(model.get("n")),
  });
  el.append(root);
  draw();
  const watched = [...STATE, "row"].map((name) => `change:${name}`).join(" ");
  const changed = () => { if (!saving) draw(); };
  model.on(watched, changed);
  return () => model.off(watched, changed);
}

const GATES = ["gamma", "alpha", "dip", "dip_alpha", "spread", "beta"];

export { weights, vectors, gates };
export default { render };
