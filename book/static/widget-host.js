// Runs the book's widgets in a page, with no kernel and no network.
//
// A widget's place is
//   <div class="lintut-widget" data-widget="stepper" data-state="{…}">
//     <table class="lintut-still">…</table>
//   </div>
// and lintutWidgets.register("stepper", moduleText) brings it to life: the
// module's default export is anywidget's { render({ model, el }) }.  The still
// table stays for print, and is what is left when the widget cannot start.

(() => {
  const modules = new Map();        // name → a promise of its default export

  // A Blob URL is the one kind of module that file:// pages may import too.
  async function load(text) {
    const blob = new Blob([text], { type: "text/javascript" });
    const url = URL.createObjectURL(blob);
    try {
      return (await import(url)).default;
    } finally {
      URL.revokeObjectURL(url);
    }
  }

  // What anywidget's modules ask of a model.  There is no kernel to save to:
  // a set is final, as far as this page goes.
  function makeModel(state) {
    const listeners = new Map();    // event → Set of functions
    const split = (events) => events.trim().split(/\s+/);
    const emit = (event, ...details) => {
      for (const listen of [...(listeners.get(event) ?? [])]) {
        listen(...details);
      }
    };
    const model = {
      get: (name) => state[name],
      set(name, value) {
        if (JSON.stringify(state[name]) === JSON.stringify(value)) return;
        state[name] = value;
        emit(`change:${name}`, model, value);
        emit("change", model);
      },
      save_changes() {},
      on(events, listen) {
        for (const event of split(events)) {
          if (!listeners.has(event)) listeners.set(event, new Set());
          listeners.get(event).add(listen);
        }
      },
      off(events, listen) {
        for (const event of events ? split(events) : [...listeners.keys()]) {
          if (listen) listeners.get(event)?.delete(listen);
          else listeners.delete(event);
        }
      },
    };
    return model;
  }

  async function mount(place) {
    place.dataset.live = "starting";
    const el = document.createElement("div");
    el.className = "lintut-live";
    try {
      place.model = makeModel(JSON.parse(place.dataset.state));
      const widget = await modules.get(place.dataset.widget);
      place.prepend(el);
      await widget.render({ model: place.model, el });
      place.dataset.live = "yes";
    } catch (error) {
      place.dataset.live = "failed";
      el.className = "lintut-failed";
      el.textContent = "The interactive version could not start here " +
        `(${error.message}). The table shows its final state.`;
      place.prepend(el);
    }
  }

  function mountAll() {
    const places = ".lintut-widget[data-widget]:not([data-live])";
    for (const place of document.querySelectorAll(places)) {
      if (modules.has(place.dataset.widget)) mount(place);
    }
  }

  window.lintutWidgets = {
    register(name, text) {
      const module = load(text);
      module.catch(() => {});       // each place reports it
      modules.set(name, module);
      if (document.readyState === "loading") {
        document.addEventListener("DOMContentLoaded", mountAll);
      } else {
        mountAll();
      }
    },
  };
})();
