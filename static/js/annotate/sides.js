// The two responses: tabs on a phone, the common fold, linked scrolling, raw text and differences.
(function () {
  "use strict";
  const { t } = window;
  const narrow = window.matchMedia("(max-width: 45rem)");
  const FOLD = 36; // rem, as in annotate.css
  const WORTH = 1.5; // a fold that hides a few lines only is a nuisance

  function fold(form) {
    const strip = form.querySelector(".sides");
    const limit = FOLD * parseFloat(getComputedStyle(document.documentElement).fontSize);
    const sides = [...form.querySelectorAll(".side")];
    const heights = sides.map((side) => side.querySelector(".response").scrollHeight);
    const isLong = Math.max(...heights) > WORTH * limit;
    strip.toggleAttribute("data-folded", isLong);
    sides.forEach((side, i) => { side.querySelector(".fold-end").hidden = !isLong || heights[i] <= limit; });
  }

  function unfold(form) {
    form.querySelector(".sides").removeAttribute("data-folded");
    form.querySelectorAll(".fold-end").forEach((end) => { end.hidden = true; });
  }

  function watchTabs(form) {
    const strip = form.querySelector(".sides");
    const tabs = new Map([...form.querySelectorAll(".side-tabs a")].map((tab) => [tab.hash.slice(1), tab]));
    const seen = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => {
      if (!isIntersecting || !narrow.matches) return;
      tabs.forEach((tab) => tab.removeAttribute("aria-current"));
      tabs.get(target.id).setAttribute("aria-current", "true");
      tabs.get(target.id).dataset.seen = "";
    }), { root: strip, threshold: 0.6 });
    form.querySelectorAll(".side").forEach((side) => seen.observe(side));
    tabs.forEach((tab, id) => tab.addEventListener("click", (event) => {
      event.preventDefault();
      strip.scrollTo({ left: form.querySelector(`#${id}`).offsetLeft - strip.offsetLeft });
    }));
  }

  function linkScroll(form, isLinked) {
    const bodies = [...form.querySelectorAll(".side-body")];
    let follower = null;
    bodies.forEach((body, i) => body.addEventListener("scroll", () => {
      if (!isLinked() || narrow.matches) return;
      // The echo of our own scrolling must not push back.
      if (follower === body) { follower = null; return; }
      const other = bodies[1 - i];
      const room = body.scrollHeight - body.clientHeight;
      const top = Math.round(room > 0 ? body.scrollTop / room * (other.scrollHeight - other.clientHeight) : 0);
      if (Math.abs(other.scrollTop - top) < 1) return;
      follower = other;
      other.scrollTop = top;
    }, { passive: true }));
  }

  // A chat that both responses continue begins at its last turn; what came before is above it.
  function toLastTurn(form) {
    const question = form.querySelector(".question");
    const last = question.querySelector(".chat > .turn + .turn:last-child");
    if (!last) return;
    const head = question.querySelector("h1").getBoundingClientRect().bottom;
    question.scrollTop += last.getBoundingClientRect().top - head;
  }

  // Both buttons are switches: pressed again, they give the rendered texts back.
  function viewer(form, say) {
    const buttons = [...form.querySelectorAll("[data-view]")];
    const parts = () => [...form.querySelectorAll("[data-part]")];
    const kept = new Map([["rendered", parts().map((part) => part.cloneNode(true))]]);
    const pressed = buttons.find((button) => button.getAttribute("aria-pressed") === "true");
    if (pressed) { kept.set(pressed.dataset.view, kept.get("rendered")); kept.delete("rendered"); }

    async function load(view) {
      const response = await fetch(`${form.dataset.url}/texts?view=${view}`);
      if (!response.ok || window.annotation.isLogin(response)) throw new Error(view);
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      kept.set(view, [...page.querySelectorAll("[data-part]")]);
    }

    return async function show(button) {
      const isOn = button.getAttribute("aria-pressed") !== "true";
      const view = isOn ? button.dataset.view : "rendered";
      try {
        if (!kept.has(view)) await load(view);
      } catch {
        say(t("The texts could not be loaded. Nothing is lost. Try again."), true);
        return;
      }
      parts().forEach((part, i) => part.replaceWith(kept.get(view)[i].cloneNode(true)));
      buttons.forEach((other) => other.setAttribute("aria-pressed", String(isOn && other === button)));
      fold(form);
      window.annotation.shown(form);
    };
  }

  // Wide code and tables are made reachable by regions.js, which listens for what htmx loads.
  function shown(form) {
    document.dispatchEvent(new CustomEvent("htmx:load", { detail: { elt: form } }));
  }

  function unseen(form) {
    if (!narrow.matches) return null;
    return form.querySelector(".side-tabs a:not([data-seen])");
  }

  function markChosen(form) {
    const value = form.querySelector("[name=overall]:checked")?.value ?? "";
    form.querySelectorAll(".side").forEach((side) => side.toggleAttribute("data-chosen", value.startsWith(side.dataset.side)));
  }

  Object.assign(window.annotation, { fold, unfold, watchTabs, linkScroll, toLastTurn, viewer, shown, unseen, markChosen });
})();
