// What a page is asked by tests/browser/accessible.py. Evaluated in the page, it leaves one object.
(function () {
  "use strict";
  const STOP = `a[href], button, input:not([type=hidden]), select, textarea, summary, iframe,
    [tabindex], [contenteditable], audio[controls], video[controls]`;
  const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/;
  const faults = [];
  const add = (kind, element, detail = "") => faults.push([kind, `${pathOf(element)} ${detail}`.trim()]);

  function pathOf(element) {
    if (!element) return "";
    const name = element.id ? `#${element.id}` : `${element.localName}.${element.className?.baseVal ?? element.className}`;
    const text = (element.getAttribute("aria-label") || element.textContent || element.name || "").trim();
    return `${element.parentElement?.id ? `#${element.parentElement.id} > ` : ""}${name} "${text.slice(0, 40)}"`;
  }

  const isShown = (element) => element.checkVisibility({ visibilityProperty: true });
  const isHidden = (element) => Boolean(element.closest(".visually-hidden")) || element.getBoundingClientRect().width <= 1;

  // --- colours

  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  function rgba(colour) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  }
  function luminance([red, green, blue]) {
    const [r, g, b] = [red, green, blue].map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  function contrast(one, other) {
    const [low, high] = [luminance(rgba(one)), luminance(rgba(other))].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  }
  function behind(element) {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (rgba(colour)[3] > 0.99) return colour;
    }
    return getComputedStyle(document.documentElement).colorScheme === "dark" ? "black" : "white";
  }

  // Between two colours of the page, by name.
  function between(one, other) {
    const style = getComputedStyle(document.documentElement);
    return contrast(style.getPropertyValue(`--${one}`), style.getPropertyValue(`--${other}`));
  }

  // --- by keyboard

  function stops() {
    const modal = document.querySelector("dialog:modal");
    const radios = new Set();
    return [...document.querySelectorAll(STOP)].filter((element) => {
      if (element.tabIndex < 0 || element.disabled || !isShown(element) || element.closest("[inert]")) return false;
      if (element.matches("fieldset:disabled *")) return false;
      if (modal && !modal.contains(element)) return false;
      if (element.type !== "radio") return true;
      const name = `${element.form?.id}/${element.name}`;
      const group = [...document.querySelectorAll(`input[type=radio][name="${CSS.escape(element.name)}"]`)].filter((one) => one.form === element.form);
      if (group.some((one) => one.checked) && !element.checked) return false;
      if (radios.has(name)) return false;
      radios.add(name);
      return true;
    });
  }

  // The ring may be drawn around what the control is in: a radio button is as large as its label.
  function ringOf(element) {
    for (let at = element, steps = 0; at && steps < 3; at = at.parentElement, steps += 1) {
      const style = getComputedStyle(at);
      if (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1 && style.opacity !== "0") return [at, style];
    }
    return null;
  }

  function isObscured(element) {
    const shown = element.closest("label") && getComputedStyle(element).opacity === "0" ? element.closest("label") : element;
    const boxes = [...shown.getClientRects()].filter((box) => box.width > 0 && box.height > 0);
    if (!boxes.length) return true;
    return !boxes.some((box) => {
      const left = Math.max(box.left, 0), right = Math.min(box.right, innerWidth);
      const top = Math.max(box.top, 0), bottom = Math.min(box.bottom, innerHeight);
      if (right <= left || bottom <= top) return false;
      const xs = [left + 1, (left + right) / 2, right - 1], ys = [top + 1, (top + bottom) / 2, bottom - 1];
      return xs.some((x) => ys.some((y) => {
        const hit = document.elementFromPoint(x, y);
        return hit && (shown.contains(hit) || hit.contains(shown) && hit.closest("label, a, button, summary") === hit);
      }));
    });
  }

  let expected = new Set(), visited = [], started = null, isOver = false;

  // What has the focus when the next Tab comes, after all that the Tab before it caused.
  function look() {
    const element = document.activeElement;
    if (!element || element === document.body || element === document.documentElement) {
      isOver = visited.length > 0;
      return;
    }
    // A field for a date has several stops of its own.
    if (element === visited[visited.length - 1]) return;
    if (visited.includes(element)) { isOver = true; return; }
    visited.push(element);
    const ring = ringOf(element);
    if (!ring) add("no visible focus (2.4.7)", element);
    else if (!(ring[1].outlineStyle === "auto") && contrast(ring[1].outlineColor, behind(ring[0].parentElement)) < 3) {
      add("faint focus (1.4.11)", element, ring[1].outlineColor);
    }
    // A chart that was drawn meanwhile may have moved it out of the window, and not under a bar.
    element.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (isObscured(element)) add("focus is hidden (2.4.11)", element);
    if (element.tabIndex > 0) add("tabindex above 0 (2.4.3)", element);
  }
  function begin() {
    document.body.tabIndex = -1;
    document.body.focus();
    document.body.removeAttribute("tabindex");
    window.scrollTo(0, 0);
    expected = new Set(stops());
    visited = [];
    isOver = false;
    started = (event) => { if (event.key === "Tab") look(); };
    document.addEventListener("keydown", started, { capture: true });
    return expected.size;
  }
  function end() {
    document.removeEventListener("keydown", started, { capture: true });
    look();
    // What had something to scroll at first may have nothing now, and is no stop any more.
    const still = new Set(stops());
    const missed = [...expected].filter((element) => still.has(element) && !visited.includes(element) && isShown(element));
    missed.forEach((element) => add("can't be reached by Tab (2.1.1)", element));
    if (!isOver) add("Tab never comes back: a trap (2.1.2)", document.activeElement);
    for (let i = 1; i < visited.length; i += 1) {
      const passed = visited[i - 1].compareDocumentPosition(visited[i]);
      // A dialog that scrolls is itself a stop, where Tab begins again.
      if (passed & Node.DOCUMENT_POSITION_CONTAINS) continue;
      if (passed & Node.DOCUMENT_POSITION_PRECEDING) add("Tab goes backwards (2.4.3)", visited[i]);
    }
    return visited.length;
  }

  // --- what can be seen in the document

  function structure() {
    if (!document.documentElement.lang) add("no language (3.1.1)", document.documentElement);
    if (!document.title.trim()) add("no title (2.4.2)", document.documentElement);
    for (const part of document.querySelectorAll("table")) {
      if (isShown(part) && !part.closest(".response") && !part.querySelector("th")) add("table without heads (1.3.1)", part);
    }
    for (const part of document.querySelectorAll("table.data thead th, table.data thead td")) {
      if (!part.textContent.trim()) add("empty head (1.3.1)", part);
    }
    for (const part of document.querySelectorAll("svg, canvas, img")) {
      const isNamed = part.closest("[role=img], [aria-hidden=true]") || part.hasAttribute("alt") || part.closest("button, a")?.textContent.trim();
      if (isShown(part) && !isNamed) add("picture without a text (1.1.1)", part);
    }
    for (const part of document.querySelectorAll("figure.plot")) {
      if (!part.querySelector("table th")) add("plot without a table (1.1.1)", part);
      if (!part.querySelector("[role=img][aria-label]")) add("plot without a name (1.1.1)", part);
    }
    const help = document.querySelector("header.site [rel=help]");
    if (help && help.parentElement.firstElementChild !== help) add("help isn't where it always is (3.2.6)", help);
    for (const part of document.querySelectorAll("[draggable=true], [ondragstart]")) add("drag (2.5.7)", part);
    for (const part of document.querySelectorAll("[onpaste], input[type=password]:not([autocomplete$=password])")) add("password manager (3.3.8)", part);
    for (const part of document.querySelectorAll("main *, header *, dialog *")) {
      const pressed = getComputedStyle(part).cursor === "pointer" && getComputedStyle(part.parentElement).cursor !== "pointer";
      if (pressed && isShown(part) && !part.closest("a, button, summary, label, select, input")) add("only for a pointer (2.1.1)", part);
    }
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
      const holder = text.parentElement;
      if (!RIGHT_TO_LEFT.test(text.data) || holder.closest("script, style, template, option")) continue;
      if (!holder.closest("bdi, [dir]:not(html)")) add("direction of a part (1.3.2)", holder);
    }
  }

  function forms() {
    for (const list of document.querySelectorAll(".errorlist")) {
      if (list.classList.contains("nonfield") || !isShown(list)) continue;
      const field = list.closest(".field, fieldset, .criterion, td, p, form")?.querySelector("input:not([type=hidden]), select, textarea");
      const told = [...document.querySelectorAll("[aria-describedby], [aria-errormessage]")].filter((one) =>
        `${one.getAttribute("aria-describedby")} ${one.getAttribute("aria-errormessage")}`.split(" ").some((id) => id && document.getElementById(id)?.contains(list) || id && list.contains(document.getElementById(id))));
      if (!told.length) add("error without its field (3.3.1)", field ?? list, list.textContent.trim());
      else if (!told.some((one) => one.matches("[aria-invalid=true]") || one.querySelector("[aria-invalid=true]"))) add("field isn't marked invalid (3.3.1)", told[0]);
    }
    for (const field of document.querySelectorAll("[aria-describedby], [aria-labelledby], [aria-controls]")) {
      for (const name of ["aria-describedby", "aria-labelledby"]) {
        const ids = (field.getAttribute(name) ?? "").split(/\s+/).filter(Boolean);
        ids.filter((id) => !document.getElementById(id)).forEach((id) => add("refers to nothing (1.3.1)", field, id));
      }
    }
  }

  function edges() {
    const hasEdge = "input:not([type=hidden], [type=checkbox], [type=radio], [type=range], [type=file]), select, textarea, .option";
    for (const control of document.querySelectorAll(hasEdge)) {
      if (!isShown(control) || isHidden(control) || control.disabled || control.closest(".theme")) continue;
      const style = getComputedStyle(control);
      if (style.opacity === "0") continue;
      const outside = behind(control.parentElement);
      const best = Math.max(contrast(style.borderTopColor, outside), contrast(style.backgroundColor, outside));
      if (best < 3) add("faint edge (1.4.11)", control, best.toFixed(2));
    }
  }

  // What a person's own spacing cuts off (1.4.12), or makes wider than the window.
  function spacing() {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync("* { line-height: 1.5 !important; letter-spacing: .12em !important; word-spacing: .16em !important; } p { margin-bottom: 2em !important; }");
    document.adoptedStyleSheets.push(sheet);
    for (const part of document.querySelectorAll("body *")) {
      const style = getComputedStyle(part);
      const cuts = [style.overflowX, style.overflowY].map((one) => one === "hidden" || one === "clip");
      if (!cuts[0] && !cuts[1] || !isShown(part) || isHidden(part) || part.closest("svg, .fold, dialog") || !part.textContent.trim()) continue;
      // What is cut on purpose, with three dots, is whole elsewhere.
      if (style.clipPath !== "none" || style.textOverflow === "ellipsis" || style.webkitLineClamp !== "none") continue;
      const over = [cuts[0] && part.scrollWidth - part.clientWidth, cuts[1] && part.scrollHeight - part.clientHeight];
      if (Math.max(...over) > 1 && part !== document.body) add("spacing cuts text (1.4.12)", part, over);
    }
    const wide = document.documentElement.scrollWidth - innerWidth;
    if (wide > 0) add("spacing makes it too wide (1.4.12)", document.body, `${wide} px`);
    document.adoptedStyleSheets.pop();
  }

  // With less motion asked for, nothing moves.
  function motion() {
    for (const part of document.querySelectorAll("body, body *")) {
      const style = getComputedStyle(part);
      if (style.transitionDuration !== "0s" || style.animationName !== "none" || style.scrollBehavior === "smooth") add("moves (2.3.3)", part);
    }
  }

  window.__accessible = {
    stops, begin, end, between, structure, forms, edges, spacing, motion,
    isOver: () => isOver,
    faults: () => faults.splice(0),
  };
})();
