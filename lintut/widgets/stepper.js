// The stepper: two roads to the same output, one token at a time.
//
// One road keeps a state: token t adds φ(k) vᵀ to S and φ(k) to z, then its
// query reads Sᵀφ(q) / z·φ(q).  The other compares the query with every key
// so far.  Step 0 is the empty state; step 2t−1 writes token t, step 2t reads.

const WIDEST = 4, LONGEST_SEQUENCE = 8;

const EXAMPLES = {
  // The hand-worked example; φ(q₁) and φ(q₂) are ours: whatever its query,
  // token 1 can only read itself; φ(q₂) weighs the two values alike.
  given: {
    k: [["1", "0"], ["0", "1"], ["1", "1"]],
    v: [["1", "0"], ["0", "2"], ["3", "1"]],
    q: [["2", "1"], ["1", "1"], ["1", "2"]],
  },
  elu_plus_one: {
    k: [["1", "-1"], ["-0.5", "2"], ["0", "1"]],
    v: [["1", "0"], ["0", "2"], ["3", "1"]],
    q: [["0.5", "0"], ["1", "-2"], ["-1", "1.5"]],
  },
};
const PARTS = ["k", "v", "q"];

// ---- the two roads ----

const eluPlusOne = (x) => Math.max(x, 0) + Math.exp(Math.min(x, 0));

/** Every step of both roads, for features `keys`, `queries` and `values`. */
function roads(F, keys, values, queries) {
  let S = keys[0].map(() => values[0].map(() => F.zero));
  let z = keys[0].map(() => F.zero);
  return keys.map((key, t) => {
    const before = { S, z };
    S = madd(F, S, outer(F, key, values[t]));
    z = vadd(F, z, key);
    const query = queries[t];
    const state = { numerator: transposeTimes(F, S, query),
                    denominator: dot(F, z, query) };
    const similarities = keys.slice(0, t + 1).map((k) => dot(F, k, query));
    const weighted = similarities.map(
      (s, j) => values[j].map((v) => F.times(s, v)));
    const pairs = {
      similarities, weighted,
      numerator: weighted.reduce((sum, row) => vadd(F, sum, row)),
      denominator: similarities.reduce(F.add),
    };
    return { key, value: values[t], query, before, S, z, state, pairs };
  });
}

/** A model's numbers as { F, keys, values, queries, steps } or { why }. */
function calculate(texts, featureMap) {
  const raw = featureMap === "elu_plus_one";
  const F = raw ? decimal : exact;
  const read = {};
  for (const part of PARTS) {
    const rows = texts[part];
    if (!rows.length || rows.length !== texts.k.length) {
      return { why: `${part} must have one row a token` };
    }
    const width = (part === "q" ? texts.k : rows)[0].length;
    read[part] = [];
    for (const [t, row] of rows.entries()) {
      if (!row.length || row.length !== width) {
        return { why: `row ${t + 1} of ${part} must have ${width} entries` };
      }
      const numbers = row.map((text) => parseNumber(text, rule(part, raw)));
      const bad = numbers.find((number) => number.why);
      if (bad) return { why: `in row ${t + 1} of ${part}, ${bad.why}` };
      read[part].push(numbers.map(({ value }) => F.of(value)));
    }
  }
  if (raw) {
    for (const part of ["k", "q"]) {
      read[part] = read[part].map((row) => row.map(eluPlusOne));
    }
  }
  const { k: keys, v: values, q: queries } = read;
  return { F, keys, values, queries,
           steps: roads(F, keys, values, queries) };
}

/** What an entry must satisfy: given features are weights, never below 0. */
function rule(part, raw) {
  return ({ n }) => part !== "v" && !raw && n < 0n ?
    "a feature cannot be negative: it would give a negative weight" : "";
}

/** Why a read is refused, or "". */
function refusal(F, { denominator }, t) {
  const sign = F.sign(denominator);
  if (sign > 0) return "";
  return `Token ${t} cannot be read: z·φ(q${sub(t)}) = ` +
    `${F.show(denominator)}. ` + (sign < 0 ?
      "The weights would not be positive." :
      "Its query gives no weight to anything written so far, " +
      "so there is nothing to divide by.");
}

// ---- the prediction ----

/** What a guess for o resembles. */
function diagnose(calculation, t, guess) {
  const { F, values, steps } = calculation;
  const { state, value } = steps[t - 1];
  const near = (vector) => vector.every(
    (x, i) => Math.abs(x - guess[i]) < 0.006 * Math.max(1, Math.abs(x)));
  const numbers = (vector) => vector.map((x) => F.number(x));
  const seen = values.slice(0, t).map(numbers);
  const sum = seen.reduce((a, b) => a.map((x, i) => x + b[i]));
  const denominator = F.number(state.denominator);
  if (near(numbers(state.numerator).map((x) => x / denominator))) {
    return t > 1 ? "Right." : "Right: with one token written its weight is " +
      "1 whatever the query, so o₁ = v₁.";
  }
  if (near(numbers(state.numerator))) {
    return "That is Sᵀφ(q), before it is divided by z·φ(q) = " +
      `${F.show(state.denominator)}.`;
  }
  if (near(numbers(value))) {
    return `That is v${sub(t)} alone; earlier tokens have a weight too.`;
  }
  if (near(sum)) {
    return "That is the sum of the values; the query weighs them.";
  }
  if (near(sum.map((x) => x / t))) {
    return "That is the plain mean of the values; the query weighs them.";
  }
  return "Not this time.";
}

// ---- the pictures ----

const show = (F, vector) => vector.map(F.show);
const later = { text: "·", quiet: true };
const none = { text: "\u00a0" };

/** S and z, with what writes them or reads them along their edges. */
function statePicture(F, step, t, reading, refused) {
  const { key, value, query, before, S, z, state } = step;
  const left = t === 0 ? null : reading ?
    { name: `φ(q${sub(t)})`, symbol: "q", entries: query } :
    { name: `φ(k${sub(t)})`, symbol: "k", entries: key };
  // `plus` are the factors of what a write adds here.
  const cell = (symbol, i, now, old, ...plus) => {
    const touched = left &&
      (reading ? [query[i]] : plus).every((x) => F.sign(x) !== 0);
    return {
      text: F.show(now), symbol, fresh: touched,
      mark: touched && (reading ? "read" : "write"),
      note: !touched ? "\u00a0" : reading ?
        `${F.show(query[i])}·${F.show(now)}` + (F === exact ?
          ` = ${F.show(F.times(query[i], now))}` : "") :
        `${F.show(old)} + ${plus.map(F.show).join("·")}`,
    };
  };
  const top = !left || reading ? [...value.map(() => none), none] :
    [...show(F, value).map((text) => ({ text, symbol: "v" })),
     { text: "1", quiet: true }];
  const body = S.map((row, i) => [
    left ? { text: F.show(left.entries[i]), symbol: left.symbol,
             note: "\u00a0" } : none,
    ...row.map((x, j) => cell("S", i, x, before.S[i][j], key[i], value[j])),
    cell("z", i, z[i], before.z[i], key[i])]);
  const q = `φ(q${t ? sub(t) : ""})`;
  const out = reading ? [...show(F, state.numerator),
                         F.show(state.denominator)] :
                        [...value.map(() => later), later];
  const o = reading && !refused ?
    F.ratios(state.numerator, state.denominator)
      .map((text) => ({ text, symbol: "o", fresh: true })) :
    value.map(() => ({ text: reading ? "none" : "?", quiet: true }));
  return picture({
    caption: t === 0 ? "S and z, before anything is written" :
      `S and z: token ${t} ${reading ? "reads" : "writes"}`,
    head: [
      [left ? { text: left.name, name: true, symbol: left.symbol } : "",
       { text: "S", name: true, symbol: "S", span: value.length },
       { text: "z", name: true, symbol: "z" }],
      [{ text: left && !reading ? `v${sub(t)}ᵀ →` : "", name: true }, ...top],
    ],
    body,
    foot: [
      ["", { text: `Sᵀ${q}`, span: value.length, quiet: true },
       { text: `z·${q}`, quiet: true }],
      [{ text: "sum ↓", name: true }, ...out],
      [{ text: `o${t ? sub(t) : ""}`, name: true, symbol: "o" }, ...o,
       reading && !refused ?
         { text: `÷ ${F.show(state.denominator)}`, quiet: true } : none],
    ],
  });
}

/** The explicit weights of every token so far. */
function pairsPicture(F, calculation, t, reading, refused) {
  const { keys, values, steps } = calculation;
  const step = t ? steps[t - 1] : null;
  const weights = reading && !refused ?
    F.ratios(step.pairs.similarities, step.pairs.denominator) : [];
  const body = keys.map((key, j) => {
    const name = `${j + 1}`;
    if (j >= t) return [{ text: name, quiet: true }, later, none, later];
    if (!reading) {
      const now = j === t - 1 && { mark: "write", fresh: true };
      return [name, { text: list(show(F, key)), symbol: "k", ...now }, none,
              { text: list(show(F, values[j])), symbol: "v", ...now }];
    }
    const sum = key.map((x, i) =>
      `${F.show(x)}·${F.show(step.query[i])}`).join(" + ");
    return [
      name,
      { text: F.show(step.pairs.similarities[j]), note: sum, symbol: "k",
        mark: "read", fresh: true },
      refused ? later : { text: weights[j], symbol: "q" },
      refused ? later : {
        text: list(F.ratios(step.pairs.weighted[j], step.pairs.denominator)),
        note: `${weights[j]} of ${list(show(F, values[j]))}`, symbol: "v",
        mark: "read", fresh: true,
      },
    ];
  });
  const total = step && step.pairs.denominator;
  return picture({
    caption: !reading ? "The keys and values kept" :
      `The weights of token ${t}'s query`,
    head: [headings(reading ? ["j", `φ(kⱼ)·φ(q${sub(t)})`, "weight",
                               "weight · vⱼ"] : ["j", "φ(kⱼ)", "", "vⱼ"])],
    body,
    foot: [[
      "sum",
      reading ? F.show(total) : none,
      weights.length ? F.ratios([total], total)[0] : none,
      weights.length ? { symbol: "o", fresh: true,
                         text: list(F.ratios(step.pairs.numerator, total)) } :
                       { text: reading ? "none" : "?", quiet: true },
    ]],
  });
}

// ---- in words ----

function output(F, { numerator, denominator }) {
  const ratios = list(F.ratios(numerator, denominator));
  const o = numerator.map((x) => F.over(x, denominator));
  const decimals = list(o.map((x) => short(F.number(x))));
  const equal = o.every((x) => 1000n % (x.d ?? 1n) === 0n);
  return ratios === decimals ? ratios :
    `${ratios} ${equal ? "=" : "≈"} ${decimals}`;
}

function sentence({ F, steps }, t, reading) {
  if (t === 0) {
    return "Nothing is written yet: S and z are zero. " +
           "Next writes the first token.";
  }
  const { S, z, state } = steps[t - 1];
  const n = sub(t);
  if (!reading) {
    return `Token ${t} is written: φ(k${n}) v${n}ᵀ is added to S, and ` +
      `φ(k${n}) to z. Now S = ${list(S.map((row) => list(show(F, row))))}, ` +
      `z = ${list(show(F, z))}.`;
  }
  return refusal(F, state, t) ||
    `Token ${t} is read: Sᵀφ(q${n}) = ${list(show(F, state.numerator))} and ` +
    `z·φ(q${n}) = ${F.show(state.denominator)}, so o${n} = ` +
    `${output(F, state)}.`;
}

// ---- the widget ----

function render({ model, el }) {
  const texts = () => Object.fromEntries(
    PARTS.map((part) => [part, model.get(part)]));
  const opened = { ...texts(), feature_map: model.get("feature_map") };
  const left = { ...EXAMPLES };         // each mode's numbers, as left behind
  const guesses = new Map();            // token → the numbers guessed
  let pausedToAsk = false, saving = false;
  let calculation;

  // -- state --
  const last = () => 2 * model.get("k").length;
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

  // -- controls --
  const play = player({
    begin() { if (step() === last()) go(0); },
    advance() {
      const asks = step() === 1 && !guesses.has(1) && !pausedToAsk;
      if (step() === last()) return false;
      if (asks) {                       // the reader predicts first
        pausedToAsk = true;
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
    Object.assign(left, EXAMPLES);
    play.stop();
    edit(opened, 0);
  });
  const slider = h("input", { type: "range", min: 0, "aria-label": "Step",
                              title: "Arrow keys, Home and End",
                              oninput: byHand(() => Number(slider.value)) });
  const count = h("span", { class: "lt-count" });
  const says = h("p", { class: "lt-says", role: "status" });
  const answer = h("div", { class: "lt-answer" });
  const tokens = h("div");
  const why = h("p", { class: "lt-why", role: "alert" });
  const stateRoad = h("div", { class: "lt-card", role: "group",
                               "aria-label": "One road: keep a state" });
  const pairsRoad = h("div", { class: "lt-card", role: "group",
                               "aria-label": "The other: compare every key" });

  const mode = h("select", { "aria-label": "Features", onchange() {
    left[model.get("feature_map")] = texts();
    edit({ ...left[mode.value], feature_map: mode.value }, 0);
  } }, h("option", { value: "given", text: "φ(k) and φ(q) as given" }),
       h("option", { value: "elu_plus_one",
                     text: "φ = ELU + 1 of raw q, k" }));

  // -- the tokens, editable --
  const resize = (label, get, high, set) => counter({ label, low: 1, high, get,
    set, refused(reason) { why.textContent = reason; } });
  const fit = (row, width, filler) =>
    Array.from({ length: width }, (_, i) => row[i] ?? filler);
  const widen = (parts, width) => edit(Object.fromEntries(parts.map((part) =>
    [part, model.get(part).map((row) => fit(row, width, "0"))])));
  const sizes = [
    resize("tokens", () => model.get("k").length, LONGEST_SEQUENCE,
      (length) => edit(Object.fromEntries(PARTS.map((part) => {
        const rows = model.get(part), width = rows[0].length;
        const unit = fit([], width, "0");
        unit[(length - 1) % width] = "1";
        const filler = part === "q" ? fit([], width, "1") : unit;
        return [part, fit(rows, length, filler)];
      })))),
    resize("key width", () => model.get("k")[0].length, WIDEST,
      (width) => widen(["k", "q"], width)),
    resize("value width", () => model.get("v")[0].length, WIDEST,
      (width) => widen(["v"], width)),
  ];

  let drawn = "";
  function drawTokens() {
    const raw = model.get("feature_map") === "elu_plus_one";
    const now = JSON.stringify([raw, texts()]);
    if (now !== drawn) {
      drawn = now;
      why.textContent = "";
      tokens.replaceChildren(scroller(tokenTable(raw), "The tokens"));
    }
    const t = Math.ceil(step() / 2), reading = step() % 2 === 0;
    const rows = [...tokens.querySelectorAll("tbody tr")];
    for (const [i, row] of rows.entries()) {
      const here = i + 1 === t;
      row.className = here ? `lt-mark-${reading ? "read" : "write"}` : "";
      row.firstChild.replaceChildren(`${i + 1} `,
        here ? tag(reading ? "read" : "write") : "");
    }
    const { F, keys, queries } = calculation;
    const features = keys.flatMap((key, i) => [...key, ...queries[i]]);
    for (const [i, small] of [...tokens.querySelectorAll("small")].entries()) {
      small.textContent = `φ ${F.show(features[i])}`;
    }
  }
  function tokenTable(raw) {
    const named = (part) => raw || part === "v" ? part : `φ(${part})`;
    const cells = (part, t) => model.get(part)[t].map((text, i) => {
      const label = `${named(part)}, token ${t + 1}, entry ${i + 1}`;
      const input = field({ label, text, symbol: part, accept(typed) {
        const { why: reason } = parseNumber(typed, rule(part, raw));
        why.textContent = reason ?
          `${label}: ${reason}. It stays ${model.get(part)[t][i]}.` : "";
        if (reason) return reason;
        const rows = model.get(part).map((row) => [...row]);
        rows[t][i] = typed.trim();
        drawn = JSON.stringify([raw, { ...texts(), [part]: rows }]);
        edit({ [part]: rows });
        return "";
      } });
      return h("td", { class: i === 0 && "lt-first" }, input,
               raw && part !== "v" && h("small"));
    });
    return h("table", { class: "lt-tokens" },
      h("caption", { text: "The tokens: edit any number, or try 1/2" }),
      h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "t" }),
        ...PARTS.map((part) => h("th", {
          scope: "colgroup", colspan: model.get(part)[0].length,
          class: `lt-first lt-hue lt-${part}`,
          text: named(part) })))),
      h("tbody", {}, ...model.get("k").map((_, t) => h("tr", {},
        h("th", { scope: "row" }),
        ...PARTS.flatMap((part) => cells(part, t))))));
  }

  // -- the prediction --
  function drawAnswer(t, reading) {
    const { F, steps } = calculation;
    const now = t && steps[t - 1];
    if (!t) {
      return answer.replaceChildren("Each token writes, then reads: o = ?");
    }
    const refused = refusal(F, now.state, t);
    if (refused) {
      return answer.replaceChildren(reading ? `No o${sub(t)} here.` :
        `Nothing to predict: z·φ(q${sub(t)}) will not be positive.`);
    }
    if (reading) {
      const guess = guesses.get(t);
      return answer.replaceChildren(
        h("p", {}, "Both roads give ", h("strong", { class: "lt-hue lt-o",
          text: `o${sub(t)} = ${output(F, now.state)}` })),
        guess ? h("p", {}, `You predicted ${list(guess.map(short))}. `,
                  diagnose(calculation, t, guess)) : "");
    }
    const inputs = now.value.map((_, i) => field({
      label: `Your o${sub(t)}, entry ${i + 1}`, text: "", symbol: "o",
      accept: (typed) => parseNumber(typed).why ?? "" }));
    const reason = h("span", { class: "lt-why", role: "alert" });
    answer.replaceChildren(h("form", { onsubmit(event) {
      event.preventDefault();
      const numbers = inputs.map((input) => parseNumber(input.value));
      const bad = numbers.findIndex((number) => number.why);
      if (bad >= 0) {
        reason.textContent = `Entry ${bad + 1}: ${numbers[bad].why}.`;
        inputs[bad].focus();
        return;
      }
      guesses.set(t, numbers.map(({ value }) => exact.number(value)));
      play.stop();
      go(2 * t);
      next.focus();
    } },
      h("strong", { text: "Predict first. " }),
      `Token ${t} reads next, with φ(q${sub(t)}) = ` +
        `${list(show(F, now.query))}. What comes out? `,
      h("span", { class: "lt-guess" }, `o${sub(t)} = `, ...inputs,
        h("button", { type: "submit", text: "Check" }),
        button("Skip", () => { byHand(() => 2 * t)(); next.focus(); })),
      reason));
  }

  // -- all of it --
  let asked = "";
  function draw() {
    calculation = calculate(texts(), model.get("feature_map"));
    if (calculation.why) {
      says.textContent = `These numbers cannot be used: ${calculation.why}.`;
      return;
    }
    const { F, steps, keys, values } = calculation;
    const at = step(), t = Math.ceil(at / 2), reading = t > 0 && at % 2 === 0;
    const now = steps[Math.max(t, 1) - 1];
    const refused = reading && refusal(F, now.state, t);
    const words = sentence(calculation, t, reading);

    slider.max = last();
    slider.value = at;
    const place = t ? `token ${t} of ${keys.length}: ` +
                      (reading ? "read" : "write") : "start";
    slider.setAttribute("aria-valuetext", place);
    count.replaceChildren(t ? `Token ${t} of ${keys.length} ` : "Start",
                          t ? tag(reading ? "read" : "write") : "");
    enable(back, at > 0);
    enable(next, at < last());
    mode.value = model.get("feature_map");
    sizes.forEach((size) => size.draw());
    if (says.textContent !== words) says.textContent = words;
    says.classList.toggle("lt-refused", Boolean(refused));

    drawTokens();
    const question = JSON.stringify([at, texts(), [...guesses]]);
    if (question !== asked) drawAnswer(t, reading);
    asked = question;

    const empty = { ...now, S: now.before.S, z: now.before.z };
    const size = keys[0].length * (values[0].length + 1);
    const each = keys[0].length + values[0].length;
    stateRoad.replaceChildren(
      h("p", { class: "lt-title", text: "One road: keep a state" }),
      scroller(statePicture(F, t ? now : empty, t, reading, refused),
               "S and z"),
      h("p", { class: "lt-cost", text: `Kept: ${size} numbers, ` +
        "at any length." }));
    pairsRoad.replaceChildren(
      h("p", { class: "lt-title", text: "The other: compare every key" }),
      scroller(pairsPicture(F, calculation, t, reading, refused),
               "The weights"),
      h("p", { class: "lt-cost", text: `Kept: ${t * each} numbers, ` +
        `${each} more with each token.` }));
  }

  const root = h("div", { class: "lt lt-stepper", role: "group",
                          "aria-label": "Stepper: causal linear attention" },
    h("div", { class: "lt-bar" }, reset, back, play.control, next, slider,
      count),
    says, answer,
    h("div", { class: "lt-roads" }, stateRoad, pairsRoad),
    h("div", { class: "lt-card" }, h("div", { class: "lt-bar lt-top" }, tokens,
      h("div", { class: "lt-sizes" }, mode,
        ...sizes.map(({ node }) => node))), why));
  onKeys(root, {
    ArrowRight: byHand(() => step() + 1), ArrowLeft: byHand(() => step() - 1),
    Home: byHand(() => 0), End: byHand(last),
  });
  el.append(root);
  draw();
  const watched = [...PARTS, "feature_map", "step"]
    .map((name) => `change:${name}`).join(" ");
  const changed = () => { if (!saving) draw(); };
  model.on(watched, changed);
  return () => { play.stop(); model.off(watched, changed); };
}

export { calculate, roads, eluPlusOne };
export default { render };
