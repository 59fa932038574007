// What a protocol may ask in addition: reasons, and marking text of the responses.
// Text is marked with the mouse, a finger or the keyboard. Marks belong to the form like any answer.
(function () {
  "use strict";
  const { covered, mapOf, paint, pointsOf, toText } = window.spans;
  const { say, unfold, nameOf } = window.annotation;
  const { t } = window;
  const MOST = 50;
  const LONGEST = 60;
  const HOW = t("Arrow keys move by word and by sentence, with Shift they extend. Enter marks, Esc ends.");
  const SIDES = ["left", "right"];

  let form = null; let meant = (name) => name;
  let texts = {}; let marks = {}; let points = {};
  // Where the keyboard marks: a side, its words, and the first and the last one that is chosen.
  let mode = null;
  let held = null;

  const field = (side) => form.elements[`spans-${side}`];
  const partOf = (side) => form.querySelector(`[data-part="${side}"]`);
  const bodyOf = (side) => form.querySelector(`#${side} .side-body`);
  const onSide = (side, left, right) => (side === "left" ? left : right);
  const asksSpans = () => Boolean(form?.querySelector("[data-mark]"));
  function announce(text) { document.getElementById("announcer").textContent = text; }

  // --- the marks of a pair

  function read(side) {
    return [...field(side).value.matchAll(/(\d+)-(\d+)/g)].map(([, start, end]) => [points[side].unitOf(+start), points[side].unitOf(+end)]);
  }

  function write(side) {
    field(side).value = marks[side].map((mark) => mark.map(points[side].pointOf).join("-")).join(",");
    field(side).dispatchEvent(new Event("input", { bubbles: true }));
  }

  function short(text) {
    const line = text.replace(/\s+/g, " ").trim();
    const letters = [...line];
    return letters.length > LONGEST ? `${letters.slice(0, LONGEST).join("")}…` : line;
  }

  function chip(side, mark) {
    const [item, quote, button] = ["li", "q", "button"].map((name) => document.createElement(name));
    quote.dir = "auto";
    quote.textContent = short(texts[side].slice(...mark));
    button.type = "button";
    button.textContent = "×";
    button.setAttribute("aria-label", onSide(side, t("Remove this mark from the left response: {text}", { text: quote.textContent }), t("Remove this mark from the right response: {text}", { text: quote.textContent })));
    button.addEventListener("click", () => remove(side, mark));
    item.append(`${onSide(side, t("L"), t("R"))} `, quote, button);
    item.title = onSide(side, t("Marked in the left response"), t("Marked in the right response"));
    return item;
  }

  function draw() {
    SIDES.forEach((side) => paint(partOf(side), texts[side], marks[side]));
    form.querySelector("[data-marks]").replaceChildren(...SIDES.flatMap((side) => marks[side].map((mark) => chip(side, mark))));
  }

  function remove(side, mark) {
    const buttons = () => [...form.querySelectorAll("[data-marks] button")];
    const place = buttons().indexOf(document.activeElement);
    marks[side] = marks[side].filter((other) => other !== mark);
    draw();
    write(side);
    announce(onSide(side, t("The mark is removed from the left response."), t("The mark is removed from the right response.")));
    (buttons()[Math.min(place, buttons().length - 1)] ?? form.querySelector("[data-mark]")).focus();
  }

  // A mark that meets others becomes one with them.
  function add(side, mark) {
    const apart = marks[side].filter(([start, end]) => end < mark[0] || start > mark[1]);
    const met = marks[side].filter((other) => !apart.includes(other));
    const all = [mark, ...met];
    const joined = [Math.min(...all.map(([start]) => start)), Math.max(...all.map(([, end]) => end))];
    if (apart.length >= MOST) { say(t("A response takes at most {n} marks. Remove one first.", { n: MOST }), true); return; }
    marks[side] = [...apart, joined].sort((a, b) => a[0] - b[0]);
    draw();
    write(side);
    announce(`${onSide(side, t("Marked in the left response"), t("Marked in the right response"))}: ${short(texts[side].slice(...joined))}`);
  }

  // --- what is selected with the mouse or a finger

  function rangeNow() {
    const selection = document.getSelection();
    return selection.rangeCount && !selection.isCollapsed ? selection.getRangeAt(0).cloneRange() : null;
  }

  function sideOf(range) {
    const inside = (node) => SIDES.find((side) => partOf(side).contains(node));
    const { anchorNode } = document.getSelection();
    return inside(anchorNode) ?? inside(range.startContainer) ?? inside(range.endContainer);
  }

  function markRange(range) {
    const side = sideOf(range);
    if (!side) { say(t("Select text in one of the responses to mark it."), true); return; }
    const map = mapOf(partOf(side), texts[side]);
    const where = covered(map, range);
    const mark = where && toText(map, texts[side], where);
    document.getSelection().removeAllRanges();
    if (!mark) { say(t("This is not part of the response's text, so it can't be marked."), true); return; }
    say("");
    add(side, mark);
  }

  function mark() {
    if (!asksSpans()) return;
    const range = rangeNow() ?? held;
    held = null;
    if (range && !mode) markRange(range); else begin(mode ? other(mode.side) : sideAtHand());
  }

  // --- the keyboard

  const other = (side) => SIDES.find((one) => one !== side);
  function sideAtHand() {
    const here = document.activeElement?.closest?.(".side")?.dataset.side;
    const tab = form.querySelector(".side-tabs a[aria-current]");
    return here ?? (tab?.offsetParent ? tab.hash.slice(1) : "left");
  }

  function segments(text, granularity) {
    if (!window.Intl?.Segmenter) return [...text.matchAll(granularity === "word" ? /[\p{L}\p{M}\p{N}]+/gu : /[^.!?\n]+[.!?]*/gu)].map((found) => [found.index, found.index + found[0].length]);
    const found = new Intl.Segmenter(form.lang || undefined, { granularity }).segment(text);
    return [...found].filter((one) => granularity !== "word" || one.isWordLike || /\p{Extended_Pictographic}/u.test(one.segment)).map(({ index, segment }) => [index, index + segment.length]);
  }

  function begin(side) {
    end();
    unfold(form);
    const map = mapOf(partOf(side), texts[side]);
    const words = segments(map.shown, "word").filter(([start]) => map.at[start] >= 0 || map.drawn[start]);
    if (!words.length) { say(onSide(side, t("The left response has no text to mark."), t("The right response has no text to mark.")), true); return; }
    const tab = form.querySelector(`.side-tabs a[href="#${side}"]`);
    if (tab?.offsetParent) tab.click();
    mode = { side, map, words, sentences: segments(map.shown, "sentence").map(([start]) => start), from: 0, to: 0 };
    const body = bodyOf(side);
    body.setAttribute("role", "application");
    body.dataset.marking = "";
    body.focus({ preventScroll: true });
    const where = onSide(side, t("Marking in the left response."), t("Marking in the right response."));
    say(`${where} ${HOW}`);
    choose(0, 0);
  }

  function end() {
    if (!mode) return;
    const body = bodyOf(mode.side);
    mode = null;
    body.setAttribute("role", "region");
    delete body.dataset.marking;
    document.getSelection().removeAllRanges();
    say("");
  }

  function boundary(nodes, place, isEnd) {
    for (let n = nodes.length - 1; n >= 0; n -= 1) {
      const { node, from } = nodes[n];
      if (isEnd ? from < place : from <= place) return [node, Math.min(place - from, node.data.length)];
    }
    return [nodes[0].node, 0];
  }

  // The native selection shows where the keyboard is. `to` may come before `from`.
  function choose(from, to) {
    Object.assign(mode, { from, to });
    const { map: { nodes, shown }, words, side } = mode;
    const [first, last] = [words[Math.min(from, to)], words[Math.max(from, to)]];
    const range = document.createRange();
    range.setStart(...boundary(nodes, first[0], false));
    range.setEnd(...boundary(nodes, last[1], true));
    const selection = document.getSelection();
    selection.removeAllRanges();
    selection.addRange(range);
    const [start, ending] = words[to];
    const focus = document.createRange();
    focus.setStart(...boundary(nodes, start, false));
    focus.setEnd(...boundary(nodes, ending, true));
    const [seen, body] = [focus.getBoundingClientRect(), bodyOf(side)];
    const room = body.getBoundingClientRect();
    if (seen.top < room.top) body.scrollTop -= room.top - seen.top + 8;
    else if (seen.bottom > room.bottom) body.scrollTop += seen.bottom - room.bottom + 8;
    announce(shown.slice(first[0], last[1]));
  }

  function isRightToLeft(place) {
    const [node] = boundary(mode.map.nodes, place, false);
    return getComputedStyle(node.parentElement).direction === "rtl";
  }

  // The first word of the sentence before or after the one that `place` is in.
  function sentenceFrom(place, by) {
    const { words, sentences } = mode;
    const here = sentences.findLastIndex((start) => start <= words[place][0]);
    const starts = sentences[Math.max(0, by > 0 || words[place][0] === sentences[here] ? here + by : here)];
    if (starts === undefined) return words.length - 1;
    const found = words.findIndex(([start]) => start >= starts);
    return found < 0 ? words.length - 1 : found;
  }

  function stepped(key) {
    const { words, to } = mode;
    const last = words.length - 1;
    const forward = isRightToLeft(words[to][0]) ? "ArrowLeft" : "ArrowRight";
    if (key === "ArrowLeft" || key === "ArrowRight") return Math.min(last, Math.max(0, to + (key === forward ? 1 : -1)));
    if (key === "ArrowDown" || key === "ArrowUp") return sentenceFrom(to, key === "ArrowDown" ? 1 : -1);
    return { Home: 0, End: last }[key];
  }

  function markChosen() {
    const { map, words, side, from, to } = mode;
    const [first, last] = [Math.min(from, to), Math.max(from, to)];
    const found = toText(map, texts[side], [words[first][0], words[last][1]]);
    if (!found) return;
    add(side, found);
    // Marking made new nodes.
    mode.map = mapOf(partOf(side), texts[side]);
    const next = Math.min(words.length - 1, last + 1);
    const heard = document.getElementById("announcer").textContent;
    choose(next, next);
    announce(heard);
  }

  document.addEventListener("keydown", (event) => {
    if (!mode || event.defaultPrevented || event.isComposing || event.ctrlKey || event.altKey || event.metaKey) return;
    if (document.querySelector("dialog[open]") || !bodyOf(mode.side).contains(event.target)) { end(); return; }
    if (event.key === "Escape") { event.preventDefault(); end(); return; }
    if (event.key === "Enter") { event.preventDefault(); if (!event.repeat) markChosen(); return; }
    const to = stepped(event.key);
    if (to === undefined) {
      if (event.key.length === 1 && meant(nameOf(event)) !== "M") end();
      return;
    }
    event.preventDefault();
    choose(event.shiftKey ? mode.from : to, to);
  }, { capture: true });

  // --- reasons: one group, in which the arrow keys move

  function reasons() { form.querySelector(".reasons input")?.focus(); }

  document.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const group = event.target.closest?.(".reasons");
    if (!by || !group || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const boxes = [...group.querySelectorAll("input")];
    const across = event.key === "ArrowLeft" || event.key === "ArrowRight";
    const step = across && getComputedStyle(group).direction === "rtl" ? -by : by;
    boxes[(boxes.indexOf(event.target) + step + boxes.length) % boxes.length].focus();
  });

  // --- wiring

  // Pressing the button would give up what is selected.
  document.addEventListener("pointerdown", (event) => {
    if (event.target.closest?.("[data-mark]")) held = rangeNow();
    else if (mode) end();
  }, { capture: true });
  document.addEventListener("mousedown", (event) => { if (event.target.closest?.("[data-mark]")) event.preventDefault(); });
  document.addEventListener("click", (event) => { if (event.target.closest?.("[data-mark]")) mark(); });
  // Raw text, differences and back again are other nodes.
  document.addEventListener("htmx:load", (event) => { if (event.detail.elt === form && asksSpans()) { end(); draw(); } });

  function start(made, key) {
    mode = null; held = null;
    form = made; meant = key;
    if (!asksSpans()) return;
    SIDES.forEach((side) => {
      texts[side] = JSON.parse(form.querySelector(`#text-${side}`).textContent);
      points[side] = pointsOf(texts[side]);
      marks[side] = read(side);
    });
    draw();
  }

  Object.assign(window.annotation, { more: { start, mark, reasons } });
})();
