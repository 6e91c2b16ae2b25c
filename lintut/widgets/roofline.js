// Roofline: the least time that a mechanism can take on a GPU, and which wall
// it hits.  Formulas are those of lintut.cost, the GPUs those of
// lintut.hardware; both are part of the state.

const SIZES = {         // label, least, most
  N: ["length N", 1, 1048576], d: ["width d = dᵥ", 1, 512],
  C: ["chunk C", 1, 4096], rows: ["batch · heads", 1, 65536],
};
const BYTES = { float32: 4, tf32: 4, float16: 2, bfloat16: 2 };
const WALLS = { memory: "memory: it waits for bytes",
                products: "products: it waits for the multipliers",
                elementwise: "elementwise: it waits for exponentials and " +
                             "additions" };

// ---- the arithmetic ----

/** { products, other, bytes } of one mechanism, on a device with `shared`. */
function work(formulas, { N, d, C, rows }, dtype, shared) {
  const size = BYTES[dtype], chunk = Math.min(C, N);
  const sizes = { N, d, d_v: d, r: d, C: chunk,
                  B: Math.min(N, Math.max(1, Math.floor(shared /
                                                        (4 * d * size)))),
                  L: chunk > 1 ? Math.ceil(Math.log2(chunk)) : 0, P: 0 };
  sizes.P = evaluate(formulas.pairs, sizes);
  const of = (name) => evaluate(formulas[name], sizes) * rows;
  return { products: of("products"), other: of("other"),
           bytes: of("moved") * size };
}

/** Seconds at each wall, and the highest. */
function roofline({ products, other, bytes }, device, dtype) {
  const walls = { memory: bytes / device.bandwidth,
                  products: products / device[dtype],
                  elementwise: other / device.float32 };
  const wall = Object.keys(walls).reduce((a, b) =>
    walls[b] > walls[a] ? b : a);
  return { walls, wall, seconds: walls[wall],
           intensity: (products + other) / bytes };
}

// ---- the widget ----

function render({ model, el }) {
  const get = (name) => model.get(name);
  const put = (name, value) => {
    why.textContent = "";
    model.set(name, value);
    model.save_changes();
    draw();
  };
  const device = () => get("devices")[get("device")];
  const why = h("p", { class: "lt-why", role: "alert" });
  const says = h("p", { class: "lt-says", role: "status" });
  const plot = h("div", { class: "lt-plot" });
  const table = h("div");
  const source = h("p", { class: "lt-cost" });
  const fields = {};

  const size = (name) => {
    const [label, least, most] = SIZES[name];
    fields[name] = field({ label, text: "", accept(text) {
      const n = /^\d{1,9}$/.test(text.trim()) ? Number(text) : NaN;
      if (least <= n && n <= most) {
        put("sizes", { ...get("sizes"), [name]: n });
        return "";
      }
      const reason = `${label} must be a whole number from ${least} to ` +
        `${most.toLocaleString("en")}; “${text.slice(0, 20)}” is not. It ` +
        `stays ${get("sizes")[name]}.`;
      why.textContent = reason;
      return reason;
    } });
    return h("label", { class: "lt-size" }, `${label} `, fields[name]);
  };
  const select = (name, label, options, allowed = () => "") => {
    const node = h("select", { "aria-label": label, onchange() {
      const bad = allowed(node.value);
      if (!bad) return put(name, node.value);
      node.value = get(name);
      why.textContent = bad;
    } }, ...Object.entries(options).map(([value, text]) =>
      h("option", { value, text })));
    return node;
  };
  const lacks = (row, dtype) => get("devices")[row][dtype] ? "" :
    `${row} (compute capability ${get("devices")[row].capability}) has no ` +
    `${dtype} tensor cores. It stays ${get("device")}, ${get("dtype")}.`;
  const same = (keys) => Object.fromEntries(keys.map((k) => [k, k]));
  const labels = Object.fromEntries(Object.entries(get("formulas")).map(
    ([key, { label }]) => [key, label]));
  const selects = {
    device: select("device", "GPU", same(Object.keys(get("devices"))),
                   (row) => lacks(row, get("dtype"))),
    dtype: select("dtype", "dtype", same(Object.keys(BYTES)),
                  (dtype) => lacks(get("device"), dtype)),
    mechanism: select("mechanism", "mechanism", labels),
  };
  const slider = h("input", { type: "range", min: 4, max: 20, step: 1,
    "aria-label": "length N, a power of two", oninput: () =>
      put("sizes", { ...get("sizes"), N: 2 ** Number(slider.value) }) });

  const result = (key) => {
    const made = work(get("formulas")[key], get("sizes"), get("dtype"),
                      device().shared);
    return { ...made, ...roofline(made, device(), get("dtype")) };
  };

  function drawTable() {
    table.replaceChildren(scroller(picture({
      caption: "The least time of a forward pass, causal, and its wall. " +
               "Outlined: the one above.",
      head: [headings(["", "time", "wall", "products", "elementwise", "bytes"])],
      body: Object.keys(labels).map((key) => {
        const r = result(key);
        const mark = key === get("mechanism") ? "note" : undefined;
        return [labels[key], { text: amount(r.seconds, "seconds"), mark },
                r.wall, amount(r.products, "FLOP"), amount(r.other, "FLOP"),
                amount(r.bytes, "bytes")];
      }) }), "the mechanisms' times"));
  }

  function drawPlot() {
    const row = device(), peak = row[get("dtype")];
    const r = result(get("mechanism"));
    const reached = (r.products + r.other) / r.seconds;
    const ends = [Math.min(-1, Math.floor(Math.log10(r.intensity))),
                  Math.max(4, Math.ceil(Math.log10(r.intensity)))];
    const ridge = peak / row.bandwidth;
    const x = ends.map((e) => 10 ** e);
    const roof = [[x[0], x[0] * row.bandwidth], [ridge, peak], [x[1], peak]];
    const curves = [{ points: roof, hue: "ink", label: get("dtype") }];
    if (peak !== row.float32) {
      const knee = row.float32 / row.bandwidth;
      curves.push({ hue: "muted", dash: "8 5", label: "elementwise",
                    points: [[knee, row.float32], [x[1], row.float32]] });
    }
    const points = get("points").filter((p) => p.device === get("device") &&
      p.dtype === get("dtype") && p.mechanism === get("mechanism"));
    const low = Math.min(x[0] * row.bandwidth, reached,
                         ...points.map((p) => p.rate));
    plot.replaceChildren(logPlot({
      width: Math.max(plot.clientWidth || 640, 280), base: 10, curves,
      x: { label: "intensity (FLOP a byte)", low: ends[0], high: ends[1],
           tick: (e) => `10${raised(e)}` },
      y: { label: "rate (FLOP/s)", low: Math.log10(low),
           high: Math.log10(peak) + 0.25,
           tick: (e) => amount(10 ** e, "FLOP").replace("FLOP", "") },
      marks: [{ x: r.intensity, y: reached,
                label: amount(r.seconds, "seconds") },
              ...points.map((p) => ({ x: p.intensity, y: p.rate,
                                      label: p.label }))],
      here: r.intensity,
      name: `The roofline of ${get("device")}, and ` +
            `${labels[get("mechanism")]} at ${short(r.intensity)} FLOP a ` +
            "byte" }));
  }

  function draw() {
    for (const [name, input] of Object.entries(fields)) {
      if (input.getAttribute("aria-invalid") !== "true") {
        input.value = get("sizes")[name];
      }
    }
    for (const [name, node] of Object.entries(selects)) node.value = get(name);
    slider.value = Math.round(Math.log2(get("sizes").N));
    if (!device()?.[get("dtype")]) {
      says.textContent = "This GPU has no such products.";
      return;
    }
    drawTable();
    drawPlot();
    source.textContent = `Peaks: ${device().source}. No program passes ` +
      "them; few come near." + (get("points").length ?
        " Points named by their size are measured." : "");
    const r = result(get("mechanism"));
    says.textContent = `${labels[get("mechanism")]} on ${get("device")}, ` +
      `${get("dtype")}: at least ${amount(r.seconds, "seconds")}. ` +
      `The highest wall is ${WALLS[r.wall]}. ${short(r.intensity)} FLOP a ` +
      `byte; the ridge is at ${short(device()[get("dtype")] /
                                     device().bandwidth)}.`;
  }

  el.append(h("div", { class: "lt lt-explorer", role: "group",
                       "aria-label": "Roofline" },
    h("div", { class: "lt-bar" },
      resetter(model, ["device", "dtype", "mechanism", "sizes"], why),
      ...Object.values(selects)),
    h("label", { class: "lt-bar" }, "N ", slider),
    h("div", { class: "lt-sizes" }, ...Object.keys(SIZES).map(size)),
    why, says, plot, table, source));
  draw();
  const watched = ["sizes", "device", "dtype", "mechanism"]
    .map((name) => `change:${name}`).join(" ");
  const redraw = () => draw();
  model.on(watched, redraw);
  const off = onWidth(plot, redraw);
  return () => { off(); model.off(watched, redraw); };
}

export { work, roofline };
export default { render };
