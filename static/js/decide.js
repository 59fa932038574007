// Decisions by keyboard, as on the annotator's screen: a key selects a side, Enter sends.
(function () {
  "use strict";
  const form = document.getElementById("decide");
  if (!form) return;
  const SETTLE = 250;
  const appeared = performance.now();
  const isText = (target) => target.matches?.("textarea, input:not([type=radio]), select");
  const isPressable = (target) => target.matches?.("button, a, summary");

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.altKey) return;
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      if (!event.repeat) form.requestSubmit();
      return;
    }
    if (event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape" && isText(event.target)) { event.target.blur(); return; }
    if (isText(event.target) || (event.key === "Enter" && isPressable(event.target))) return;
    const key = event.key.length === 1 ? event.key.toUpperCase() : event.key;
    // A key that was meant for the item before is not for this one.
    if (event.repeat || performance.now() - appeared < SETTLE) return;
    const radio = form.querySelector(`[name=choice][aria-keyshortcuts~="${CSS.escape(key)}"]`);
    const act = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
    const reason = form.elements.reason;
    if (radio) { radio.checked = true; radio.focus({ preventScroll: true }); }
    else if (key === "Enter") {
      if (reason && !reason.value.trim()) reason.focus(); else form.requestSubmit();
    } else if (reason && form.querySelector(`[data-focuses="${CSS.escape(key)}"]`)) reason.focus();
    else if (act) act.click();
    else return;
    event.preventDefault();
  });
})();
