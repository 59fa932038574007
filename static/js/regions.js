// Code, tables and formulas that are wider than their column scroll; the keyboard has to reach them.
(function () {
  "use strict";
  const WIDE = "pre, table, .formula, math";

  function reach(response) {
    response.querySelectorAll(WIDE).forEach((part) => {
      if (part.scrollWidth > part.clientWidth + 1) part.tabIndex = 0;
      else part.removeAttribute("tabindex");
    });
  }

  // Also fires when a response is shown, is filled anew, or loses or gains width.
  const sizes = new ResizeObserver((entries) => entries.forEach((entry) => reach(entry.target)));

  function watch(root) {
    root.querySelectorAll(".response").forEach((response) => {
      sizes.observe(response);
      reach(response);
    });
  }
  watch(document);
  document.addEventListener("htmx:load", (event) => watch(event.detail.elt.parentElement || document));
})();
