// Dialogs that ask for a name before something is destroyed, and images that a click enlarges.
(function () {
  "use strict";
  document.addEventListener("click", (event) => {
    if (!(event.target instanceof Element)) return;
    const opener = event.target.closest("[data-opens]");
    if (opener) document.getElementById(opener.dataset.opens)?.showModal();
    const closer = event.target.closest("[data-closes]");
    if (closer) document.getElementById(closer.dataset.closes)?.close();
    event.target.closest(".picture")?.toggleAttribute("data-large");
  });

  document.addEventListener("input", (event) => {
    const field = event.target;
    if (!(field instanceof HTMLInputElement) || !("mustEqual" in field.dataset)) return;
    const same = field.value.trim() === field.dataset.mustEqual.trim();
    field.setCustomValidity(same ? "" : "This doesn't match. Type the name exactly as shown.");
  });
})();
