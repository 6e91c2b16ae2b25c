// The kernel viewer: φ(q)·φ(k) for several feature maps beside exp(q·k), as k
// turns round or grows, in two dimensions.

const RANDOM = ["positive", "trigonometric"];
const MAPS = {          // label, hue of the palette, dash
  exp: ["exp(q·k)", "softmax", ""],
  elu_plus_one: ["ELU + 1", "linear", ""],
  relu: ["ReLU", "sliding_window", "8 4"],
  squared: ["squared", "retention", "3 3"],
  softmax_feature: ["softmax features", "linformer", "10 3 2 3"],
  dpfp: ["DPFP", "gated_delta", "12 4"],
  taylor: ["Taylor", "delta", ""],
  positive: ["positive random", "retention", "6 2 2 2"],
  trigonometric: ["trigonometric random", "delta", "2 4"],
};
const LONGEST_VECTOR = 3, MOST_FEATURES = 64, LAST_SEED = 999, STEPS = 120;
const STATE = ["maps", "along", "measure", "turn", "q_length", "angle",
               "k_length", "features", "seed"];

// ---- the arithmetic ----

const inner = (a, b) => a.reduce((sum, x, i) => sum + x * b[i], 0);

/** m rows of two normal numbers each. */
function projection(m, seed) {
  const next = uniform(seed);
  const normal = () => Math.sqrt(-2 * Math.log(1 - next())) *
                       Math.cos(2 * Math.PI * next());
  return Array.from({ length: m }, () => [normal(), normal()]);
}

/** φ(x); `rows` is the projection of the random maps. */
function phi(map, x, rows) {
  const positive = (y) => Math.max(y, 0);
  const half = inner(x, x) / 2;
  switch (map) {
    case "elu_plus_one":
      return x.map((y) => positive(y) + Math.exp(Math.min(y, 0)));
    case "relu": return x.map(positive);
    case "squared": return x.map((y) => y * y);
    case "softmax_feature": {
      const e = x.map((y) => Math.exp(y - Math.max(...x)));
      return e.map((y) => y / e.reduce((a, b) => a + b));
    }
    case "dpfp": {
      const p = [...x, ...x.map((y) => -y)].map(positive);
      return p.map((y, i) => y * p[(i + 1) % p.length]);
    }
    case "taylor":
      return [1, ...x, ...x.flatMap((a) => x.map((b) => a * b / Math.SQRT2))];
    case "positive":
      return rows.map((ω) => Math.exp(inner(ω, x) - half) /
                             Math.sqrt(rows.length));
    case "trigonometric":
      return [Math.cos, Math.sin].flatMap((wave) => rows.map((ω) =>
        wave(inner(ω, x)) * Math.exp(half) / Math.sqrt(rows.length)));
    default: throw Error(`no map ${map}`);
  }
}

/** κ(q, k) of a map; of "exp", exp(q·k) itself. */
const kappa = (map, q, k, rows) => map === "exp" ? Math.exp(inner(q, k)) :
  inner(phi(map, q, rows), phi(map, k, rows));

const polar = (length, degrees) => {
  const a = degrees * Math.PI / 180;
  return [length * Math.cos(a), length * Math.sin(a)];
};

/**
 * { at: [x, …], exp: { here, curve, mean }, … }: κ as k turns (x in degrees
 * from q) or grows (x its length).  `mean` is that of the keys on the curve.
 */
function curves(o) {
  const rows = projection(o.features, o.seed), q = polar(o.q_length, o.turn);
  const at = Array.from({ length: STEPS + 1 }, (_, i) =>
    o.along === "angle" ? 360 * i / STEPS - 180 : LONGEST_VECTOR * i / STEPS);
  const key = (x) => o.along === "angle" ? polar(o.k_length, o.turn + x) :
                                           polar(x, o.turn + o.angle);
  const here = key(o.along === "angle" ? o.angle : o.k_length);
  const result = { at };
  for (const map of ["exp", ...o.maps]) {
    const curve = at.map((x) => kappa(map, q, key(x), rows));
    result[map] = { curve, here: kappa(map, q, here, rows),
      // −180° and 180° are one key: it counts once
      mean: curve.slice(1).reduce((a, b) => a + b) / STEPS };
  }
  return result;
}

// ---- the widget ----

function render({ model, el }) {
  const options = () => Object.fromEntries(
    STATE.map((name) => [name, model.get(name)]));
  const opened = options();
  let saving = false;
  const save = (changes) => {
    saving = true;
    for (const [name, value] of Object.entries(changes)) {
      model.set(name, value);
    }
    model.save_changes();
    saving = false;
    draw();
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
  const slide = (name, label, low, high, step, unit) => {
    const input = h("input", { type: "range", min: low, max: high, step,
      "aria-label": label,
      oninput() { save({ [name]: Number(input.value) }); } });
    const text = h("span", {});
    return { node: h("label", { class: "lt-bar" }, text, input), draw() {
      input.value = model.get(name);
      text.textContent = `${label} ${short(model.get(name))}${unit}`;
      input.setAttribute("aria-valuetext",
                         `${short(model.get(name))}${unit}`);
    } };
  };
  const whole = (name, label, low, high) => counter({ label, low, high,
    refused, get: () => model.get(name), set: (n) => save({ [name]: n }) });
  const checks = Object.entries(MAPS).slice(1).map(([map, [label, hue,
    dash]]) => {
    const box = h("input", { type: "checkbox", onchange() {
      save({ maps: Object.keys(MAPS).filter((name) => name === map ?
        box.checked : model.get("maps").includes(name)) });
    } });
    return { node: h("label", {}, box, ` ${label}`), draw() {
      box.checked = model.get("maps").includes(map);
    } };
  });
  const controls = [
    choice("along", "Along", { angle: "as k turns round",
                               length: "as k grows" }),
    choice("measure", "Show", { weight: "weights: κ over its mean",
                                value: "κ itself" }),
    slide("turn", "direction of q", 0, 355, 5, "°"),
    slide("q_length", "length of q", 0, LONGEST_VECTOR, 0.1, ""),
    slide("angle", "k from q", -180, 180, 5, "°"),
    slide("k_length", "length of k", 0, LONGEST_VECTOR, 0.1, ""),
    whole("features", "random rows m", 1, MOST_FEATURES),
    whole("seed", "seed", 0, LAST_SEED),
  ];

  // -- the curves --
  const plot = h("div", { class: "lt-plot" });
  const shown = (map, { curve, here, mean }) => model.get("measure") ===
    "value" ? { curve, here } : mean > 1e-12 ?
      { curve: curve.map((y) => y / mean), here: here / mean } : null;
  function drawPlot(data) {
    const { along, measure } = options();
    const width = Math.max(240, Math.min(plot.clientWidth || 420, 620));
    const height = 260, left = 44, right = 12, top = 12, bottom = 42;
    const at = data.at, named = Object.keys(MAPS).filter(
      (map) => data[map] && shown(map, data[map]));
    const goal = shown("exp", data.exp).curve;
    const all = named.flatMap((map) => shown(map, data[map]).curve);
    const most = 1.15 * Math.max(...goal);
    const least = Math.max(Math.min(0, ...all), -most);
    const X = (x) => left + (x - at[0]) / (at.at(-1) - at[0]) *
                            (width - left - right);
    const Y = (y) => top + (most - y) / (most - least) *
                           (height - top - bottom);
    const text = (x, y, content, anchor = "middle") =>
      svg("text", { x, y, "text-anchor": anchor }, content);
    const ticks = along === "angle" ? [-180, -90, 0, 90, 180] : [0, 1, 2, 3];
    const parts = ticks.flatMap((x) => [
      svg("line", { class: "lt-grid", x1: X(x), x2: X(x), y1: top,
                    y2: height - bottom }),
      text(X(x), height - bottom + 16, short(x) +
           (along === "angle" ? "°" : ""),
           x === at.at(-1) ? "end" : "middle")]);
    for (const y of new Set([least, 0, most / 2, most])) {
      parts.push(svg("line", { class: "lt-grid", x1: left,
        x2: width - right, y1: Y(y), y2: Y(y) }),
        text(left - 5, Y(y) + 4, short(+y.toPrecision(2)), "end"));
    }
    const x = along === "angle" ? model.get("angle") : model.get("k_length");
    parts.push(text((left + width - right) / 2, height - 4,
      along === "angle" ? "angle from q to k" : "length of k"),
      svg("line", { class: "lt-here", x1: X(x), x2: X(x), y1: top,
                    y2: height - bottom }));
    for (const map of [...named].reverse()) {
      const [, hue, dash] = MAPS[map];
      let run = [];
      const runs = [run];
      shown(map, data[map]).curve.forEach((y, i) => {
        if (y > most || y < least) { run = []; runs.push(run); } else {
          run.push(`${X(at[i])},${Y(y)}`);
        }
      });
      for (const points of runs.filter((r) => r.length > 1)) {
        parts.push(svg("polyline", { class: "lt-curve",
          points: points.join(" "), "stroke-dasharray": dash,
          style: `stroke: var(--lt-${hue.replace("_", "-")}); ` +
                 `stroke-width: ${map === "exp" ? 4 : 2}` }));
      }
    }
    plot.replaceChildren(
      h("p", { class: "lt-title", text: measure === "weight" ?
        "Weight, in multiples of the average key's" : "κ(q, k)" }),
      svg("svg", { width, height, role: "img", "aria-label":
        `${measure === "weight" ? "Weight" : "κ"} against the ` +
        `${along === "angle" ? "angle" : "length"} of k, for ` +
        named.map((map) => MAPS[map][0]).join(", ") }, ...parts));
  }

  // -- the numbers, which are the legend too --
  const numbers = h("div");
  const line = ([, hue, dash], thick) => svg("svg", { width: 34, height: 10,
    "aria-hidden": "true" }, svg("line", { x1: 0, x2: 34, y1: 5, y2: 5,
    "stroke-dasharray": dash, style: `stroke-width: ${thick ? 4 : 2}; ` +
    `stroke: var(--lt-${hue.replace("_", "-")})` }));
  const text = (y) => Math.abs(y) < 1e4 ? short(y) :
    y.toExponential(1).replace("-", "−");
  function drawNumbers(data) {
    const rows = Object.keys(MAPS).filter((map) => data[map]).map((map) => {
      const { here, mean } = data[map];
      return h("tr", {}, h("td", {}, line(MAPS[map], map === "exp")),
        h("th", { scope: "row", text: MAPS[map][0] }),
        h("td", { text: text(here) }),
        h("td", { text: mean > 1e-12 ? text(here / mean) : "none" }));
    });
    numbers.replaceChildren(scroller(h("table", { class: "lt-facts" },
      h("caption", { text: "At the dotted line" }),
      h("thead", {}, h("tr", {}, h("td", {}), ...["map", "κ", "weight"].map(
        (head) => h("th", { scope: "col", text: head })))),
      h("tbody", {}, ...rows)), "At the dotted line"));
  }

  // -- all of it --
  const says = h("p", { class: "lt-says", role: "status" });
  function valid(o) {
    const within = (x, low, high) => Number.isFinite(x) && low <= x &&
                                     x <= high;
    return o.maps.every((map) => map !== "exp" && MAPS[map]) &&
      within(o.turn, 0, 360) && within(o.angle, -180, 180) &&
      within(o.q_length, 0, LONGEST_VECTOR) &&
      within(o.k_length, 0, LONGEST_VECTOR) &&
      within(o.features, 1, MOST_FEATURES) && within(o.seed, 0, LAST_SEED) &&
      ["angle", "length"].includes(o.along) &&
      ["weight", "value"].includes(o.measure);
  }
  function draw() {
    const o = options();
    if (!valid(o)) {
      says.textContent = "These settings cannot be used.";
      return;
    }
    for (const control of [...controls, ...checks]) control.draw();
    const data = curves(o);
    for (const control of controls.slice(-2)) {
      control.node.hidden = !o.maps.some((map) => RANDOM.includes(map));
    }
    drawPlot(data);
    drawNumbers(data);
    const score = inner(polar(o.q_length, o.turn),
                        polar(o.k_length, o.turn + o.angle));
    const gone = Object.keys(MAPS).filter((map) => data[map] &&
      !(data[map].mean > 1e-12)).map((map) => MAPS[map][0]);
    const words = `q·k = ${short(score)}: exp gives this key ` +
      `${text(data.exp.here / data.exp.mean)} times the average weight` +
      o.maps.filter((map) => data[map].mean > 1e-12).map((map) =>
        `, ${MAPS[map][0]} ${text(data[map].here / data[map].mean)}`)
        .join("") + "." + (gone.length ? ` ${gone.join(" and ")}: the ` +
        "weights sum to zero or less, so there is no mean." : "");
    if (says.textContent !== words) says.textContent = words;
  }

  const [along, measure, ...others] = controls;
  const root = h("div", { class: "lt lt-kernel-viewer", role: "group",
                          "aria-label": "Kernel viewer" },
    h("div", { class: "lt-bar" },
      button("Reset", () => { refused(""); save(opened); }),
      along.node, measure.node),
    says,
    h("div", { class: "lt-view" },
      h("div", { class: "lt-card" }, plot, numbers),
      h("div", { class: "lt-card" },
        h("div", { class: "lt-bar lt-checks", role: "group",
                   "aria-label": "Feature maps" },
          ...checks.map(({ node }) => node)),
        h("div", { class: "lt-knobs" }, ...others.map(({ node }) => node)),
        why)));
  onKeys(root, {});
  el.append(root);
  draw();
  let width = plot.clientWidth;
  const observer = new ResizeObserver(() => {
    if (plot.clientWidth !== width) {
      width = plot.clientWidth;
      draw();
    }
  });
  observer.observe(plot);
  const watched = STATE.map((name) => `change:${name}`).join(" ");
  const changed = () => { if (!saving) draw(); };
  model.on(watched, changed);
  return () => { observer.disconnect(); model.off(watched, changed); };
}

export { curves, kappa, phi, projection };
export default { render };
