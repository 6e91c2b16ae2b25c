// Interference: unit keys on a circle, a value written under each, and what
// three memories of the same size read back.
//
//   additive    S = Σ k vᵀ                      read Sᵀk
//   normalised  S as above, z = Σ k             read Sᵀk / z·k
//   delta       S ← S + k (v − Sᵀk)ᵀ, in turn   read Sᵀk

const MOST_KEYS = 6, MOST_PASSES = 50;
const RULES = {         // symbol of the palette, dash, label
  additive: ["linear", "", "additive"],
  normalised: ["retention", "7 4", "normalised"],
  delta: ["delta", "2 4", "delta"],
};
const EXAMPLES = {
  "at right angles": [[0, "1"], [90, "2"]],
  "60° apart": [[0, "1"], [60, "2"]],
  "almost the same": [[0, "1"], [10, "2"]],
  "opposite": [[0, "1"], [180, "2"]],
  "three in two dimensions": [[0, "1"], [120, "2"], [240, "3"]],
  "one key twice": [[0, "1"], [90, "2"], [0, "3"]],
};

// ---- the memories ----

/** { additive, normalised, delta }: each one read back for each key. */
function memories(angles, values, passes = 1) {
  const keys = angles.map((a) => direction(a));
  let S = [0, 0], z = [0, 0];
  keys.forEach((k, j) => {
    S = vadd(decimal, S, k.map((x) => x * values[j]));
    z = vadd(decimal, z, k);
  });
  let D = [0, 0];
  for (let pass = 0; pass < passes; pass++) {
    keys.forEach((k, j) => {
      const error = values[j] - dot(decimal, D, k);
      D = vadd(decimal, D, k.map((x) => x * error));
    });
  }
  const additive = keys.map((k) => dot(decimal, S, k));
  return {
    additive,
    normalised: keys.map((k, j) => {
      const weight = dot(decimal, z, k);
      return weight > 1e-9 ? additive[j] / weight : null;
    }),
    delta: keys.map((k) => dot(decimal, D, k)),
  };
}

/** (cos, sin), exact at the four right angles. */
function direction(degrees) {
  const turn = ((degrees % 360) + 360) % 360;
  if (turn % 90 === 0) return [[1, 0], [0, 1], [-1, 0], [0, -1]][turn / 90];
  const a = turn * Math.PI / 180;
  return [Math.cos(a), Math.sin(a)];
}

/** Root of the mean squared error; null where one read is refused. */
function rms(reads, values) {
  if (reads.includes(null)) return null;
  return Math.sqrt(reads.reduce(
    (sum, x, j) => sum + (x - values[j]) ** 2, 0) / values.length);
}

// ---- the widget ----

function render({ model, el }) {
  const names = ["angles", "values", "passes", "chosen"];
  const opened = Object.fromEntries(names.map((n) => [n, model.get(n)]));
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
  const angles = () => model.get("angles");
  const numbers = () => model.get("values").map(
    (text) => exact.number(parseNumber(text).value));
  const turn = (j, angle) => save({ chosen: j,
    angles: angles().map((a, i) => i === j ?
      ((Math.round(angle) % 360) + 360) % 360 : a) });

  // -- controls --
  const why = h("p", { class: "lt-why", role: "alert" });
  const refused = (reason) => { why.textContent = reason; };
  const example = h("select", { "aria-label": "Example",
    onchange() {
      const keys = EXAMPLES[example.value];
      if (!keys) return;
      refused("");
      save({ angles: keys.map(([a]) => a), values: keys.map(([, v]) => v),
             chosen: 1 });
    } }, h("option", { value: "", text: "Examples …" }),
    ...Object.keys(EXAMPLES).map((text) => h("option", { value: text, text })));
  const count = counter({ label: "keys", low: 1, high: MOST_KEYS, refused,
    get: () => angles().length,
    set: (n) => save({
      angles: Array.from({ length: n },
        (_, j) => angles()[j] ?? (angles().at(-1) + 45 * (
          j - angles().length + 1)) % 360),
      values: Array.from({ length: n },
        (_, j) => model.get("values")[j] ?? String(j + 1)),
      chosen: Math.min(model.get("chosen"), n - 1) }) });
  const passes = counter({ label: "passes of delta", low: 1,
    high: MOST_PASSES, refused, get: () => model.get("passes"),
    set: (n) => save({ passes: n }) });

  // -- the circle --
  const SIZE = 240, R = 84, middle = SIZE / 2;
  const place = (angle, r = R) => {
    const [x, y] = direction(angle);
    return [middle + r * x, middle - r * y];
  };
  const circle = svg("svg", { viewBox: `0 0 ${SIZE} ${SIZE}`,
                              class: "lt-circle", role: "group",
                              "aria-label": "Keys on the unit circle" });
  let handles = [];
  function makeHandles() {
    handles = angles().map((_, j) => {
      const line = svg("line", { class: "lt-spoke", x1: middle, y1: middle });
      const dot = svg("circle", { class: "lt-knob", r: 11 });
      const text = svg("text", { class: "lt-name" });
      text.textContent = `k${sub(j + 1)}`;
      const group = svg("g", {
        class: "lt-handle", tabindex: 0, role: "slider",
        "aria-label": `Key ${j + 1}, angle in degrees`,
        "aria-valuemin": 0, "aria-valuemax": 359,
        onkeydown(event) {
          const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1,
                       ArrowDown: -1, PageUp: 15, PageDown: -15 }[event.key];
          if (by === undefined || event.ctrlKey || event.altKey ||
              event.metaKey) return;
          event.preventDefault();
          event.stopPropagation();
          turn(j, angles()[j] + by);
        },
        onpointerdown(event) {
          event.preventDefault();
          group.focus();
          group.setPointerCapture(event.pointerId);
          group.dataset.held = "yes";
        },
        onpointermove(event) {
          if (group.dataset.held !== "yes") return;
          const box = circle.getBoundingClientRect();
          turn(j, Math.atan2(box.top + box.height / 2 - event.clientY,
            event.clientX - box.left - box.width / 2) * 180 / Math.PI);
        },
        onpointerup() { group.dataset.held = ""; },
        onpointercancel() { group.dataset.held = ""; },
      }, line, dot, text);
      return { group, line, dot, text };
    });
    circle.replaceChildren(
      svg("circle", { class: "lt-ring", cx: middle, cy: middle, r: R }),
      ...handles.map(({ group }) => group));
  }
  function drawCircle() {
    if (handles.length !== angles().length) makeHandles();
    const met = new Map();          // keys on one spot step inwards
    angles().forEach((angle, j) => {
      const before = met.get(angle) ?? 0;
      met.set(angle, before + 1);
      const { group, line, dot, text } = handles[j];
      const [x, y] = place(angle, R - 24 * before);
      const [tx, ty] = before ? [x, y + 25] : place(angle, R + 23);
      for (const [node, at] of [[line, { x2: x, y2: y }],
                                [dot, { cx: x, cy: y }],
                                [text, { x: tx, y: ty }]]) {
        for (const [name, value] of Object.entries(at)) {
          node.setAttribute(name, value);
        }
      }
      group.setAttribute("aria-valuenow", angle);
      group.setAttribute("aria-valuetext", `${angle}°`);
      group.classList.toggle("lt-picked", j === model.get("chosen"));
    });
  }

  // -- the numbers --
  const table = h("div");
  let drawn = "";
  function drawTable(reads) {
    const n = angles().length;
    const shape = `${n}`;
    if (shape !== drawn) {
      drawn = shape;
      const number = (part, j, label, accept) => {
        const input = field({ label, text: "",
                              symbol: part === "values" ? "v" : "k", accept });
        input.dataset.part = part;
        return input;
      };
      table.replaceChildren(scroller(h("table", { class: "lt-tokens lt-records" },
        h("caption", { text: "What each key reads back; the error below" }),
        h("thead", {}, h("tr", {}, ...["key", "angle", "value",
          ...Object.values(RULES).map(([, , label]) => label)].map((text) =>
          h("th", { scope: "col", text })))),
        h("tbody", {}, ...angles().map((_, j) => h("tr", {},
          h("th", { scope: "row", text: `k${sub(j + 1)}` }),
          h("td", {}, number("angles", j, `Angle of key ${j + 1}`,
            (text) => {
              const { value, why: bad } = parseNumber(text);
              const degrees = bad ? 0 : exact.number(value);
              const reason = bad ? `Angle of key ${j + 1}: ${bad}.` :
                Number.isInteger(degrees) ? "" : `Angle of key ${j + 1}: ` +
                  `whole degrees only. It stays ${angles()[j]}.`;
              refused(reason);
              if (!reason) turn(j, degrees);
              return reason;
            })),
          h("td", {}, number("values", j, `Value of key ${j + 1}`,
            (text) => {
              const { why: bad } = parseNumber(text);
              const reason = bad ? `Value of key ${j + 1}: ${bad}. It ` +
                `stays ${model.get("values")[j]}.` : "";
              refused(reason);
              if (!reason) {
                save({ values: model.get("values").map(
                  (old, i) => i === j ? text.trim() : old) });
              }
              return reason;
            })),
          ...Object.keys(RULES).map(() => h("td", {
            class: "lt-hue lt-o" })))))), "What each key reads back"));
    }
    [...table.querySelectorAll("tbody tr")].forEach((row, j) => {
      row.className = j === model.get("chosen") ? "lt-mark-read" : "";
      for (const input of row.querySelectorAll("input")) {
        if (input.getAttribute("aria-invalid") !== "true") {
          input.value = model.get(input.dataset.part)[j];
        }
      }
      const value = numbers()[j];
      Object.keys(RULES).forEach((rule, i) => {
        const read = reads[rule][j];
        row.children[3 + i].replaceChildren(
          read === null ? "none" : short(read),
          h("small", { text: read === null ? "z·k ≤ 0" :
            Math.abs(read - value) < 5e-4 ? "exact" :
            `off ${short(read - value)}` }));
      });
    });
  }

  // -- the curves --
  const plot = h("div", { class: "lt-plot" });
  function drawPlot() {
    const j = model.get("chosen"), values = numbers();
    const width = Math.max(260, Math.min(plot.clientWidth || 420, 620));
    const height = 220, left = 40, right = 88, top = 12, bottom = 40;
    const steps = Array.from({ length: 181 }, (_, i) => 2 * i);
    const at = steps.map((angle) => memories(
      angles().map((a, i) => i === j ? angle : a), values,
      model.get("passes")));
    const curves = Object.fromEntries(Object.keys(RULES).map((rule) =>
      [rule, at.map((reads) => rms(reads[rule], values))]));
    const spread = Math.max(...curves.additive, ...curves.delta);
    const most = spread > 1e-9 ? 1.15 * spread : 1;
    const X = (angle) => left + angle / 360 * (width - left - right);
    const Y = (y) => top + (1 - Math.min(y, most) / most) *
                           (height - top - bottom);
    const text = (x, y, content, anchor = "middle") => {
      const node = svg("text", { x, y, "text-anchor": anchor });
      node.textContent = content;
      return node;
    };
    const parts = [0, 90, 180, 270, 360].flatMap((angle) => [
      svg("line", { class: "lt-grid", x1: X(angle), x2: X(angle), y1: top,
                    y2: height - bottom }),
      text(X(angle), height - bottom + 16, `${angle}°`)]);
    for (const y of [0, most / 2, most]) {
      parts.push(text(left - 5, Y(y) + 4, short(+y.toPrecision(2)), "end"));
    }
    parts.push(text((left + width - right) / 2, height - 4,
                    `angle of k${sub(j + 1)}`),
      svg("line", { class: "lt-here", x1: X(angles()[j]), x2: X(angles()[j]),
                    y1: top, y2: height - bottom }));
    const ends = [];
    for (const [rule, [hue, dash, label]] of Object.entries(RULES)) {
      let run = [];
      const runs = [run];
      curves[rule].forEach((y, i) => {
        if (y === null || y > most) { run = []; runs.push(run); } else {
          run.push(`${X(steps[i])},${Y(y)}`);
        }
      });
      for (const points of runs.filter((r) => r.length > 1)) {
        parts.push(svg("polyline", { class: "lt-curve",
          points: points.join(" "), style: `stroke: var(--lt-${hue})`,
          "stroke-dasharray": dash }));
      }
      const last = curves[rule].findLastIndex((y) => y !== null && y <= most);
      ends.push({ label, hue, dash,
                  y: last < 0 ? top : Y(curves[rule][last]) });
    }
    ends.sort((a, b) => a.y - b.y);
    ends.forEach((end, i) => {
      if (i) end.y = Math.max(end.y, ends[i - 1].y + 15);
    });
    const over = Math.max(0, ends.at(-1).y - (height - bottom));
    for (const { label, hue, dash, y } of ends) {
      parts.push(svg("line", { class: "lt-curve", x1: width - right + 3,
        x2: width - right + 17, y1: y - over, y2: y - over,
        style: `stroke: var(--lt-${hue})`, "stroke-dasharray": dash }),
        text(width - right + 20, y - over + 4, label, "start"));
    }
    plot.replaceChildren(
      h("p", { class: "lt-title", text: "Error of the reads (root mean square)" }),
      svg("svg", { width, height, role: "img", "aria-label":
        `Error of the three memories against the angle of key ${j + 1}` },
      ...parts));
  }

  // -- all of it --
  const says = h("p", { class: "lt-says", role: "status" });
  function draw() {
    const n = angles().length, values = model.get("values");
    const bad = !n || n > MOST_KEYS || values.length !== n ||
      !angles().every(Number.isInteger) ||
      values.some((text) => parseNumber(text).why) ||
      !(model.get("chosen") >= 0 && model.get("chosen") < n) ||
      !(model.get("passes") >= 1 && model.get("passes") <= MOST_PASSES);
    if (bad) {
      says.textContent = "These settings cannot be used.";
      return;
    }
    const reads = memories(angles(), numbers(), model.get("passes"));
    count.draw();
    passes.draw();
    example.value = "";
    drawCircle();
    drawTable(reads);
    drawPlot();
    const words = `${n} key${n === 1 ? "" : "s"} in two dimensions. Error: ` +
      Object.entries(RULES).map(([rule, [, , label]]) => {
        const error = rms(reads[rule], numbers());
        return `${label} ${error === null ? "has no read (its weights sum " +
          "to zero or less)" : error < 5e-4 ? "0" : short(error)}`;
      }).join(", ") + ".";
    if (says.textContent !== words) says.textContent = words;
  }

  const root = h("div", { class: "lt lt-interference", role: "group",
                          "aria-label": "Interference" },
    h("div", { class: "lt-bar" },
      button("Reset", () => { refused(""); save(opened); }), example),
    says,
    h("div", { class: "lt-roads" },
      h("div", { class: "lt-card" },
        h("p", { class: "lt-title", text: "Drag a key, or use the arrows" }),
        circle,
        h("div", { class: "lt-sizes" }, count.node, passes.node), why),
      h("div", { class: "lt-card" }, table, plot)));
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
  const changed = () => { if (!saving) draw(); };
  const watched = names.map((name) => `change:${name}`).join(" ");
  model.on(watched, changed);
  return () => { observer.disconnect(); model.off(watched, changed); };
}

export { memories, rms };
export default { render };
