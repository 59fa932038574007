// A person's own settings, and what they make of the keys on the page.
// A setting that can't be sent is kept in this browser for the same person, and sent later.
(function () {
  "use strict";
  const { post, explain, nameOf } = window.annotation;
  const { t } = window;
  const KEPT = "fairjudge-settings";

  const kept = {
    get() { try { return JSON.parse(localStorage.getItem(KEPT)); } catch { return null; } },
    put(value) { try { localStorage.setItem(KEPT, JSON.stringify(value)); } catch { /* this page only */ } },
    drop() { try { localStorage.removeItem(KEPT); } catch { /* nothing was stored */ } },
  };

  window.annotation.settings = function settings() {
    const form = document.querySelector("[data-preferences]");
    const isSet = (name) => Boolean(form?.elements[name]?.checked);
    const said = form?.querySelector("[data-settings-said]");

    function moved() {
      try { return JSON.parse(form.elements.keys.value || "{}"); } catch { return {}; }
    }
    // A usual key that another action was moved to is that action's.
    const keyOf = (place) => moved()[place] ?? (Object.values(moved()).includes(place) ? "" : place);

    // The usual key in whose place this one was pressed; longer names, such as Enter, never move.
    function meant(name) {
      if (name.length > 1) return name;
      if (isSet("no_letter_keys")) return "";
      return places().find((place) => keyOf(place) === name) ?? "";
    }
    const places = () => [...form.dataset.places];

    function show(root = document) {
      const isOff = isSet("no_letter_keys");
      root.querySelectorAll("kbd[data-key]").forEach((kbd) => {
        kbd.textContent = keyOf(kbd.dataset.key);
        kbd.hidden = isOff || !keyOf(kbd.dataset.key);
      });
      root.querySelectorAll("[data-keys]").forEach((part) => {
        const keys = isOff ? [] : part.dataset.keys.split(" ").map(keyOf).filter(Boolean);
        if (keys.length) part.setAttribute("aria-keyshortcuts", keys.join(" ")); else part.removeAttribute("aria-keyshortcuts");
      });
      form?.querySelectorAll("[data-moves]").forEach((field) => { field.value = keyOf(field.dataset.moves); });
    }

    function fields() {
      form.elements.serif.value = form.querySelector("[data-reading-switch] select").value === "serif" ? "on" : "";
      return [...new FormData(form).entries()].filter(([name, value]) => name !== "csrfmiddlewaretoken" && (value || name === "language"));
    }

    async function send(waiting) {
      const answer = await post(form.action, waiting.fields);
      if (answer.state === "down" || answer.state === "out") { kept.put(waiting); return answer; }
      kept.drop();
      return answer;
    }

    async function save(isOther = false) {
      const answer = await send({ person: form.dataset.person, fields: fields() });
      said.textContent = answer.state === "ok" ? "" : answer.state === "refused" ? answer.text
        : t("The setting applies on this page. It is kept in this browser and sent later.");
      // What was entered is kept, so that the page can come back in the other language.
      if (answer.state === "ok" && isOther) window.location.reload();
      if (answer.state !== "ok" && !form.closest("dialog").open) explain(answer, said.textContent);
    }

    async function resume() {
      const waiting = kept.get();
      if (waiting && waiting.person === form?.dataset.person) await send(waiting);
    }

    // What was set while the connection was away holds on the next page as well.
    function fillIn() {
      const waiting = kept.get();
      if (!waiting || waiting.person !== form.dataset.person) return;
      const values = new Map(waiting.fields);
      form.querySelectorAll("input[type=checkbox]").forEach((box) => { box.checked = values.has(box.name); });
      form.elements.keys.value = values.get("keys") ?? "{}";
      form.elements.serif.value = values.get("serif") ?? "";
      form.elements.language.value = values.get("language") ?? form.elements.language.value;
    }

    function move(place, key) {
      const other = key && places().find((one) => one !== place && keyOf(one) === key);
      if (other) { said.textContent = t("{key} is in use already. Move that action first.", { key }); show(); return; }
      const now = moved();
      if (key === place) delete now[place]; else now[place] = key;
      form.elements.keys.value = JSON.stringify(now);
      show();
      save();
    }

    function makeFields() {
      const part = form.querySelector("[data-change-keys]");
      const list = part.querySelector(".key-fields");
      document.querySelectorAll(".keys-list dt").forEach((term) => {
        term.querySelectorAll("kbd[data-key]").forEach((kbd) => {
          const label = document.createElement("label");
          const field = document.createElement("input");
          field.dataset.moves = kbd.dataset.key;
          field.maxLength = 2;
          field.autocomplete = "off";
          label.append(`${term.nextElementSibling.textContent} `, field);
          list.append(label);
        });
      });
      part.hidden = false;
      list.addEventListener("keydown", (event) => {
        if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
        const name = nameOf(event);
        if (name === "Backspace" || name === "Delete") { event.preventDefault(); move(event.target.dataset.moves, ""); return; }
        if (name === "Enter") event.preventDefault();
        if (name.length > 1 || name === " ") return;
        event.preventDefault();
        move(event.target.dataset.moves, name);
      });
      // Keyboards on glass, and those that write a sign from several keys.
      list.addEventListener("input", (event) => move(event.target.dataset.moves, [...event.target.value.trim()].at(-1)?.toUpperCase() ?? ""));
      form.querySelector("[data-reset-keys]").addEventListener("click", () => { form.elements.keys.value = "{}"; show(); save(); });
    }

    if (form) {
      fillIn();
      makeFields();
      form.addEventListener("change", (event) => {
        if (event.target.dataset.moves) return;
        show();
        save("language" in event.target.dataset);
      });
      form.addEventListener("submit", (event) => { event.preventDefault(); save(); });
      window.addEventListener("online", resume);
      resume();
    }
    return { isSet, meant, show, serif: () => form?.elements.serif.value === "on", reading: () => form?.querySelector("[data-reading-switch] select") };
  };
})();
