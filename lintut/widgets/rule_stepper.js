// The rule stepper: the same tokens through several rules, side by side.
//
// Every rule fades the state, takes what to write, writes it, and reads:
//
//   S̄ = diag(a) S,  e = β (v − S̄ᵀk) or e = v,  S ← S̄ + k eᵀ,  o = Sᵀq
//
// They differ in a, in whether an error is taken, and in whether o is divided
// by z·q with z = Σ k.  Step 0 is the empty state; step 2t−1 writes token t,
// step 2t reads.

// JSON, because rule_stepper.py reads it too.  `ask`: the tokens whose read
// is predicted first.  `channels` are GLA's gates, `alpha` Gated DeltaNet's.
const PRESETS = {
  "two-then-five": {
    "title": "2, then 5, to one key", "ask": [2],
    "rules": ["additive", "normalised", "delta"],
    "k": [["1", "0"], ["1", "0"]], "v": [["2"], ["5"]],
    "q": [["1", "0"], ["1", "0"]], "gamma": "1/2",
    "channels": [["1/2", "1/2"], ["1/2", "1/2"]],
    "alpha": ["1/2", "1/2"], "beta": ["1", "1"]
  },
  "similar-keys": {
    "title": "similar keys", "ask": [2, 3],
    "rules": ["additive", "normalised", "delta"],
    "k": [["1", "0"], ["3/5", "4/5"], ["0", "1"]],
    "v": [["2"], ["5"], ["1"]],
    "q": [["1", "0"], ["1", "0"], ["1", "0"]], "gamma": "1/2",
    "channels": [["1/2", "1/2"], ["1/2", "1/2"], ["1/2", "1/2"]],
    "alpha": ["1/2", "1/2", "1/2"], "beta": ["1", "1", "1"]
  },
  "long-gap": {
    "title": "a long gap", "ask": [2, 6],
    "rules": ["additive", "retention", "gla"],
    "k": [["1", "0"], ["0", "1"], ["0", "1"], ["0", "1"], ["0", "1"],
          ["0", "1"]],
    "v": [["32"], ["1"], ["1"], ["1"], ["1"], ["1"]],
    "q": [["1", "0"], ["1", "0"], ["1", "0"], ["1", "0"], ["1", "0"],
          ["1", "0"]], "gamma": "1/2",
    "channels": [["1", "1/2"], ["1", "1/2"], ["1", "1/2"], ["1", "1/2"],
                 ["1", "1/2"], ["1", "1/2"]],
    "alpha": ["1/2", "1/2", "1/2", "1/2", "1/2", "1/2"],
    "beta": ["1", "1", "1", "1", "1", "1"]
  },
  "forget": {
    "title": "forget", "ask": [3, 4],
    "rules": ["gla", "delta", "gated_delta", "misplaced"],
    "k": [["1", "0"], ["0", "1"], ["1", "0"], ["0", "0"]],
    "v": [["1"], ["1"], ["0"], ["0"]],
    "q": [["1", "0"], ["0", "1"], ["1", "0"], ["0", "1"]], "gamma": "0.5",
    "channels": [["1", "1"], ["1", "1"], ["0.5", "0.5"], ["0.1", "0.1"]],
    "alpha": ["1", "1", "0.5", "0.1"], "beta": ["1", "1", "1", "1"]
  }
};

const LONGEST_SEQUENCE = 8;
const all = (row, a) => row.map(() => a);

// `fade` gives a; `corrects` takes the error, `early` before the fading.
const RULES = {
  additive: { name: "additive", formula: "S ← S + k vᵀ", gates: [] },
  normalised: { name: "normalised", sums: true, gates: [],
    formula: "S ← S + k vᵀ, z ← z + k, o = Sᵀq / z·q" },
  retention: { name: "retention", formula: "S ← γS + k vᵀ",
    gates: ["gamma"], fade: (x, t) => all(x.k[t], x.gamma[0][0]) },
  gla: { name: "GLA", formula: "S ← diag(α)S + k vᵀ",
    gates: ["channels"], fade: (x, t) => x.channels[t] },
  delta: { name: "delta", corrects: true, gates: ["beta"],
    formula: "e = β(v − Sᵀk), S ← S + k eᵀ" },
  gated_delta: { name: "gated delta", corrects: true,
    formula: "S̄ = αS, e = β(v − S̄ᵀk), S ← S̄ + k eᵀ",
    gates: ["alpha", "beta"], fade: (x, t) => all(x.k[t], x.alpha[t][0]) },
  misplaced: { name: "gated delta, error unfaded", corrects: true,
    early: true, formula: "another rule:  e = β(v − Sᵀk), S ← αS + k eᵀ",
    gates: ["alpha", "beta"], fade: (x, t) => all(x.k[t], x.alpha[t][0]) },
};

const PARTS = { k: "k", v: "v", q: "q", gamma: "γ", channels: "α (GLA)",
                alpha: "α", beta: "β" };
const GATES = ["channels", "alpha", "beta"];       // those with a token axis

// ---- the arithmetic ----

const ONE = fraction(1n), MINUS_ONE = fraction(-1n);
const less = (F, a, b) => F.add(a, F.times(F.of(MINUS_ONE), b));
const fade = (F, a, S) =>
  S.map((row, i) => row.map((s) => F.times(a[i], s)));

/** Every step of one rule on x = { k, v, q, gamma, channels, alpha, beta }. */
function run(F, rule, x) {
  const { fade: gate, corrects, early, sums } = RULES[rule];
  const one = F.of(ONE), past = [];
  let S = x.k[0].map(() => all(x.v[0], F.zero)), z = all(x.k[0], F.zero);
  return x.k.map((k, t) => {
    const before = { S, z };
    const a = gate ? gate(x, t) : all(k, one);
    const faded = fade(F, a, S);
    const held = corrects && transposeTimes(F, early ? S : faded, k);
    const error = !corrects ? x.v[t] :
      x.v[t].map((v, j) => F.times(x.beta[t][0], less(F, v, held[j])));
    S = madd(F, faded, outer(F, k, error));
    z = vadd(F, z, k);
    past.push({ k, a, b: corrects ? x.beta[t][0] : one });
    const read = transposeTimes(F, S, x.q[t]);
    const total = sums ? dot(F, z, x.q[t]) : one;
    const ratio = (y) => F.over(y, total), refused = F.sign(total) <= 0;
    return { before, a, held, error, S, z, total,
             o: refused ? null : read.map(ratio),
             weights: refused ? null :
               lookBack(F, RULES[rule], past, x.q[t]).map(ratio) };
  });
}

/** How much of each past v the query reads: through all that came after. */
function lookBack(F, { corrects, early }, past, q) {
  const weights = [];
  for (const { k, a, b } of [...past].reverse()) {
    const seen = F.times(b, dot(F, q, k));
    weights.unshift(seen);
    const hidden = (i) => F.times(seen, k[i]);      // corrected away
    q = q.map((y, i) => !corrects ? F.times(a[i], y) :
      early ? less(F, F.times(a[i], y), hidden(i)) :
              F.times(a[i], less(F, y, hidden(i))));
  }
  return weights;
}

/** What an entry of `part` must satisfy: "" or the reason it does not. */
function rangeOf(part) {
  if ("kvq".includes(part)) return () => "";
  return part === "beta" ?
    ({ n, d }) => n < 0n || n > 2n * d ? "β must lie from 0 to 2" : "" :
    ({ n, d }) => n <= 0n || n > d ?
      `${PARTS[part][0]} must lie above 0, and be at most 1` : "";
}

/** Decimals that do not round a small number to nothing. */
const decimals = { ...decimal, show: (x) =>
  Math.abs(x) < 5e-4 && Math.abs(x) > 1e-12 ?
    x.toExponential(1).replaceAll("-", "−") : short(x) };

const rowsOf = (value) => [value].flat().map((row) => [row].flat());

/** A model's texts as { F, x, steps: { rule: … } } or { why }. */
function calculate(texts, rules = Object.keys(RULES)) {
  const numbers = {};
  let simple = true;                    // whole numbers and small fractions
  for (const part of Object.keys(PARTS)) {
    const rows = rowsOf(texts[part]);
    const length = part === "gamma" ? 1 : texts.k.length;
    const width = { q: texts.k, k: texts.k, channels: texts.k,
                    v: texts.v }[part]?.[0]?.length ?? 1;
    if (rows.length !== length || !length) {
      return { why: `${part} must have one row a token` };
    }
    numbers[part] = [];
    for (const [t, row] of rows.entries()) {
      if (row.length !== width) {
        return { why: `row ${t + 1} of ${part} must have ${width} entries` };
      }
      const read = row.map((text) => parseNumber(text, rangeOf(part)));
      const bad = read.find(({ why }) => why);
      if (bad) return { why: `in row ${t + 1} of ${part}, ${bad.why}` };
      simple &&= !row.some((text) => String(text).includes(".")) &&
        read.every(({ value }) => value.d <= 1000n);
      numbers[part].push(read.map(({ value }) => value));
    }
  }
  const F = simple ? exact : decimals;
  const x = Object.fromEntries(Object.entries(numbers).map(([part, rows]) =>
    [part, rows.map((row) => row.map(F.of))]));
  return { F, x, steps: Object.fromEntries(
    rules.map((rule) => [rule, run(F, rule, x)])) };
}

// ---- in words ----

const plain = (texts) => texts.length === 1 ? texts[0] : list(texts);
const shown = (F, vector) => plain(vector.map(F.show));

/** 7/2 = 3.5, or [7/2, 1/3] ≈ [3.5, 0.333] */
function inWords(F, vector) {
  if (!vector) return "nothing";
  const text = shown(F, vector);
  const numbers = vector.map((x) => short(F.number(x)));
  if (F !== exact || text.replaceAll("≈", "") === plain(numbers)) return text;
  const equal = vector.every((x) => 1000n % x.d === 0n);
  return `${text} ${equal ? "=" : "≈"} ${plain(numbers)}`;
}

function sentence({ F, x, steps }, t, reading) {
  if (t === 0) {
    return "Nothing is written yet: every S is zero. " +
           "Next writes the first token.";
  }
  const each = (say) => Object.entries(steps)
    .map(([rule, rows]) => `${RULES[rule].name} ${say(rows[t - 1])}`)
    .join("; ") + ".";
  return reading ?
    `Token ${t} is read with q${sub(t)} = ${shown(F, x.q[t - 1])}: ` +
      each(({ o }) => inWords(F, o)) :
    `Token ${t} is written, v${sub(t)} = ${shown(F, x.v[t - 1])}: ` +
      each(({ held, error }) => !held ? "adds k vᵀ" :
        `holds ${shown(F, held)}, so writes ${shown(F, error)}`);
}

/** What a guess for the first entry of a rule's o resembles. */
function diagnose({ F, steps }, everyRule, rule, t, guess) {
  const right = (one) => {
    const o = everyRule.steps[one][t - 1].o;
    const number = o && F.number(o[0]);
    return o && Math.abs(number - guess) <
                0.006 * Math.max(1, Math.abs(number));
  };
  if (right(rule)) return "right";
  const { held, error } = steps[rule][t - 1];
  const near = (x) => Math.abs(F.number(x) - guess) < 0.006;
  const other = Object.keys(RULES).find(right);
  if (other) return `no: that is what ${RULES[other].name} reads`;
  if (held && near(error[0])) return "no: that is the error it writes";
  if (held && near(held[0])) return "no: that is what the key held before";
  return "not this time";
}

// ---- the pictures ----

const none = { text: "\u00a0" };

/** S (and z) of one rule, with what writes or reads along the edges. */
function statePicture(F, rule, x, step, t, reading) {
  const { sums, corrects } = RULES[rule];
  const { before, a, held, error, S, z, total, o } = step;
  const k = x.k[t - 1], q = x.q[t - 1], n = sub(t);
  const one = (y) => F.sign(less(F, y, F.of(ONE))) === 0;
  const cell = (symbol, i, now, old, keep, plus) => {
    const touched = t > 0 && (reading ? F.sign(q[i]) :
                              F.sign(k[i]) && F.sign(plus)) !== 0;
    const kept = `${one(keep) ? "" : `${F.show(keep)}·`}${F.show(old)}`;
    const fades = !one(keep) && F.sign(old) !== 0;
    return {
      text: F.show(now), symbol, fresh: touched,
      mark: touched && (reading ? "read" : "write"),
      note: reading || !t ? "\u00a0" :
        touched ? `${kept} + ${F.show(k[i])}·${F.show(plus)}` :
        fades ? kept : "\u00a0",
    };
  };
  const left = reading ? { symbol: "q", entries: q } :
                         { symbol: "k", entries: k };
  const edge = (i) => t ? { text: F.show(left.entries[i]), note: "\u00a0",
                            symbol: left.symbol } : none;
  const writes = t && !reading;
  const foot = corrects ? [[
    { text: "held", quiet: true },
    ...(writes ? held.map((y) => ({ text: F.show(y), symbol: "o" })) :
                 all(error, { text: "·", quiet: true }))]] : [];
  foot.push([
    { text: t ? `o${n}` : "o", symbol: "o" },
    ...(!reading ? all(error, { text: "?", quiet: true }) :
      !o ? all(error, { text: "none", quiet: true }) :
      o.map((y) => ({ text: F.show(y), symbol: "o", fresh: true }))),
    ...(!sums ? [] : [reading ? { text: `÷ ${F.show(total)}`, quiet: true } :
                                none])]);
  return picture({
    caption: t === 0 ? "at the start" :
      `token ${t} ${reading ? "reads" : "writes"}`,
    head: [
      [t ? { text: `${left.symbol}${n}`, name: true, symbol: left.symbol } :
           none,
       { text: "S", name: true, symbol: "S", span: error.length },
       ...(sums ? [{ text: "z", name: true, symbol: "z" }] : [])],
      [writes ? { text: `${corrects ? "e" : "v"}${n}ᵀ →`, name: true } : none,
       ...error.map((y) => writes ? { text: F.show(y), symbol: "v" } : none),
       ...(sums ? [writes ? { text: "1", quiet: true } : none] : [])]],
    body: S.map((row, i) => [edge(i),
      ...row.map((s, j) => cell("S", i, s, before.S[i][j], a[i], error[j])),
      ...(sums ? [cell("z", i, z[i], before.z[i], F.of(ONE), F.of(ONE))] :
                 [])]),
    foot,
  });
}

/** o₂ = 1·v₁ + 1/2·v₂: the effective weights. */
function terms(F, { weights }, t, reading) {
  const line = h("p", { class: "lt-terms" });
  if (!t || !reading) {
    line.append(t ? `o${sub(t)} = ? of each v` : "o = ? of each v");
    return line;
  }
  line.append(`o${sub(t)} = `);
  if (!weights) return h("p", { class: "lt-terms" },
                         "No read: z·q is not positive.");
  weights.forEach((w, j) => line.append(j ? " + " : "", h("span", {
    class: F.sign(w) ? "lt-hue lt-v" : "lt-quiet",
    text: `${F.show(w)}·v${sub(j + 1)}` })));
  return line;
}

// ---- the widget ----

function render({ model, el }) {
  const names = Object.keys(PARTS);
  const texts = () => Object.fromEntries(
    names.map((part) => [part, model.get(part)]));
  const opened = { ...texts(), rules: model.get("rules"),
                   preset: model.get("preset") };
  const guesses = new Map();            // token → { rule: number }
  let pausedToAsk = false, saving = false, calculation, everyRule;

  // -- state --
  const tokens = () => model.get("k").length;
  const last = () => 2 * tokens();
  const clamp = (step) => Math.max(0, Math.min(last(), step));
  const step = () => clamp(model.get("step"));
  const save = (changes, to) => {
    saving = true;                      // shapes agree only at the end
    for (const [name, value] of Object.entries(changes)) {
      model.set(name, value);
    }
    model.set("step", clamp(to));
    model.save_changes();
    saving = false;
    draw();
  };
  const go = (to) => save({}, to);
  const byHand = (to) => () => { play.stop(); go(to()); };
  const edit = (changes, to = step()) => {
    guesses.clear();
    save(changes, to);
  };
  const asks = (t) => {
    const ask = (PRESETS[model.get("preset")]?.ask ?? [])
      .filter((token) => token <= tokens());
    return ask.length ? ask.includes(t) : t === tokens();
  };
  const unanswered = () => {
    const t = (step() + 1) / 2;
    return step() % 2 === 1 && asks(t) && !guesses.has(t);
  };

  // -- controls --
  const play = player({
    begin() { if (step() === last()) go(0); },
    advance() {
      if (step() === last()) return false;
      if (unanswered() && pausedToAsk !== step()) {
        pausedToAsk = step();           // the reader predicts first
        return false;
      }
      go(step() + 1);
      return step() < last();
    },
  });
  const back = button("Back", byHand(() => step() - 1));
  const next = button("Next", byHand(() => step() + 1));
  const reset = button("Reset", () => {
    pausedToAsk = false;
    play.stop();
    edit(opened, 0);
  });
  const slider = h("input", { type: "range", min: 0, "aria-label": "Step",
                              title: "Arrow keys, Home and End",
                              oninput: byHand(() => Number(slider.value)) });
  const count = h("span", { class: "lt-count" });
  const says = h("p", { class: "lt-says", role: "status" });
  const answer = h("div", { class: "lt-answer" });
  const table = h("div");
  const why = h("p", { class: "lt-why", role: "alert" });
  const cards = h("div", { class: "lt-rules" });

  const preset = h("select", { "aria-label": "Example", onchange() {
    const { title, ask, ...data } = PRESETS[preset.value];
    pausedToAsk = false;
    play.stop();
    edit({ ...data, preset: preset.value }, 0);
  } }, ...Object.entries(PRESETS).map(([value, { title }]) =>
    h("option", { value, text: `Example: ${title}` })));

  const boxes = Object.entries(RULES).map(([rule, { name }]) => {
    const box = h("input", { type: "checkbox", onchange() {
      const chosen = Object.keys(RULES).filter((other) =>
        other === rule ? box.checked : model.get("rules").includes(other));
      if (chosen.length) save({ rules: chosen }, step());
      else box.checked = true;          // one rule stays
    } });
    return { rule, box, node: h("label", {}, box, ` ${name}`) };
  });

  const size = counter({
    label: "tokens", low: 1, high: LONGEST_SEQUENCE, get: tokens,
    refused(reason) { why.textContent = reason; },
    set(n) {                            // a new token repeats the last
      edit(Object.fromEntries(["k", "v", "q", ...GATES].map((part) => {
        const rows = model.get(part);
        return [part, Array.from({ length: n }, (_, t) =>
          rows[Math.min(t, rows.length - 1)])];
      })));
    } });

  // -- the numbers, editable --
  const numberField = (part, t, i, label) => {
    const rows = rowsOf(model.get(part));
    return field({ label, text: rows[t][i], symbol: part, accept(typed) {
      const { why: reason } = parseNumber(typed, rangeOf(part));
      why.textContent = reason ?
        `${label}: ${reason}. It stays ${rowsOf(model.get(part))[t][i]}.` :
        "";
      if (reason) return reason;
      const now = rowsOf(model.get(part)).map((row) => [...row]);
      now[t][i] = typed.trim();
      const flat = ["alpha", "beta"].includes(part);
      const value = part === "gamma" ? now[0][0] : flat ? now.flat() : now;
      drawn = key({ ...texts(), [part]: value });
      edit({ [part]: value });
      return "";
    } });
  };
  const used = () => new Set(
    model.get("rules").flatMap((rule) => RULES[rule].gates));
  const key = (numbers) => JSON.stringify([numbers, [...used()]]);
  let drawn = "";
  function drawTokens(t, reading) {
    if (key(texts()) !== drawn) {
      drawn = key(texts());
      why.textContent = "";
      table.replaceChildren(scroller(tokenTable(), "The tokens"));
      if (used().has("gamma")) {
        table.append(h("label", { class: "lt-guess" }, "γ, at every token: ",
                       numberField("gamma", 0, 0, "γ")));
      }
    }
    for (const [i, row] of [...table.querySelectorAll("tbody tr")]
      .entries()) {
      const here = i + 1 === t, mark = reading ? "read" : "write";
      row.className = here ? `lt-mark-${mark}` : "";
      row.firstChild.replaceChildren(`${i + 1} `, here ? tag(mark) : "");
    }
  }
  function tokenTable() {
    const parts = ["k", "v", "q", ...GATES.filter((part) =>
      used().has(part))];
    const width = (part) => rowsOf(model.get(part))[0].length;
    return h("table", { class: "lt-tokens" },
      h("caption", { text: "The tokens: edit any number, or try 1/2" }),
      h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "t" }),
        ...parts.map((part) => h("th", {
          scope: "colgroup", colspan: width(part), text: PARTS[part],
          class: `lt-first lt-hue lt-${part}` })))),
      h("tbody", {}, ...model.get("k").map((_, t) => h("tr", {},
        h("th", { scope: "row" }),
        ...parts.flatMap((part) => Array.from({ length: width(part) },
          (_, i) => h("td", { class: i === 0 && "lt-first" }, numberField(
            part, t, i, `${PARTS[part]}, token ${t + 1}` +
              (width(part) > 1 ? `, entry ${i + 1}` : "")))))))));
  }

  // -- the prediction --
  function drawAnswer(t, reading) {
    const { F, x, steps } = calculation;
    const entry = x.v[0].length > 1 ? " (its first entry)" : "";
    if (!t) {
      return answer.replaceChildren(
        "Every rule gets the same tokens; each token writes, then reads.");
    }
    if (reading) {
      const guess = guesses.get(t) ?? {};
      return answer.replaceChildren(h("ul", { class: "lt-reads" },
        ...Object.entries(steps).map(([rule, rows]) => h("li", {},
          `${RULES[rule].name}: `, h("strong", { class: "lt-hue lt-o",
            text: inWords(F, rows[t - 1].o) }),
          rule in guess ? ` You said ${short(guess[rule])}: ${
            diagnose(calculation, everyRule, rule, t, guess[rule])}.` :
            ""))));
    }
    if (!asks(t)) {
      return answer.replaceChildren(`Token ${t} reads next, with ` +
        `q${sub(t)} = ${shown(F, x.q[t - 1])}.`);
    }
    const inputs = Object.keys(steps).map((rule) => [rule, field({
      label: `Your o${sub(t)} of ${RULES[rule].name}`, text: "",
      symbol: "o", accept: (typed) =>
        typed.trim() ? parseNumber(typed).why ?? "" : "" })]);
    const reason = h("span", { class: "lt-why", role: "alert" });
    answer.replaceChildren(h("form", { onsubmit(event) {
      event.preventDefault();
      const guess = {};
      for (const [rule, input] of inputs) {
        if (!input.value.trim()) continue;
        const { why: bad, value } = parseNumber(input.value);
        if (bad) {
          reason.textContent = `${RULES[rule].name}: ${bad}.`;
          return input.focus();
        }
        guess[rule] = exact.number(value);
      }
      if (!Object.keys(guess).length) {
        reason.textContent = "Write a number for at least one rule.";
        return inputs[0][1].focus();
      }
      guesses.set(t, guess);
      play.stop();
      go(2 * t);
      next.focus();
    } },
      h("strong", { text: "Predict first. " }),
      `Token ${t} reads next, with q${sub(t)} = ` +
        `${shown(F, x.q[t - 1])}. What comes out${entry}? `,
      h("span", { class: "lt-guess" }, ...inputs.map(([rule, input]) =>
        h("label", {}, `${RULES[rule].name} `, input)),
        h("button", { type: "submit", text: "Check" }),
        button("Skip", () => { byHand(() => 2 * t)(); next.focus(); })),
      reason));
  }

  // -- all of it --
  let asked = "";
  function draw() {
    everyRule = calculate(texts());
    if (everyRule.why) {
      says.textContent = `These numbers cannot be used: ${everyRule.why}.`;
      return;
    }
    const { F, x } = everyRule;
    const rules = Object.keys(RULES)
      .filter((rule) => model.get("rules").includes(rule));
    calculation = { F, x, steps: Object.fromEntries(
      rules.map((rule) => [rule, everyRule.steps[rule]])) };
    const at = step(), t = Math.ceil(at / 2), reading = t > 0 && at % 2 === 0;
    const words = sentence(calculation, t, reading);
    const mark = reading ? "read" : "write";

    slider.max = last();
    slider.value = at;
    slider.setAttribute("aria-valuetext",
      t ? `token ${t} of ${tokens()}: ${mark}` : "start");
    count.replaceChildren(t ? `Token ${t} of ${tokens()} ` : "Start",
                          t ? tag(mark) : "");
    enable(back, at > 0);
    enable(next, at < last());
    preset.value = model.get("preset");
    size.draw();
    for (const { rule, box } of boxes) box.checked = rules.includes(rule);
    if (says.textContent !== words) says.textContent = words;

    drawTokens(t, reading);
    const question = JSON.stringify([at, texts(), rules, [...guesses]]);
    if (question !== asked) drawAnswer(t, reading);
    asked = question;

    cards.replaceChildren(...rules.map((rule) => {
      const { name, formula } = RULES[rule];
      const first = calculation.steps[rule][0];
      const now = t ? calculation.steps[rule][t - 1] :
                      { ...first, S: first.before.S, z: first.before.z };
      return h("div", { class: "lt-card", role: "group", "aria-label": name },
        h("p", { class: "lt-title", text: name }),
        h("p", { class: "lt-cost",
                 text: formula.replace(/(?<!,) /g, "\u00a0") }),
        scroller(statePicture(F, rule, x, now, t, reading), `S, ${name}`),
        terms(F, now, t, reading));
    }));
  }

  const root = h("div", { class: "lt lt-rule-stepper", role: "group",
                          "aria-label": "Rule stepper" },
    h("div", { class: "lt-bar" }, reset, back, play.control, next, slider,
      count),
    says, answer, cards,
    h("div", { class: "lt-card" },
      h("div", { class: "lt-bar" }, preset, size.node),
      h("div", { class: "lt-bar lt-checks", role: "group",
                 "aria-label": "Rules to show" }, "Show: ",
        ...boxes.map(({ node }) => node)),
      table, why));
  onKeys(root, {
    ArrowRight: byHand(() => step() + 1), ArrowLeft: byHand(() => step() - 1),
    Home: byHand(() => 0), End: byHand(last),
  });
  el.append(root);
  draw();
  const watched = [...names, "rules", "preset", "step"]
    .map((name) => `change:${name}`).join(" ");
  const changed = () => { if (!saving) draw(); };
  model.on(watched, changed);
  return () => { play.stop(); model.off(watched, changed); };
}

export { calculate, run, RULES, PRESETS };
export default { render };
