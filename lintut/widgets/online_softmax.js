// Online softmax: a row of scores met a tile at a time.  What is kept is the
// largest score so far, the sum of exponentials and the sum of values, both
// relative to it; a higher maximum shrinks what was summed.

const MOST_KEYS = 12;
const EXAMPLES = { scores: ["1", "3", "2", "6", "5", "0"],
                   values: ["10", "20", "30", "40", "50", "60"] };

// ---- the arithmetic ----

/** One row's state after a tile joins it: FlashAttention's m, ℓ and O. */
function absorb({ top, total, out }, scores, values) {
  const higher = Math.max(top, ...scores);
  const shrink = Math.exp(top - higher);
  const weights = scores.map((s) => Math.exp(s - higher));
  const sum = (xs) => xs.reduce((a, b) => a + b, 0);
  return { top: higher, shrink, weights,
           total: shrink * total + sum(weights),
           out: shrink * out + sum(weights.map((w, j) => w * values[j])) };
}

/** The state after each tile of `size` scores; the first entry is before. */
function online(scores, values, size) {
  const states = [{ top: -Infinity, total: 0, out: 0 }];
  for (let at = 0; at < scores.length; at += size) {
    states.push(absorb(states.at(-1), scores.slice(at, at + size),
                       values.slice(at, at + size)));
  }
  return states;
}

/** The plain softmax: the whole row at once. */
function plain(scores, values) {
  const top = Math.max(...scores);
  const weights = scores.map((s) => Math.exp(s - top));
  const total = weights.reduce((a, b) => a + b, 0);
  return { total,
           o: weights.reduce((a, w, j) => a + w * values[j], 0) / total };
}

/** What a guess at the last running sum resembles. */
function diagnose(guess, scores, size, total) {
  const near = (x) => Math.abs(guess - x) <= 0.006 * Math.max(1, Math.abs(x));
  if (near(total)) return "right";
  let kept = 0, top = -Infinity;
  for (let at = 0; at < scores.length; at += size) {
    const tile = scores.slice(at, at + size);
    top = Math.max(top, ...tile);
    kept += tile.reduce((a, s) => a + Math.exp(s - top), 0);
  }
  if (near(kept)) return "this leaves out the shrinking of the older sums";
  if (near(scores.reduce((a, s) => a + Math.exp(s), 0))) {
    return "this does not subtract the largest score";
  }
  if (near(1)) return "the weights sum to 1 only after dividing by it";
  return "not this one";
}

const figure = (x) => x === -Infinity ? "−∞" : x !== 0 &&
  (Math.abs(x) < 0.001 || Math.abs(x) >= 1e6) ?
  x.toExponential(1).replace("-", "−") : short(x);

// ---- the widget ----

function render({ model, el }) {
  const opened = { scores: model.get("scores"), values: model.get("values"),
                   size: model.get("size") };
  const texts = (part) => model.get(part);
  const numbers = (part) => texts(part).map((text) => {
    const { value } = parseNumber(text);
    return value === undefined ? NaN : exact.number(value);
  });
  const keys = () => texts("scores").length;
  const size = () => model.get("size");
  const end = () => Math.ceil(keys() / size());
  const step = () => Math.max(0, Math.min(end(), model.get("step")));
  let saving = false, guess = null, shape = "";

  const save = (changes) => {
    saving = true;
    for (const [name, value] of Object.entries(changes)) model.set(name, value);
    model.save_changes();
    saving = false;
    draw();
  };
  const go = (to) => save({ step: Math.max(0, Math.min(end(), to)) });
  const byHand = (to) => () => { play.stop(); go(to()); };
  const edit = (changes) => {
    play.stop();
    guess = null;
    save({ ...changes, step: 0 });
  };

  // -- controls --
  const play = player({ interval: 1500,
    begin() { if (step() === end()) go(0); },
    advance() { go(step() + 1); return step() < end(); } });
  const back = button("Back", byHand(() => step() - 1));
  const next = button("Next", byHand(() => step() + 1));
  const slider = h("input", { type: "range", min: 0, "aria-label": "Tile",
    title: "Arrow keys, Home and End",
    oninput: byHand(() => Number(slider.value)) });
  const count = h("span", { class: "lt-count" });
  const why = h("p", { class: "lt-why", role: "alert" });
  const refused = (reason) => { why.textContent = reason; };
  const reset = button("Reset", () => {
    refused("");
    shape = "";
    edit(opened);
  });
  const resize = (part, n) => Array.from({ length: n }, (_, j) =>
    texts(part)[j] ?? EXAMPLES[part][j % 6]);
  const sizes = [
    counter({ label: "keys N", low: 1, high: MOST_KEYS, refused, get: keys,
      set: (n) => edit({ scores: resize("scores", n),
                         values: resize("values", n) }) }),
    counter({ label: "tile B", low: 1, high: MOST_KEYS, refused, get: size,
      set: (n) => edit({ size: n }) }),
  ];

  // -- the row of scores --
  const inputs = h("div");
  function drawInputs() {
    const now = `${keys()}`;
    if (now !== shape) {
      shape = now;
      const number = (part, j) => {
        const label = `${part === "scores" ? "score" : "value"} ${j + 1}`;
        const input = field({ label, text: "", symbol:
          part === "values" ? "v" : "q", accept(text) {
          const { why: bad } = parseNumber(text);
          refused(bad ? `${label}: ${bad}. It stays ${texts(part)[j]}.` : "");
          if (!bad) {
            edit({ [part]: texts(part).map((x, i) => i === j ?
              text.trim() : x) });
          }
          return bad ?? "";
        } });
        input.dataset.at = JSON.stringify([part, j]);
        return h("td", {}, input);
      };
      const line = (part, label) => h("tr", {}, h("th", { scope: "row",
        text: label }), ...texts(part).map((_, j) => number(part, j)));
      inputs.replaceChildren(scroller(h("table", { class: "lt-tokens" },
        h("caption", { text: "One query's scores, and a value for each key: " +
                             "change any number" }),
        h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "key j" }),
          ...texts("scores").map((_, j) => h("th", { scope: "col",
            "data-key": j })))),
        h("tbody", {}, line("scores", "score s"), line("values", "value v"))),
        "the scores"));
    }
    inputs.querySelectorAll("thead th[data-key]").forEach((node, j) => {
      const tile = Math.floor(j / size()) + 1;
      node.replaceChildren(String(j + 1), h("small", { text: `tile ${tile}` }));
      node.className = tile === step() ? "lt-mark-read" : "";
    });
    for (const input of inputs.querySelectorAll("input")) {
      const [part, j] = JSON.parse(input.dataset.at);
      if (input.getAttribute("aria-invalid") !== "true") {
        input.value = texts(part)[j];
      }
    }
  }

  // -- what is kept --
  const kept = h("div");
  function drawKept(states) {
    const rows = states.slice(0, step() + 1).map((state, t) => {
      const now = t === step() && t > 0;
      const cell = (x, symbol) => ({ text: figure(x), symbol,
                                     mark: now ? "write" : undefined });
      return [t ? `tile ${t}` : "before", cell(state.top),
              t > 1 ? { text: figure(state.shrink) } :
                      { text: "–", quiet: true },
              cell(state.total, "z"), cell(state.out, "S"),
              t ? { text: figure(state.out / state.total), symbol: "o" } :
                  { text: "–", quiet: true }];
    });
    kept.replaceChildren(scroller(picture({
      caption: "Kept from tile to tile: three numbers",
      head: [headings(["after", "largest m", "shrink eᵐ⁻ᵐ′", "sum ℓ", "sum o",
                       "o / ℓ"])],
      body: rows }), "what is kept"));
  }

  // -- the prediction and the comparison --
  const answer = h("div", { class: "lt-answer" });
  let asked = "";
  function drawAnswer(states, scores, values) {
    const question = JSON.stringify([texts("scores"), texts("values"), size(),
                                     guess, step() === end()]);
    if (question === asked) return;
    asked = question;
    const last = states.at(-1), whole = plain(scores, values);
    if (guess === null && step() < end()) {
      const reason = h("span", { class: "lt-why", role: "alert" });
      const box = field({ label: "The last sum ℓ", text: "",
                          accept: () => "" });
      return answer.replaceChildren(h("form", { onsubmit(event) {
        event.preventDefault();
        const { value, why: bad } = parseNumber(box.value);
        if (bad) { reason.textContent = bad; box.focus(); return; }
        guess = exact.number(value);
        draw();
        next.focus();
      } }, h("strong", { text: "Predict first. " }),
      "What will the sum ℓ be after the last tile, to two decimals? ",
      h("span", { class: "lt-guess" }, "ℓ = ", box,
        h("button", { type: "submit", text: "Check" })), reason));
    }
    const lines = [];
    if (guess !== null) {
      lines.push(h("p", { text: `You predicted ${short(guess)}: ` +
        `${diagnose(guess, scores, size(), last.total)}.` }));
    }
    if (step() === end()) {
      const o = last.out / last.total;
      const gap = Math.abs(o - whole.o);
      const naive = scores.reduce((a, s) => a + Math.exp(s), 0);
      lines.push(h("p", { text: `Online o/ℓ = ${figure(o)}; the plain ` +
        `softmax gives ${figure(whole.o)}. ` + (gap === 0 ?
          "Here they agree to the last bit." : `They differ by ` +
          `${gap.toExponential(0).replace("-", "−")}: rounding, no more.`) }),
        h("p", { text: "Without subtracting the largest score, ∑eˢ = " +
          (naive === Infinity ? "∞: it overflows float64." :
           naive === 0 ? "0: it underflows float64, and o is 0/0." :
           `${figure(naive)}.`) }));
    } else {
      lines.push(h("p", { text: "Step on to see." }));
    }
    answer.replaceChildren(...lines);
  }

  // -- all of it --
  const says = h("p", { class: "lt-says", role: "status" });
  function draw() {
    const scores = numbers("scores"), values = numbers("values");
    const n = scores.length;
    if (!n || n > MOST_KEYS || values.length !== n || !(size() >= 1) ||
        [...scores, ...values].some(Number.isNaN)) {
      says.textContent = "These numbers cannot be used.";
      return;
    }
    const states = online(scores, values, size());
    for (const control of sizes) control.draw();
    slider.max = end();
    slider.value = step();
    count.textContent = `Tile ${step()} of ${end()}`;
    enable(back, step() > 0);
    enable(next, step() < end());
    drawInputs();
    drawKept(states);
    drawAnswer(states, scores, values);
    const { top, total, out, shrink } = states[step()];
    const words = step() === 0 ? "Nothing read yet." :
      `After tile ${step()}: largest ${figure(top)}, sum ${figure(total)}, ` +
      `output ${figure(out / total)}. ` + (step() === 1 ? "" :
        shrink === 1 ? "The largest did not change: nothing shrinks." :
        `A higher maximum: the older sums were multiplied by ` +
        `${figure(shrink)}.`);
    if (says.textContent !== words) says.textContent = words;
  }

  const root = h("div", { class: "lt lt-online", role: "group",
                          "aria-label": "Online softmax" },
    h("div", { class: "lt-bar" }, reset, back, play.control, next, slider,
      count),
    says, answer, kept,
    h("div", { class: "lt-card" }, inputs,
      h("div", { class: "lt-sizes" }, ...sizes.map(({ node }) => node)), why));
  onKeys(root, { ArrowRight: byHand(() => step() + 1),
                 ArrowLeft: byHand(() => step() - 1),
                 Home: byHand(() => 0), End: byHand(end) });
  el.append(root);
  draw();
  const watched = ["scores", "values", "size", "step"]
    .map((name) => `change:${name}`).join(" ");
  const changed = () => { if (!saving) draw(); };
  model.on(watched, changed);
  return () => { play.stop(); model.off(watched, changed); };
}

export { online, plain, diagnose };
export default { render };
