// Chunk dial: what chunkwise linear attention costs as the chunk grows from
// one token (the token loop) to all of them (the triangle).
//
// The counts are those of lintut.cost for "linear", "chunkwise", r = d; the
// time adds a rate and a wait for each step, both the reader's.

const SIZES = {         // label, least, most
  N: ["length N", 1, 65536], C: ["chunk C", 1, 65536],
  d: ["width d", 1, 1024], d_v: ["value width dᵥ", 1, 1024],
};
const RATES = {         // label, least, most; any number
  rate: ["rate, GFLOP/s", 0.001, 1000000],
  wait: ["wait a step, µs", 0, 100000],
};

// ---- the arithmetic ----

/** Operations and elements of one head of one sequence. */
function costs({ N, d, d_v, C }) {
  C = Math.min(C, N);
  const steps = Math.ceil(N / C), state = d * d_v + d;
  const pairs = Math.floor(N / C) * C * C + (N % C) ** 2;
  return { steps, state, pairs,
           inside: 2 * pairs * (d + d_v + 1),
           between: 4 * N * d * (d_v + 1),
           other: 8 * N * d + N * (2 * d_v + 1) + steps * d * (d_v + 1),
           moved: 2 * N * (d + d_v) + 2 * steps * state,
           saved: N * (2 * d + d_v) + steps * state };
}

/** Seconds: { inside, between, waiting, total }. */
function times(sizes, { rate, wait }) {
  const { inside, between, other, steps } = costs(sizes);
  const parts = { inside: inside / (rate * 1e9),
                  between: (between + other) / (rate * 1e9),
                  waiting: steps * wait * 1e-6 };
  return { ...parts, total: parts.inside + parts.between + parts.waiting };
}

/** The chunk with the least time, and the real number the formula gives. */
function optimum(sizes, speed) {
  const { N, d, d_v } = sizes;
  const wait = speed.wait * speed.rate * 1e3;         // in FLOPs
  const formula = Math.sqrt((d * (d_v + 1) + wait) / (2 * (d + d_v + 1)));
  let best = 1, least = Infinity;
  for (let C = 1; C <= N; C++) {
    const { total } = times({ ...sizes, C }, speed);
    if (total < least) [best, least] = [C, total];
  }
  return { best, formula };
}

// ---- the widget ----

function render({ model, el }) {
  const sizes = () => model.get("sizes");
  const speed = () => model.get("speed");
  const put = (trait, name, value) => {
    why.textContent = "";
    model.set(trait, { ...model.get(trait), [name]: value });
    model.save_changes();
    draw();
  };
  const why = h("p", { class: "lt-why", role: "alert" });
  const says = h("p", { class: "lt-says", role: "status" });
  const plot = h("div", { class: "lt-plot" });
  const table = h("div");
  const fields = {};

  const box = (trait, name, [label, least, most], whole) => {
    const pattern = whole ? /^\d{1,9}$/ : /^\d{0,7}(\.\d{1,6})?$/;
    fields[name] = [trait, field({ label, text: "", accept(text) {
      const clean = text.trim();
      const n = clean && pattern.test(clean) ? Number(clean) : NaN;
      if (least <= n && n <= most) { put(trait, name, n); return ""; }
      const reason = `${label} must be a ${whole ? "whole " : ""}number ` +
        `from ${least} to ${most.toLocaleString("en")}; ` +
        `“${text.slice(0, 20)}” is not. It stays ${model.get(trait)[name]}.`;
      why.textContent = reason;
      return reason;
    } })];
    return h("label", { class: "lt-size" }, `${label} `, fields[name][1]);
  };
  const slider = h("input", { type: "range", min: 0, step: 1,
    "aria-label": "chunk C, a power of two",
    oninput() { put("sizes", "C", Math.min(2 ** slider.value, sizes().N)); } });
  const jump = button("Go to the optimum", () =>
    put("sizes", "C", optimum(sizes(), speed()).best));

  function drawTable(best) {
    const { N, C } = sizes();
    const at = [["here", C], ["token loop", 1], ["optimum", best],
                ["triangle", N]];
    const rows = at.map(([, chunk]) => {
      const of = { ...sizes(), C: chunk };
      return [costs(of), times(of, speed())];
    });
    const line = (text, pick) => [text, ...rows.map((r) => pick(...r))];
    const size = model.get("bytes");
    table.replaceChildren(scroller(picture({
      caption: `One head, one sequence, ${size} bytes an element, features ` +
               "r = d.",
      head: [["", ...at.map(([label, chunk]) =>
        ({ text: label, note: `C = ${Math.min(chunk, N)}`, name: true }))]],
      body: [
        line("inside chunks", (c) => amount(c.inside, "FLOP")),
        line("between chunks", (c) => amount(c.between, "FLOP")),
        line("elementwise", (c) => amount(c.other, "FLOP")),
        line("steps in a row", (c) => c.steps.toLocaleString("en")),
        line("time", (_, t) => amount(t.total, "seconds")),
        line("bytes moved", (c) => amount(c.moved * size, "bytes")),
        line("kept to train", (c) => amount(c.saved * size, "bytes")),
        ["one square", ...at.map(([, chunk]) =>
          amount(Math.min(chunk, N) ** 2 * size, "bytes"))],
      ] }), "the costs of four chunk sizes"));
  }

  function drawPlot(best) {
    const { N, C } = sizes();
    const top = Math.max(1, Math.log2(N));
    const chunks = [...new Set(Array.from({ length: 65 }, (_, i) =>
      Math.min(N, Math.round(2 ** (top * i / 64)))))];
    const all = chunks.map((chunk) => times({ ...sizes(), C: chunk }, speed()));
    const curves = [["total", "ink", ""], ["inside", "q", "8 5"],
                    ["between", "S", "2 4"], ["waiting", "o", "8 4 2 4"]]
      .filter(([key]) => all.every((t) => t[key] > 0))
      .map(([key, hue, dash]) => ({ label: key, hue, dash,
        points: chunks.map((chunk, i) => [chunk, all[i][key]]) }));
    const values = curves.flatMap(({ points }) => points.map((p) => p[1]));
    const low = Math.log10(Math.min(...values));
    const high = Math.max(Math.log10(Math.max(...values)), low + 1);
    const least = times({ ...sizes(), C: best }, speed()).total;
    plot.replaceChildren(logPlot({
      width: Math.max(plot.clientWidth || 640, 280), curves,
      here: Math.min(C, N),
      x: { label: "chunk C (tokens)", low: 0, high: top,
           tick: (e) => (2 ** e).toLocaleString("en") },
      y: { label: "time", low, high,
           tick: (e) => amount(10 ** e, "seconds") },
      marks: [{ x: best, y: least, label: `C = ${best}` }],
      name: "Time against chunk size: in all, inside chunks, between chunks " +
            `and waiting; the least is at C = ${best}` }));
  }

  function draw() {
    const { N, C } = sizes();
    for (const [name, [trait, input]] of Object.entries(fields)) {
      if (input.getAttribute("aria-invalid") !== "true") {
        input.value = model.get(trait)[name];
      }
    }
    slider.max = Math.ceil(Math.log2(N));
    slider.value = Math.round(Math.log2(Math.min(C, N)));
    const { best, formula } = optimum(sizes(), speed());
    drawTable(best);
    drawPlot(best);
    const here = times(sizes(), speed()).total;
    const least = times({ ...sizes(), C: best }, speed()).total;
    says.textContent = `C = ${Math.min(C, N)}: ` +
      `${costs(sizes()).steps.toLocaleString("en")} steps, ` +
      `${amount(here, "seconds")}. The least is ` +
      `${amount(least, "seconds")} at C = ${best}; ` +
      `the formula gives C = ${short(formula)}.`;
  }

  el.append(h("div", { class: "lt lt-explorer", role: "group",
                       "aria-label": "Chunk dial" },
    h("div", { class: "lt-bar" }, resetter(model, ["sizes", "speed"], why),
      jump),
    h("label", { class: "lt-bar" }, "C ", slider),
    h("div", { class: "lt-sizes" },
      ...Object.entries(SIZES).map(([n, row]) => box("sizes", n, row, true)),
      ...Object.entries(RATES).map(([n, row]) => box("speed", n, row, false))),
    why, says, plot, table));
  draw();
  const redraw = () => draw();
  const names = ["sizes", "speed"];
  for (const name of names) model.on(`change:${name}`, redraw);
  const off = onWidth(plot, redraw);
  return () => {
    off();
    for (const name of names) model.off(`change:${name}`, redraw);
  };
}

export { costs, times, optimum };
export default { render };
