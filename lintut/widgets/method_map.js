// The map: what a method changes in softmax attention, and whether two methods
// can work in one model.

const VERDICTS = {
  yes: "✔ They combine.",
  no: "✘ One or the other.",
  idea: "◐ Not the algorithm, but its idea.",
  one: "⊂ One contains the other.",
};

/** [verdict, why] for two methods, from the pairs or else their kinds. */
function together({ methods, pairs, kinds }, a, b) {
  const joined = (x, y) => [x, y].sort().join("+");
  return pairs[joined(a, b)] ??
    kinds[joined(methods[a].kind, methods[b].kind)];
}

function render({ model, el }) {
  const methods = model.get("methods");
  const data = { methods, pairs: model.get("pairs"),
                 kinds: model.get("kinds") };
  const says = h("p", { class: "lt-says", role: "status" });
  const place = h("div");

  const choose = (name, label, options) => {
    const node = h("select", { "aria-label": label, onchange() {
      model.set(name, node.value);
      model.save_changes();
      draw();
    } }, ...options.map(([value, text]) =>
      h("option", { value, text, selected: value === model.get(name) })));
    return node;
  };
  const names = Object.entries(methods).map(([key, { label }]) =>
    [key, label]);
  const first = choose("first", "method", names);
  const second = choose("second", "together with",
                        [["", "nothing else"], ...names]);

  function draw() {
    const chosen = [model.get("first"), model.get("second")]
      .filter((name, i, all) => name && all.indexOf(name) === i);
    first.value = model.get("first");
    second.value = model.get("second");
    const cell = (name, part) => {
      const text = methods[name].touches[part];
      return text ? { text, mark: "note" } :
                    { text: "as softmax", quiet: true };
    };
    place.replaceChildren(scroller(picture({
      caption: "Outlined: what the method changes.",
      head: [["", ...chosen.map((name) =>
        ({ text: methods[name].label, name: true }))]],
      body: Object.entries(model.get("parts")).map(([part, label]) =>
        [label, ...chosen.map((name) => cell(name, part))]),
    }), "the map"));
    if (chosen.length === 2) {
      const [verdict, why] = together(data, ...chosen);
      says.textContent = `${VERDICTS[verdict]} ${why}`;
    } else {
      const touched = Object.keys(methods[chosen[0]].touches)
        .map((part) => model.get("parts")[part]);
      says.textContent = `${methods[chosen[0]].label} changes ` +
        `${touched.join(" and ")}. Choose a second method to see whether ` +
        "they combine.";
    }
  }

  el.append(h("div", { class: "lt lt-method-map" },
    h("div", { class: "lt-bar" }, first, " together with ", second),
    says, place));
  draw();
  for (const name of ["first", "second"]) model.on(`change:${name}`, draw);
  return () => {
    for (const name of ["first", "second"]) model.off(`change:${name}`, draw);
  };
}

export { together };
export default { render };
