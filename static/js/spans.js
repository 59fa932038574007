// Spans of a response's text: found in what is shown of it, and marked there.
// What is shown differs from the text: Markdown is laid out, and formulas are drawn. So the two are
// aligned by their letters. Places are counted in UTF-16 units here, and in code points elsewhere.
(function () {
  "use strict";
  // After a gap, a place is sure if as many letters are the same from there on.
  const SURE = [8, 3];
  const LONGEST_GAP = 400;
  // After a longer gap, such as a large formula, pieces of this length are looked for.
  const PIECE = 16;
  const MOST_PIECES = 400;
  const BLOCKS = "p, li, td, th, pre, h4, h5, h6, div, blockquote, dt, dd";
  const BLANK = /[\s\u200e\u200f\u202a-\u202e\u2066-\u2069]/;
  const LETTER = /[\p{L}\p{M}\p{N}]/u;
  // The stylesheet writes the numbers of a list.
  const LIST_NUMBERS = /^[ \t>*+-]*(\d{1,9})[.)](?=\s)/gm;

  // The letters and digits of a text, which laying it out keeps, and the place of each.
  function lettersIn(text) {
    const hidden = new Set();
    for (const found of text.matchAll(LIST_NUMBERS)) {
      const start = found.index + found[0].length - 1 - found[1].length;
      for (let i = 0; i < found[1].length; i += 1) hidden.add(start + i);
    }
    const places = [];
    const letters = [];
    let i = 0;
    for (const letter of text) {
      if (LETTER.test(letter) && !hidden.has(i)) {
        for (let unit = 0; unit < letter.length; unit += 1) { places.push(i + unit); letters.push(letter[unit]); }
      }
      i += letter.length;
    }
    return { letters: letters.join(""), places };
  }

  // The smallest gap in both after which they go on alike. What is written and not shown comes first.
  function gap(shown, i, text, j) {
    for (const enough of SURE) {
      for (let size = 1; size <= LONGEST_GAP; size += 1) {
        for (let a = 0; a <= size; a += 1) {
          const b = size - a;
          if (i + a >= shown.length || j + b >= text.length || shown[i + a] !== text[j + b]) continue;
          const sure = Math.min(enough, shown.length - i - a, text.length - j - b);
          if (shown.startsWith(text.slice(j + b, j + b + sure), i + a)) return [a, b];
        }
      }
    }
    for (let n = 1; n <= MOST_PIECES; n += 1) {
      const a = n * PIECE;
      if (i + a + PIECE > shown.length) return null;
      const found = text.indexOf(shown.slice(i + a, i + a + PIECE), j);
      if (found >= 0) return [a, found - j];
    }
    return null;
  }

  // Signs between two letters that are found, in the order in which they come.
  function alignSigns(at, shown, from, to, text, start, end) {
    let j = start;
    for (let i = from; i < to; i += 1) {
      if (BLANK.test(shown[i])) continue;
      const found = text.slice(j, end).indexOf(shown[i]);
      if (found >= 0) { at[i] = j + found; j += found + 1; }
    }
  }

  // Where each unit of what is shown is in the text; -1 if it isn't in it.
  function align(shown, text) {
    const at = new Int32Array(shown.length).fill(-1);
    const [one, two] = [lettersIn(shown), lettersIn(text)];
    let i = 0; let j = 0; let seen = 0; let read = 0;
    while (i < one.letters.length && j < two.letters.length) {
      if (one.letters[i] === two.letters[j]) {
        const [here, there] = [one.places[i], two.places[j]];
        alignSigns(at, shown, seen, here, text, read, there);
        at[here] = there;
        [seen, read] = [here + 1, there + 1];
        i += 1; j += 1;
      } else {
        const skipped = gap(one.letters, i, two.letters, j);
        if (!skipped) break;
        i += skipped[0]; j += skipped[1];
      }
    }
    alignSigns(at, shown, seen, shown.length, text, read, text.length);
    return at;
  }

  // The text nodes of a part, and what they show, with a line break between blocks.
  function lettersOf(part) {
    const nodes = [];
    const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    let shown = ""; let last = null;
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node.parentElement.closest("[data-who]")) continue;
      const block = node.parentElement.closest(BLOCKS);
      if (block !== last && shown) shown += "\n";
      last = block;
      nodes.push({ node, from: shown.length, isDrawn: Boolean(node.parentElement.closest("math")) });
      shown += node.data;
    }
    return { nodes, shown };
  }

  const aligned = new WeakMap();
  function mapOf(part, text) {
    const { nodes, shown } = lettersOf(part);
    let kept = aligned.get(part);
    if (!kept || kept.shown !== shown || kept.text !== text) {
      kept = { shown, text, at: align(shown, text), drawn: new Uint8Array(shown.length) };
      // A formula is one thing: its letters stand in another order and among others.
      nodes.filter(({ isDrawn }) => isDrawn).forEach(({ node, from }) => {
        kept.at.fill(-1, from, from + node.data.length);
        kept.drawn.fill(1, from, from + node.data.length);
      });
      aligned.set(part, kept);
    }
    return { nodes, shown, at: kept.at, drawn: kept.drawn };
  }

  // What a range covers of a part, as places in what is shown; null for nothing.
  function covered({ nodes, shown }, range) {
    let from = shown.length; let to = 0;
    for (const { node, from: start } of nodes) {
      if (!range.intersectsNode(node)) continue;
      const first = node === range.startContainer ? range.startOffset : 0;
      const last = node === range.endContainer ? range.endOffset : node.data.length;
      if (last <= first) continue;
      from = Math.min(from, start + first);
      to = Math.max(to, start + last);
    }
    return from < to && shown.slice(from, to).trim() ? [from, to] : null;
  }

  // A formula is taken whole: everything between its neighbours.
  function toText({ at, drawn }, text, [from, to]) {
    let start = -1; let end = -1;
    for (let i = from; i < to; i += 1) if (at[i] >= 0) { if (start < 0) start = at[i]; end = at[i] + 1; }
    if (start < 0 || drawn[from]) {
      let before = from;
      while (before >= 0 && at[before] < 0) before -= 1;
      start = before < 0 ? 0 : at[before] + 1;
    }
    if (end < 0 || drawn[to - 1]) {
      let after = to - 1;
      while (after < at.length && at[after] < 0) after += 1;
      end = after < at.length ? at[after] : text.length;
    }
    while (start < end && BLANK.test(text[start])) start += 1;
    while (start < end && BLANK.test(text[end - 1])) end -= 1;
    if (start > 0 && /[\udc00-\udfff]/.test(text[start] ?? "")) start -= 1;
    if (/[\ud800-\udbff]/.test(text[end - 1] ?? "")) end += 1;
    return start < end ? [start, end] : null;
  }

  function toShown({ at, drawn }, text, [start, end]) {
    let from = -1; let to = -1; let before = -1; let after = at.length;
    for (let i = 0; i < at.length; i += 1) {
      if (at[i] < 0) continue;
      if (at[i] < start) before = i;
      else if (at[i] >= end) after = Math.min(after, i);
      else { if (from < 0) from = i; to = i + 1; }
    }
    if (from < 0) return before + 1 < after ? [before + 1, after] : null;
    // A formula at an end, of which the span has the source.
    const has = (one, other) => LETTER.test(text.slice(one, other));
    for (let i = from - 1; i > before && has(start, at[from]); i -= 1) if (drawn[i]) { while (drawn[i - 1]) i -= 1; from = i; break; }
    for (let i = to; i < after && has(at[to - 1] + 1, end); i += 1) if (drawn[i]) { while (drawn[i + 1]) i += 1; to = i + 1; break; }
    return [from, to];
  }

  function unpaint(part) {
    part.querySelectorAll("mark.span").forEach((mark) => mark.replaceWith(...mark.childNodes));
    part.querySelectorAll("math[data-marked]").forEach((math) => { delete math.dataset.marked; });
    part.normalize();
  }

  // From the last to the first, so that the nodes before stay what they are.
  function wrap(nodes, [from, to], made) {
    let isLast = true; let last = null;
    for (let n = nodes.length - 1; n >= 0; n -= 1) {
      const { node, from: start } = nodes[n];
      const [first, end] = [Math.max(from - start, 0), Math.min(to - start, node.data.length)];
      if (first >= end || !node.data.slice(first, end).trim()) continue;
      const math = node.parentElement.closest("math");
      if (math) { math.dataset.marked = ""; continue; }
      if (end < node.data.length) node.splitText(end);
      const inside = first > 0 ? node.splitText(first) : node;
      const mark = made();
      inside.replaceWith(mark);
      mark.append(inside);
      if (isLast) mark.dataset.last = "";
      isLast = false;
      last = mark;
    }
    if (last) last.dataset.first = "";
  }

  // `places`: spans in the text, none over another, in order.
  function paint(part, text, places, made = () => Object.assign(document.createElement("mark"), { className: "span" })) {
    unpaint(part);
    if (!places.length) return;
    const map = mapOf(part, text);
    for (const place of [...places].reverse()) {
      const where = toShown(map, text, place);
      if (where) wrap(map.nodes, where, () => made(place));
    }
  }

  // Code points ↔ UTF-16 units. `starts` has the unit at which each code point begins.
  function pointsOf(text) {
    const starts = [];
    for (let i = 0; i < text.length; i += text.codePointAt(i) > 0xffff ? 2 : 1) starts.push(i);
    starts.push(text.length);
    const points = new Map(starts.map((unit, point) => [unit, point]));
    const last = starts.length - 1;
    return {
      unitOf: (point) => starts[Math.min(point, last)],
      pointOf: (unit) => points.get(unit) ?? points.get(unit - 1) ?? last,
    };
  }

  window.spans = { align, covered, mapOf, paint, pointsOf, toText };

  // --- pages that show what several people marked

  // Places where the same people marked, none over another.
  function apart(spans) {
    const ends = [...new Set(spans.flatMap(({ start, end }) => [start, end]))].sort((a, b) => a - b);
    return ends.slice(1).map((end, i) => {
      const here = spans.filter((span) => span.start < end && span.end > ends[i]);
      return Object.assign([ends[i], end], { who: [...new Set(here.map((span) => span.who))] });
    }).filter(({ who }) => who.length);
  }

  function markOf({ who }) {
    const mark = document.createElement("mark");
    mark.className = "span";
    mark.title = `Marked by ${who.join(", ")}`;
    mark.dataset.people = Math.min(who.length, 3);
    return mark;
  }

  function show(part) {
    const marked = document.getElementById(part.dataset.spans);
    if (!marked) return;
    const { text, spans } = JSON.parse(marked.textContent);
    const { unitOf } = pointsOf(text);
    const places = apart(spans.map((span) => ({ ...span, start: unitOf(span.start), end: unitOf(span.end) })));
    paint(part, text, places, markOf);
    part.querySelectorAll("mark.span[data-last]").forEach((mark) => {
      const said = document.createElement("span");
      said.className = "visually-hidden";
      said.dataset.who = "";
      said.textContent = ` (${mark.title.toLowerCase()}) `;
      mark.after(said);
    });
  }

  document.querySelectorAll("[data-spans]").forEach(show);
})();
