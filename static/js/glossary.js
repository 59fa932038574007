// What a word of the glossary means, on hover, on focus, and on the first tap.
(function () {
  "use strict";
  const note = document.createElement("div");
  note.className = "term-note";
  note.id = "term-note";
  note.setAttribute("role", "tooltip");
  note.hidden = true;
  document.body.append(note);
  let shown = null;
  let leaving = 0;

  function place(word) {
    const box = word.getBoundingClientRect();
    const margin = 8;
    const left = Math.min(box.left, document.documentElement.clientWidth - note.offsetWidth - margin);
    const below = box.bottom + 6;
    const above = box.top - note.offsetHeight - 6;
    const top = below + note.offsetHeight > window.innerHeight && above > 0 ? above : below;
    note.style.left = `${Math.max(margin, left) + window.scrollX}px`;
    note.style.top = `${top + window.scrollY}px`;
  }

  function show(word) {
    clearTimeout(leaving);
    if (shown === word) return;
    hide();
    note.textContent = word.dataset.meaning;
    // A modal dialog is above everything else; its notes must live in it to be seen.
    (word.closest("dialog") || document.body).append(note);
    note.hidden = false;
    word.setAttribute("aria-describedby", note.id);
    shown = word;
    place(word);
  }

  function hide() {
    if (shown) shown.removeAttribute("aria-describedby");
    shown = null;
    note.hidden = true;
  }

  function word(event) { return event.target instanceof Element ? event.target.closest(".term-word") : null; }
  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    if (word(event)) show(word(event));
    else if (note.contains(event.target)) clearTimeout(leaving);
  });
  document.addEventListener("pointerout", (event) => {
    if (event.pointerType === "touch" || !(word(event) || note.contains(event.target))) return;
    clearTimeout(leaving);
    leaving = setTimeout(hide, 250);
  });
  document.addEventListener("focusin", (event) => { if (word(event)?.matches(":focus-visible")) show(word(event)); });
  document.addEventListener("focusout", (event) => { if (word(event)) hide(); });
  document.addEventListener("click", (event) => {
    const touched = event.pointerType === "touch" && word(event);
    if (touched && shown !== touched) { event.preventDefault(); show(touched); }
    else if (!touched && !note.contains(event.target)) hide();
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
})();
