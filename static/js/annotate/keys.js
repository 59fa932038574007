// Keys: which row they answer, and what they do. Never in a text field, never on a repeat.
(function () {
  "use strict";
  const { groupsOf, isAnswered, CANT_JUDGE } = window.annotation;
  // Nobody has read a pair that has just appeared: the second press of a double one is not for it.
  const SETTLE = 300;
  // Keys that follow such a press without a pause are the same text, as of a comment.
  const PAUSE = 500;

  // A dialog that has just closed keeps the focus until the browser draws its next picture.
  function isGone(target) {
    return Boolean(target.closest("dialog:not([open])"));
  }

  function isText(target) {
    return target instanceof Element && !isGone(target) && Boolean(target.closest("textarea, select, [contenteditable], input:not([type=radio], [type=checkbox])"));
  }

  function isPressable(target) {
    return target instanceof Element && !isGone(target) && Boolean(target.closest("a, button, summary"));
  }

  // What is printed on the key, whatever alphabet the keyboard is set to, and with or without the
  // shift that some need for a digit.
  function nameOf(event) {
    const digit = !event.shiftKey && /^Digit(\d)$/.exec(event.code);
    if (digit) return digit[1];
    const latin = /^(?:Key([A-Z])|Digit(\d)|Numpad(\d))$/.exec(event.code);
    const key = event.key.length === 1 ? event.key.toUpperCase() : event.key;
    return latin && !/^[\x20-\x7e]$/.test(key) && key.length === 1 ? latin[1] ?? latin[2] ?? latin[3] : key;
  }

  function focusedGroup(form) {
    const groups = groupsOf(form);
    return groups.find((group) => "focused" in group.dataset) ?? groups[0];
  }

  function mark(form, group) {
    groupsOf(form).forEach((other) => { delete other.dataset.focused; });
    if (group) group.dataset.focused = "";
  }

  function markFirst(form) {
    const groups = groupsOf(form);
    mark(form, groups.find((group) => !isAnswered(group)) ?? groups.at(-1));
  }

  function focusRow(form, group) {
    mark(form, group);
    (group.querySelector("input:checked") ?? group.querySelector("input")).focus();
  }

  function step(form, by) {
    const groups = groupsOf(form);
    const next = groups[groups.indexOf(focusedGroup(form)) + by];
    if (next) focusRow(form, next);
  }

  function buttonOf(form, name) {
    return [...form.querySelectorAll("[role=radiogroup] [data-keys], [name=overall]")].find((radio) => radio.dataset.keys.split(" ").includes(name));
  }

  // True when the key is an answer; the row after it that is still open becomes the next one.
  function answer(form, name) {
    const button = buttonOf(form, name);
    if (!button) return false;
    // Who can't judge a pair answers no row. If the overall answer is derived, it is a row of none.
    const radioIn = (row) => row?.querySelector(`input[value="${CSS.escape(button.value)}"]`);
    let group = button.value === CANT_JUDGE ? button.closest("[role=radiogroup]") : focusedGroup(form);
    // A row of other answers leaves the key to the first row that has its answer.
    if (group && !radioIn(group)) {
      const rows = groupsOf(form).filter(radioIn);
      group = rows.find((row) => !isAnswered(row)) ?? rows.at(0);
    }
    const radio = group ? radioIn(group) : button;
    if (!radio) return false;
    radio.checked = radio.type === "radio" || !radio.checked;
    radio.focus();
    radio.dispatchEvent(new Event("change", { bubbles: true }));
    const groups = groupsOf(form);
    const open = groups.slice(groups.indexOf(group) + 1).find((other) => !isAnswered(other));
    if (open) focusRow(form, open);
    return true;
  }

  // `acts`: what each key does, by the usual key; `meant` tells which usual key was meant.
  window.annotation.listen = function listen({ form, appearedAt, isBusy, early, acts, meant, chosen }) {
    let hurried = -PAUSE;

    document.addEventListener("keydown", (event) => {
      if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.altKey || event.metaKey) return;
      if (document.querySelector("dialog[open]")) return;
      if (event.key === "Escape" && isText(event.target)) { event.target.blur(); return; }
      // A line above nothing would only hide what an empty box asks for.
      if (event.key === "Enter" && event.target.id === "comment" && !event.target.value) event.preventDefault();
      if (isText(event.target) || (event.key === "Enter" && isPressable(event.target))) return;
      const name = meant(nameOf(event));
      const now = performance.now();
      const isEarly = now - appearedAt() < SETTLE || now - hurried < PAUSE;
      if (isEarly && event.key.length === 1) hurried = now;
      if (isBusy() && name !== "?") { if (name in acts) event.preventDefault(); return; }
      const rows = groupsOf(form()).length > 1 && { ArrowUp: -1, ArrowDown: 1 }[name];
      const inRow = event.target.closest?.("[role=radiogroup]");
      if (rows && (inRow || event.target === document.body)) { event.preventDefault(); step(form(), rows); return; }
      const isAnswer = name && buttonOf(form(), name);
      if (!isAnswer && !acts[name]) return;
      event.preventDefault();
      if (event.repeat) return;
      if (isEarly) { if (name !== "Enter") early(); return; }
      if (isAnswer) { if (answer(form(), name)) chosen(); } else acts[name]();
    });
  };

  Object.assign(window.annotation, { mark, markFirst, focusRow, nameOf, SETTLE });
})();
