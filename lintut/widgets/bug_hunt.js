// Bug hunt: design a test, predict how many of twelve wrong versions of the
// gated delta rule it sees, then run it.
//
// The rule is computed one token at a time; what is wrong with a version of
// it is one line of `run`.  Chunks have C tokens: the mistakes of chunkwise
// code are made here at the same places.

const C = 8;
const MISTAKES = {
  row: "the last row of one sequence is never written",
  rest: "the tokens after the last whole chunk are left out",
  first: "the state is read before the token is written",
  transposed: "S is read as S q, not Sᵀq",
  error: "α is left out of the error",
  overlaps: "α is left out of the overlaps in a chunk (WY)",
  wy: "a chunk’s errors do not need one another (no WY)",
  gate: "the gate is that of the token before",
  beta: "β is left out",
  chunks: "no state goes from chunk to chunk",
  start: "the initial state is ignored",
  future: "a chunk is written before its first query reads",
};
const CHOICES = {       // label, [value, text]…
  kind: ["test", ["definition", "compare with the definition"],
         ["leak", "leak test: change the later half"],
         ["carry", "split in two and carry the state"]],
  compare: ["compare", ["rows", "every row by itself"],
            ["rms", "all rows together: RMS error below 2%"]],
  sequences: ["sequences", [1, "1"],
              [1024, "1,024: 16 of them, 64 times each"]],
  gate: ["gates α", ["varied", "varied, 0.5 to 1"], ["one", "all 1"]],
  step: ["steps β", ["varied", "varied, 0.2 to 1"], ["one", "all 1"]],
  state: ["initial state", ["random", "random"], ["zero", "zero"]],
  values: ["values", ["random", "random"], ["constant", "all 1"]],
  widths: ["d and dᵥ", [3, "d = 4, dᵥ = 3"], [4, "d = dᵥ = 4"]],
};
const EASY = { kind: "definition", compare: "rms", tokens: 8, sequences: 1024,
               gate: "one", step: "one", state: "zero", values: "constant",
               widths: 4 };
const HARD = { kind: "definition", compare: "rows", tokens: 21, sequences: 1,
               gate: "varied", step: "varied", state: "random",
               values: "random", widths: 3 };
const d = 4;

// ---- the arithmetic ----

/** One sequence's inputs: q, k (N, d), v (N, dv), α, β (N), S (d, dv). */
function draw(next, test) {
  const N = test.tokens, dv = test.widths;
  const rows = (n, width, make) => Array.from({ length: n }, () =>
    Float64Array.from({ length: width }, make));
  const any = () => 2 * next() - 1;
  const unit = (row) => {
    const size = Math.hypot(...row);
    return row.map((x) => x / size);
  };
  const x = { q: rows(N, d, any), k: rows(N, d, any).map(unit),
              v: rows(N, dv, any),
              alpha: Float64Array.from({ length: N }, () => 0.5 + next() / 2),
              beta: Float64Array.from({ length: N },
                                      () => 0.2 + 0.8 * next()),
              S: rows(d, dv, any) };
  if (test.gate === "one") x.alpha.fill(1);
  if (test.step === "one") x.beta.fill(1);
  if (test.values === "constant") for (const row of x.v) row.fill(1);
  if (test.state === "zero") for (const row of x.S) row.fill(0);
  return x;
}

/** { o, S }: the rule, or with a mistake's name that version of it. */
function run({ q, k, v, alpha, beta, S: S0 }, bug = "", spoilt = true) {
  const N = q.length, dv = S0[0].length, o = [];
  const copy = (S) => S.map((row) => row.slice());
  const zero = () => S0.map((row) => new Float64Array(row.length));
  let S = bug === "start" ? zero() : copy(S0), left = S, own = S, end = 0;
  const read = (S, x) => {
    const out = new Float64Array(dv);
    for (let i = 0; i < d; i++) {
      for (let j = 0; j < dv; j++) {
        out[j] += bug === "transposed" && x === query ? S[j][i] * x[i]
                                                      : S[i][j] * x[i];
      }
    }
    return out;
  };
  let query = null;
  for (let t = 0; t < N; t++) {
    if (t % C === 0) {
      if (bug === "chunks" && t) S = zero();
      [left, own, end] = [copy(S), zero(), Math.min(t + C, N)];
    }
    if (bug === "rest" && end - (t - t % C) < C) {
      o.push(new Float64Array(dv));
      continue;
    }
    query = q[t];
    const a = alpha[bug === "gate" ? Math.max(t - 1, 0) : t];
    const b = bug === "beta" ? 1 : beta[t];
    const before = bug === "first" ? read(S, query) : null;
    const unfaded = bug === "error" ? read(S, k[t]) : null;
    for (const M of [S, left]) for (const row of M) scale(row, a);
    const old = unfaded ??
      (bug === "wy" ? read(left, k[t]) :
       bug === "overlaps" ? read(left, k[t]).map((x, j) =>
         x + read(own, k[t])[j]) : read(S, k[t]));
    for (let i = 0; i < d; i++) {
      for (let j = 0; j < dv; j++) {
        const written = k[t][i] * b * (v[t][j] - old[j]);
        S[i][j] += written;
        own[i][j] += written;
      }
    }
    o.push(before ?? read(S, query));
    if (bug === "future" && t + 1 === end) {
      for (let s = t - t % C; s <= t; s++) {
        query = q[s];
        o[s] = read(S, query);
      }
    }
  }
  if (bug === "row" && spoilt) o[N - 1].fill(0);
  return { o, S };
}

function scale(row, a) {
  for (let j = 0; j < row.length; j++) row[j] *= a;
}

/** The two results that a test of this kind holds against each other. */
function sides(x, bug, kind, other, spoilt) {
  const N = x.q.length, half = Math.max(1, N >> 1);
  if (kind === "definition") {
    return [run(x, bug, spoilt).o, run(x).o];
  }
  if (kind === "leak") {
    const y = { ...x };
    for (const name of ["q", "k", "v", "alpha", "beta"]) {
      y[name] = x[name].map((row, t) => t < half ? row : other[name][t]);
    }
    return [run(y, bug, spoilt).o.slice(0, half),
            run(x, bug, spoilt).o.slice(0, half)];
  }
  const cut = (from, to, S) => ({ ...Object.fromEntries(
    ["q", "k", "v", "alpha", "beta"].map((name) =>
      [name, x[name].slice(from, to)])), S });
  const first = run(cut(0, half, x.S), bug, spoilt);
  const second = run(cut(half, N, first.S), bug, spoilt);
  return [[...first.o, ...second.o], run(x, bug, spoilt).o];
}

/** For each mistake { seen, rows, bad, ratio } or { seen, raises }. */
function hunt(test, seed = 1) {
  const next = uniform(seed);
  const inputs = Array.from({ length: Math.min(test.sequences, 16) }, () =>
    [draw(next, test), draw(next, test)]);
  return Object.fromEntries(Object.keys(MISTAKES).map((bug) =>
    [bug, judge(test, bug, inputs)]));
}

function judge(test, bug, inputs) {
  if (bug === "transposed" && test.widths !== d) {
    return { seen: true, raises: true };
  }
  let rows = 0, bad = 0, errors = 0, sizes = 0;
  const times = test.sequences / inputs.length;
  inputs.forEach(([x, other], i) => {
    const [mine, theirs] = sides(x, bug, test.kind, other, i === 0);
    const wrong = bug === "row" ? 1 : times;    // one row of one sequence
    mine.forEach((row, t) => {
      let error = 0, size = 0;
      row.forEach((y, j) => {
        error += (y - theirs[t][j]) ** 2;
        size += theirs[t][j] ** 2;
      });
      rows += times;
      bad += wrong * (Math.sqrt(error) > 1e-6 * (1 + Math.sqrt(size)));
      errors += wrong * error;
      sizes += times * size;
    });
  });
  const ratio = sizes ? Math.sqrt(errors / sizes) : Math.sqrt(errors);
  return { rows, bad, ratio,
           seen: test.compare === "rows" ? bad > 0 : ratio >= 0.02 };
}

// ---- the widget ----

function render({ model, el }) {
  const test = () => model.get("test");
  const says = h("p", { class: "lt-says", role: "status" });
  const why = h("p", { class: "lt-why", role: "alert" });
  const place = h("div", { class: "lt-facts" });
  const save = (changes, ran = false) => {
    why.textContent = "";
    model.set("test", { ...test(), ...changes });
    model.set("ran", ran);
    model.save_changes();
    draw_();
  };

  const tokens = counter({ label: "tokens", low: 2, high: 64,
    get: () => test().tokens, set: (n) => save({ tokens: n }),
    refused: (text) => { why.textContent = text; } });
  const selects = Object.entries(CHOICES).map(([name, [label, ...options]]) => {
    const node = h("select", { onchange() {
      save({ [name]: options[node.selectedIndex][0] });
    } }, ...options.map(([value, text]) => h("option", { value, text })));
    node.draw = () => { node.value = String(test()[name]); };
    node.row = h("label", { class: "lt-size" }, `${label} `, node);
    return node;
  });
  const go = button("Run the test", () => save({}, true));

  function verdict(result) {
    if (result.raises) {
      return { text: "✔ seen", note: "it raises: shapes do not fit" };
    }
    const { seen, bad, rows, ratio } = result;
    return { text: seen ? "✔ seen" : "✘ passes",
             mark: seen ? "" : "note",
             note: `${bad.toLocaleString("en")} of ` +
               `${rows.toLocaleString("en")} rows off, RMS ` +
               `${(100 * ratio).toFixed(2)}%` };
  }

  function draw_() {
    tokens.draw();
    selects.forEach((node) => node.draw());
    const ran = model.get("ran");
    const results = ran ? hunt(test()) : {};
    const seen = Object.values(results).filter((r) => r.seen).length;
    const all = Object.keys(MISTAKES).length;
    says.textContent = ran ?
      `This test sees ${seen} of ${all} mistakes` +
        (seen < all ? `; ${all - seen} wrong functions pass it.` : ".") :
      `How many of the ${all} mistakes will this test see, and which not? ` +
        "Decide, then run it.";
    place.replaceChildren(scroller(picture({
      caption: `The gated delta rule in chunks of ${C}, twelve times wrong. ` +
               "Outlined: wrong, and passes.",
      head: [["mistake", { text: "this test", name: true }]],
      body: Object.entries(MISTAKES).map(([bug, text]) =>
        [text, ran ? verdict(results[bug]) : { text: "?", quiet: true }]),
    }), "what the test sees"));
  }

  el.append(h("div", { class: "lt lt-explorer lt-hunt", role: "group",
                       "aria-label": "Bug hunt" },
    h("div", { class: "lt-bar" },
      button("An easy test", () => save(EASY)),
      button("A hard test", () => save(HARD)), go),
    h("div", { class: "lt-sizes lt-wide" },
      ...selects.slice(0, 3).map((node) => node.row)),
    h("div", { class: "lt-sizes" }, tokens.node,
      ...selects.slice(3).map((node) => node.row)),
    why, says, place));
  draw_();
  model.on("change:test", draw_);
  model.on("change:ran", draw_);
  return () => {
    model.off("change:test", draw_);
    model.off("change:ran", draw_);
  };
}

export { draw, run, hunt, EASY, HARD };
export default { render };
