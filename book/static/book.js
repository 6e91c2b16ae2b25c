// Boxes that scroll sideways can be reached and scrolled from the keyboard.
(() => {
  "use strict";
  const BOXES = "div.equation, .pst-scrollable-table-container, "
    + ".cell_output .output, .highlight pre";

  const watch = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });
  for (const box of document.querySelectorAll(BOXES)) watch.observe(box);
})();

// A page opened from a file may not fetch the pages that a search found, so
// their first lines are shown over http only.
if (location.protocol === "file:")
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// The theme's toggles in the table of contents say nothing to a screen reader.
for (const toggle of document.querySelectorAll(".bd-links summary")) {
  const chapter = toggle.closest("li").querySelector("a").textContent.trim();
  toggle.setAttribute("aria-label", `Below ${chapter}`);
}

// Paper is white: a dark page is printed as a light one.
(() => {
  "use strict";
  const page = document.documentElement.dataset;
  let theme;
  addEventListener("beforeprint", () => {
    theme ??= page.theme;
    page.theme = "light";
  });
  addEventListener("afterprint", () => {
    page.theme = theme ?? page.theme;
    theme = undefined;
  });
})();
