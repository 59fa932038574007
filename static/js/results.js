// Old links lead to their place: to the page that has it now, and into what is folded there.
(function () {
  "use strict";
  function open(place) {
    const target = place && document.getElementById(place);
    if (!target) return false;
    for (let at = target; at; at = at.parentElement) if (at instanceof HTMLDetailsElement) at.open = true;
    target.scrollIntoView();
    return true;
  }

  function go() {
    const place = decodeURIComponent(location.hash.slice(1));
    if (!place || open(place)) return;
    const links = Array.from(document.querySelectorAll(".rail a[data-places]"));
    const link = links.find((one) => one.dataset.places.split(" ").includes(place));
    if (link && !link.hasAttribute("aria-current")) location.replace(`${link.href}#${encodeURIComponent(place)}`);
  }

  async function copy(button) {
    const text = document.getElementById(button.dataset.copies).textContent;
    const said = button.closest(".panel").querySelector("[data-copied]");
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = "Copied.";
    } catch {
      getSelection().selectAllChildren(document.getElementById(button.dataset.copies));
      said.textContent = "The browser refused. The text is selected: press Ctrl+C.";
    }
  }

  for (const button of document.querySelectorAll("[data-copies]")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }
  window.addEventListener("hashchange", go);
  go();
})();
