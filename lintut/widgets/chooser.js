// The chooser: needs and limits in; what fits, what to mind, and why the
// others fell out.
//
// What a candidate can do is part of the state, as are the formulas of
// lintut.cost; this module only evaluates and shows them.

const SIZES = {
  N: "length N", d: "width d", heads: "heads", layers: "layers",
  batch: "sequences", w: "window w", n: "facts n",
};
const COSTS = {         // limit: what it limits
  memory: "state_bytes", time: "seconds", training: "saved_bytes",
};
const NEVER = 1000;     // a need unmet, as a limit missed that many times
const UNITS_OF = { memory: 2 ** 20, time: 1e-6, training: 2 ** 20 };

// ---- the arithmetic ----

/** Every candidate's costs; what it breaks (and how far) and what to mind. */
function assess({ formulas, candidates, rest }, { sizes, needs, limits },
                device) {
  const settings = { ...rest, ...sizes, d_v: sizes.d, r: sizes.d, heads: 1,
                     bytes: 2, on_chip: device.shared };
  const each = Object.fromEntries(Object.entries(formulas).map(([name, f]) =>
    [name, costOf(f, settings)]));
  return Object.fromEntries(Object.entries(candidates).map(([name, one]) => {
    const costs = {};
    for (const [part, formula] of Object.entries(one.parts)) {
      const times = evaluate(formula, sizes);
      for (const [metric, value] of Object.entries(each[part])) {
        costs[metric] = value === null ? null :
          (costs[metric] ?? 0) + value * times;
      }
    }
    costs.seconds = costs.decode_bytes === null ? null :
      costs.decode_bytes / device.bandwidth;
    const broken = [], minded = [];
    for (const need of needs) {
      const [, verdict, why] = one.facts[need].find(([when]) =>
        evaluate(when, { ...sizes, r: sizes.d }));
      if (verdict === "no") broken.push({ what: need, why, times: NEVER });
      if (verdict === "part") minded.push({ what: need, why });
    }
    for (const [limit, most] of Object.entries(limits)) {
      if (most === null) continue;
      const value = costs[COSTS[limit]], times = value / most /
        UNITS_OF[limit];
      if (value === null) {
        broken.push({ what: limit, times: NEVER,
                      why: "It cannot decode token by token." });
      } else if (times > 1) {
        broken.push({ what: limit, times, why: over(limit, value, times) });
      }
    }
    return [name, { costs, broken, minded }];
  }));
}

const over = (limit, value, times) => {
  const unit = limit === "time" ? "seconds" : "bytes";
  const doing = { memory: "Between tokens", time: "A token",
                  training: "For the backward pass" }[limit];
  const factor = times < 10 ? times.toFixed(2) : Math.round(times);
  return `${doing} it takes ${amount(value, unit)}, ` +
         `${factor} times the limit.`;
};

/** The candidates that break something, the nearest miss first. */
function misses(all) {
  const far = ({ broken }) => broken.reduce((far, { times }) => far * times, 1);
  return Object.keys(all).filter((name) => all[name].broken.length)
    .sort((a, b) => all[a].broken.length - all[b].broken.length ||
                    far(all[a]) - far(all[b]));
}

/** Those that fit, the least state first. */
const fits = (all) => Object.keys(all)
  .filter((name) => !all[name].broken.length)
  .sort((a, b) => (all[a].costs.state_bytes ?? Infinity) -
                  (all[b].costs.state_bytes ?? Infinity));

// ---- the widget ----

function render({ model, el }) {
  const get = (name) => model.get(name);
  const put = (name, value) => {
    why.textContent = "";
    model.set(name, value);
    model.save_changes();
    draw();
  };
  const why = h("p", { class: "lt-why", role: "alert" });
  const says = h("p", { class: "lt-says", role: "status" });
  const table = h("div"), mind = h("ul", { class: "lt-reads" });
  const out = h("ul", { class: "lt-reads" });
  const { needs: needWords, limits: limitWords } = get("words");
  const labelOf = (name) => get("candidates")[name].label;

  // ---- controls ----

  /** A field for a whole number, which `keep(n)` takes. */
  const whole = (label, most, now, keep) => {
    const input = field({ label, text: String(now()), accept(text) {
      const n = /^\d{1,10}$/.test(text.trim()) ? Number(text) : NaN;
      if (1 <= n && n <= most) { keep(n); return ""; }
      const reason = `${label} must be a whole number from 1 to ` +
        `${most.toLocaleString("en")}; “${text.slice(0, 20)}” is not. It ` +
        `stays ${now()}.`;
      why.textContent = reason;
      return reason;
    } });
    return input;
  };
  const sizeFields = Object.fromEntries(Object.entries(SIZES).map(
    ([name, label]) => [name, whole(label, get("most")[name],
      () => get("sizes")[name],
      (n) => put("sizes", { ...get("sizes"), [name]: n }))]));

  const needBoxes = Object.fromEntries(Object.entries(needWords).map(
    ([name, label]) => {
      const box = h("input", { type: "checkbox", onchange() {
        const now = new Set(get("needs"));
        if (box.checked) now.add(name); else now.delete(name);
        put("needs", Object.keys(needWords).filter((key) => now.has(key)));
      } });
      return [name, { box, node: h("label", {}, box, ` ${label}`) }];
    }));

  // What a limit was before its box was cleared.
  const last = { memory: 64, time: 100, training: 8192 };
  const limitRows = Object.fromEntries(Object.entries(limitWords).map(
    ([name, label]) => {
      const set = (n) => put("limits", { ...get("limits"), [name]: n });
      const input = whole(label, 1e9, () => get("limits")[name] ?? last[name],
                          (n) => { last[name] = n; set(n); });
      const box = h("input", { type: "checkbox", "aria-label":
        `limit: ${label}`, onchange: () => set(box.checked ? last[name] :
                                                             null) });
      return [name, { box, input, node: h("span", { class: "lt-size" },
        h("label", {}, box, ` ${label}, at most `), input) }];
    }));

  const select = (label, options, onchange) => {
    const node = h("select", { "aria-label": label,
                               onchange: () => onchange(node.value) },
      ...Object.entries(options).map(([value, text]) =>
        h("option", { value, text })));
    return node;
  };
  const names = (table) => Object.fromEntries(Object.keys(table).map(
    (name) => [name, name]));
  const device = select("GPU", names(get("devices")),
                        (value) => put("device", value));
  const preset = select("what for", { "": "Examples …",
                                      ...names(get("presets")) }, (name) => {
    if (!name) return;
    const { needs, limits } = get("presets")[name];
    model.set("limits", { memory: null, time: null, training: null,
                          ...limits });
    put("needs", needs);
  });

  // ---- drawing ----

  function draw() {
    const state = { sizes: get("sizes"), needs: get("needs"),
                    limits: get("limits") };
    for (const [name, input] of Object.entries(sizeFields)) {
      if (input.getAttribute("aria-invalid") !== "true") {
        input.value = state.sizes[name];
      }
    }
    for (const [name, { box }] of Object.entries(needBoxes)) {
      box.checked = state.needs.includes(name);
    }
    for (const [name, { box, input }] of Object.entries(limitRows)) {
      const most = state.limits[name];
      box.checked = most !== null;
      last[name] = most ?? last[name];
      if (input.getAttribute("aria-invalid") !== "true") {
        input.value = last[name];
      }
    }
    device.value = get("device");
    preset.value = "";
    const all = assess({ formulas: get("formulas"), rest: get("rest"),
                         candidates: get("candidates") },
                       state, get("devices")[get("device")]);
    const good = fits(all), bad = misses(all);
    const count = `${good.length} of ${good.length + bad.length} fit`;
    const near = bad.length ? ` Nearest miss: ${labelOf(bad[0])}. ` +
      all[bad[0]].broken.map(({ why }) => why).join(" ") : "";
    says.textContent = (good.length ? `${count}, the least state first.` :
      "Nothing fits.") + near;
    drawTable(good, all);
    mind.replaceChildren(...good.filter((name) => all[name].minded.length)
      .map((name) => h("li", {}, "◐ ", h("b", { text: labelOf(name) }),
        ": ", all[name].minded.map(({ what, why }) =>
          `${needWords[what]}? ${why}`).join(" "))));
    out.replaceChildren(...bad.map((name) => h("li", {}, "✘ ",
      h("b", { text: labelOf(name) }), ": ",
      all[name].broken.map(({ why }) => why).join(" "))));
  }

  function drawTable(good, all) {
    const cell = (x, unit) => x === null ? "–" : amount(x, unit);
    table.replaceChildren(scroller(picture({
      caption: "What fits. All layers, the attention core alone, 16-bit " +
               "numbers; the time is what reading takes at the GPU's " +
               "bandwidth.",
      head: [headings(["", "between tokens", "a token", "whole sequence",
                       "kept to train"])],
      body: good.map((name) => {
        const { costs, minded } = all[name];
        return [`${minded.length ? "◐" : "✔"} ${labelOf(name)}`,
                cell(costs.state_bytes, "bytes"),
                cell(costs.seconds, "seconds"),
                cell(costs.prefill_flops, "FLOP"),
                cell(costs.saved_bytes, "bytes")];
      }),
    }), "the candidates that fit"));
  }

  const watched = ["needs", "limits", "sizes", "device"];
  const group = (label, ...children) => h("div",
    { role: "group", "aria-label": label },
    h("p", { class: "lt-title", text: label }), ...children);
  el.append(h("div", { class: "lt lt-explorer lt-chooser" },
    h("div", { class: "lt-bar" }, resetter(model, watched, why), preset,
      h("label", {}, "on ", device)),
    h("div", { class: "lt-pair" },
      group("It must …", h("div", { class: "lt-knobs" },
        ...Object.values(needBoxes).map(({ node }) => node))),
      group("And stay within …", h("div", { class: "lt-sizes" },
        ...Object.values(limitRows).map(({ node }) => node)))),
    h("div", { class: "lt-sizes" }, ...Object.entries(SIZES).map(
      ([name, label]) => h("label", { class: "lt-size" }, `${label} `,
                           sizeFields[name]))),
    why, says, table, mind,
    h("p", { class: "lt-title", text: "What fell out, nearest first" }), out));
  draw();
  for (const name of watched) model.on(`change:${name}`, draw);
  return () => {
    for (const name of watched) model.off(`change:${name}`, draw);
  };
}

export { assess, misses, fits };
export default { render };
