// Two orders: (φ(Q) φ(K)ᵀ) V and φ(Q) (φ(K)ᵀ V), cell by cell, and how many
// multiplications each has made.  Both work at one speed: after `done`
// multiplications each road shows the cells it has finished.

const MOST_TOKENS = 6, WIDEST = 4, MOST_GUESSED = 999999;
const EXAMPLES = { k: [[1, 0], [0, 1], [1, 1], [2, 1]],
                   v: [[1, 0], [0, 2], [3, 1], [0, 1]],
                   q: [[2, 1], [1, 1], [1, 2], [0, 1]] };
const ROADS = {
  left: { title: "(φ(Q) φ(K)ᵀ) V", first: "φ(Q) φ(K)ᵀ" },
  right: { title: "φ(Q) (φ(K)ᵀ V)", first: "φ(K)ᵀ V", symbol: "S" },
};

// ---- the arithmetic ----

const transpose = (A) => A[0].map((_, j) => A.map((row) => row[j]));

/** A·B as a list of cells, each with its terms and its value. */
function product(F, A, B, stage) {
  return A.flatMap((row, i) => B[0].map((_, j) => {
    const terms = row.map((a, m) => [a, B[m][j]]);
    return { stage, i, j, terms, value: terms.reduce(
      (sum, [a, b]) => F.add(sum, F.times(a, b)), F.zero) };
  }));
}

const table = (cells, width) => cells.reduce((rows, { i, j, value }) => {
  (rows[i] ??= Array(width))[j] = value;
  return rows;
}, []);

/** A·B, then the second product: cells with `by`, the multiplications made
 *  when a cell is finished. */
function road(F, A, B, second) {
  const first = product(F, A, B, 0);
  const middle = table(first, B[0].length);
  const [C, D] = second(middle);
  const cells = [...first, ...product(F, C, D, 1)];
  let by = 0;
  for (const cell of cells) cell.by = by += cell.terms.length;
  return { cells, middle, total: by,
           result: table(cells.slice(first.length), D[0].length) };
}

/** Both roads for features q, k (N, r) and values v (N, d_v). */
function orders(F, q, k, v) {
  return { left: road(F, q, transpose(k), (A) => [A, v]),
           right: road(F, transpose(k), v, (S) => [q, S]) };
}

/** What a guess resembles. */
function diagnose(side, guess, total, { N, r, dv }) {
  if (guess === total) return "right";
  const parts = side === "left" ? [N * N * r, N * N * dv] :
                                  [N * r * dv, N * r * dv];
  if (parts.includes(guess)) return `${guess} is one of the two products`;
  if (guess === 2 * total) return `${guess} counts the additions too`;
  if (guess === 2 * N * r * dv || guess === N * N * (r + dv)) {
    return `${guess} is the other order's`;
  }
  return "not this time";
}

// ---- the widget ----

function render({ model, el }) {
  const names = ["k", "v", "q"];
  const texts = () => Object.fromEntries(
    names.map((name) => [name, model.get(name)]));
  const opened = texts();
  const sizeOf = ({ k, v }) => ({ N: k.length, r: k[0]?.length,
                                  dv: v[0]?.length });
  let both, size = sizeOf(opened);
  let saving = false, guesses = null, shape = "";

  const end = () => Math.max(both.left.total, both.right.total);
  const done = () => Math.max(0, Math.min(end(), model.get("done")));
  const save = (changes) => {
    saving = true;
    for (const [name, value] of Object.entries(changes)) {
      model.set(name, value);
    }
    model.save_changes();
    saving = false;
    draw();
  };
  const go = (to) => save({ done: Math.max(0, Math.min(end(), to)) });
  const stops = () => [0, ...both.left.cells, ...both.right.cells].map(
    (cell) => cell.by ?? 0);
  const onward = () => Math.min(end(),
    ...stops().filter((by) => by > done()));
  const backward = () => Math.max(0, ...stops().filter((by) => by < done()));
  const byHand = (to) => () => { play.stop(); go(to()); };

  // -- controls --
  const play = player({ interval: 700,
    begin() { if (done() === end()) go(0); },
    advance() { go(onward()); return done() < end(); } });
  const back = button("Back", byHand(backward));
  const next = button("Next", byHand(onward));
  const slider = h("input", { type: "range", min: 0,
    "aria-label": "Multiplications", title: "Arrow keys, Home and End",
    oninput: byHand(() => Number(slider.value)) });
  const count = h("span", { class: "lt-count" });
  const reset = button("Reset", () => {
    play.stop();
    refused("");
    guesses = null;
    shape = "";
    save({ ...opened, done: 0 });
  });
  const why = h("p", { class: "lt-why", role: "alert" });
  const refused = (reason) => { why.textContent = reason; };
  const resize = (part, rows, width) => Array.from({ length: rows }, (_, i) =>
    Array.from({ length: width }, (__, j) =>
      model.get(part)[i]?.[j] ?? String(EXAMPLES[part][i % 4][j % 2])));
  const edit = (changes) => {
    play.stop();
    guesses = null;
    save(changes);
  };
  const sizes = [
    counter({ label: "tokens N", low: 1, high: MOST_TOKENS, refused,
      get: () => size.N, set: (N) => edit({ k: resize("k", N, size.r),
        v: resize("v", N, size.dv), q: resize("q", N, size.r), done: 0 }) }),
    counter({ label: "features r", low: 1, high: WIDEST, refused,
      get: () => size.r, set: (r) => edit({ k: resize("k", size.N, r),
        q: resize("q", size.N, r), done: 0 }) }),
    counter({ label: "width dᵥ", low: 1, high: WIDEST, refused,
      get: () => size.dv,
      set: (dv) => edit({ v: resize("v", size.N, dv), done: 0 }) }),
  ];

  // -- the inputs --
  const inputs = h("div");
  const PARTS = { q: "φ(q)", k: "φ(k)", v: "v" };
  function drawInputs() {
    const now = JSON.stringify(size);
    if (now !== shape) {
      shape = now;
      const number = (part, i, j) => {
        const label = `${PARTS[part]}${sub(i + 1)}, entry ${j + 1}`;
        const input = field({ label, text: "", symbol: part, accept(text) {
          const { why: bad } = parseNumber(text);
          const old = model.get(part)[i][j];
          refused(bad ? `${label}: ${bad}. It stays ${old}.` : "");
          if (!bad) {
            edit({ [part]: model.get(part).map((row, a) => row.map(
              (x, b) => a === i && b === j ? text.trim() : x)) });
          }
          return bad ?? "";
        } });
        input.dataset.at = JSON.stringify([part, i, j]);
        return h("td", { class: j === 0 && "lt-first" }, input);
      };
      const widths = { q: size.r, k: size.r, v: size.dv };
      inputs.replaceChildren(scroller(h("table", { class: "lt-tokens" },
        h("caption", { text: "The inputs: change any number" }),
        h("thead", {}, h("tr", {}, h("th", { scope: "col", text: "token" }),
          ...Object.entries(PARTS).map(([part, text]) => h("th", {
            scope: "colgroup", colspan: widths[part], class: "lt-first",
            text })))),
        h("tbody", {}, ...Array.from({ length: size.N },
          (_, i) => h("tr", {}, h("th", { scope: "row", text: String(i + 1) }),
            ...Object.keys(PARTS).flatMap((part) => Array.from(
              { length: widths[part] }, (__, j) => number(part, i, j))))))),
        "the inputs"));
    }
    for (const input of inputs.querySelectorAll("input")) {
      const [part, i, j] = JSON.parse(input.dataset.at);
      if (input.getAttribute("aria-invalid") !== "true") {
        input.value = model.get(part)[i][j];
      }
    }
  }

  // -- one road --
  const cards = Object.fromEntries(Object.entries(ROADS).map(
    ([side, { title }]) => [side, h("div", { class: "lt-card", role: "group",
                                             "aria-label": title })]));
  function drawRoad(side) {
    const { title, first, symbol } = ROADS[side];
    const { cells, middle, result, total } = both[side];
    const made = Math.min(done(), total);
    const finished = cells.filter((cell) => cell.by <= made);
    const last = finished.at(-1);
    const ready = new Set(finished.map(({ stage, i, j }) =>
      `${stage},${i},${j}`));
    const view = (rows, stage, caption, hue) => picture({ caption,
      body: rows.map((row, i) => [String(i + 1), ...row.map((x, j) => {
        if (!ready.has(`${stage},${i},${j}`)) return { text: "·", quiet: true };
        const now = last.stage === stage && last.i === i && last.j === j;
        const read = stage === 0 && last.stage === 1 &&
          (side === "left" ? last.i === i : last.j === j);
        return { text: exact.show(x), symbol: hue, fresh: now,
                 mark: made < total && now ? "write" :
                       made < total && read ? "read" : undefined };
      })]) });
    const text = ([a, b]) => `${exact.show(a)}·${exact.show(b)}`;
    cards[side].replaceChildren(
      h("p", { class: "lt-title", text: title }),
      h("p", { class: "lt-cost", text: `${made} of ${total} multiplications` +
        (made === total ? ": finished" : "") }),
      h("p", { class: "lt-terms", text: last ?
        `cell ${last.i + 1},${last.j + 1} of ${last.stage ? "the result" :
          first}: ${last.terms.map(text).join(" + ")} = ` +
        exact.show(last.value) : "nothing yet" }),
      scroller(view(middle, 0, `first ${first}: ${middle.length}×` +
        `${middle[0].length}`, symbol), first),
      scroller(view(result, 1, `then the result: ${result.length}×` +
        `${result[0].length}`, "o"), "the result"));
  }

  // -- the prediction --
  const answer = h("div", { class: "lt-answer" });
  let asked = "";
  function drawAnswer() {
    const question = JSON.stringify([size, guesses, done() === end()]);
    if (question === asked) return;
    asked = question;
    const { left, right } = both;
    const lines = [];
    if (guesses) {
      lines.push(h("p", { text: "You predicted " + Object.entries(guesses).map(
        ([side, n]) => `${n} for ${ROADS[side].title} ` +
        `(${diagnose(side, n, both[side].total, size)})`).join(", ") + "." }));
    }
    if (guesses || done() === end()) {
      const { N, r, dv } = size;
      lines.push(h("p", { text: `Left N²(r + dᵥ) = ${N}²·(${r} + ${dv}) = ` +
        `${left.total}, right 2·N·r·dᵥ = 2·${N}·${r}·${dv} = ${right.total}. ` +
        "The right order is the cheaper one where N is above " +
        `2·r·dᵥ/(r + dᵥ) = ${short(2 * r * dv / (r + dv))}.` }));
      return answer.replaceChildren(...lines);
    }
    const boxes = Object.fromEntries(Object.entries(ROADS).map(
      ([side, { title }]) => [side, field({
        label: `Multiplications of ${title}`, text: "", accept: () => "" })]));
    const reason = h("span", { class: "lt-why", role: "alert" });
    answer.replaceChildren(h("form", { onsubmit(event) {
      event.preventDefault();
      const said = Object.fromEntries(Object.entries(boxes).map(
        ([side, box]) => [side, box.value.trim()]));
      const bad = Object.keys(said).find((side) =>
        !/^\d{1,6}$/.test(said[side]));
      if (bad) {
        reason.textContent = `${ROADS[bad].title}: write a whole number ` +
                             `from 0 to ${MOST_GUESSED}.`;
        boxes[bad].focus();
        return;
      }
      guesses = { left: Number(said.left), right: Number(said.right) };
      draw();
      next.focus();
    } },
      h("strong", { text: "Predict first. " }),
      `With N = ${size.N}, r = ${size.r}, dᵥ = ${size.dv}: how many ` +
      "multiplications does each order take? ",
      h("span", { class: "lt-guess" }, `${ROADS.left.title} `, boxes.left,
        ` ${ROADS.right.title} `, boxes.right,
        h("button", { type: "submit", text: "Check" })), reason));
  }

  // -- all of it --
  const says = h("p", { class: "lt-says", role: "status" });
  function draw() {
    const { k, v, q } = texts();
    const read = (rows) => rows.map((row) => row.map(
      (text) => parseNumber(text)));
    const parsed = [q, k, v].map(read);
    if (!k.length || k.length > MOST_TOKENS || v.length !== k.length ||
        q.length !== k.length || parsed.flat(2).some(({ why: bad }) => bad) ||
        [...q, ...k].some((row) => row.length !== k[0].length) ||
        v.some((row) => row.length !== v[0].length) || !k[0].length ||
        !v[0].length) {
      says.textContent = "These numbers cannot be used.";
      return;
    }
    size = sizeOf({ k, v });
    both = orders(exact, ...parsed.map((rows) => rows.map((row) => row.map(
      ({ value }) => value))));
    for (const control of sizes) control.draw();
    slider.max = end();
    slider.value = done();
    count.textContent = `${done()} of ${end()}`;
    enable(back, done() > 0);
    enable(next, done() < end());
    drawInputs();
    drawRoad("left");
    drawRoad("right");
    drawAnswer();
    const progress = (side) => {
      const { cells, total } = both[side];
      const n = cells.filter((cell) => cell.by <= done()).length;
      return total <= done() ? `finished after ${total}` :
                               `${n} of ${cells.length} cells`;
    };
    const words = done() === end() ? "Both orders give the same result: " +
      `${both.left.total} multiplications against ${both.right.total}.` :
      `After ${done()} multiplications each: left ${progress("left")}, ` +
      `right ${progress("right")}.`;
    if (says.textContent !== words) says.textContent = words;
  }

  const root = h("div", { class: "lt lt-two-orders", role: "group",
                          "aria-label": "Two orders" },
    h("div", { class: "lt-bar" }, reset, back, play.control, next, slider,
      count),
    says, answer,
    h("div", { class: "lt-roads" }, cards.left, cards.right),
    h("div", { class: "lt-card" }, inputs,
      h("div", { class: "lt-sizes" }, ...sizes.map(({ node }) => node)), why));
  onKeys(root, { ArrowRight: byHand(onward), ArrowLeft: byHand(backward),
                 Home: byHand(() => 0), End: byHand(end) });
  el.append(root);
  draw();
  const watched = [...names, "done"].map((n) => `change:${n}`).join(" ");
  const changed = () => { if (!saving) draw(); };
  model.on(watched, changed);
  return () => { play.stop(); model.off(watched, changed); };
}

export { orders };
export default { render };
