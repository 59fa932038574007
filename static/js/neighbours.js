// Left and right arrow lead to the previous and the next example, unless a part of the page that
// uses these keys itself has the focus.
(function () {
  "use strict";
  const PLAIN = ["BODY", "MAIN", "A"];

  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey || event.defaultPrevented) return;
    const rel = { ArrowLeft: "prev", ArrowRight: "next" }[event.key];
    if (!rel || !PLAIN.includes(document.activeElement?.tagName ?? "BODY")) return;
    const link = document.querySelector(`.actions a[rel="${rel}"]`);
    if (!link) return;
    event.preventDefault();
    link.click();
  });
})();
