// Buttons that copy a link. Without this script, or the right to the clipboard, it can be selected.
(function () {
  "use strict";
  const { t } = window;
  document.querySelectorAll("[data-copies]").forEach((button) => { button.hidden = false; });
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copies]");
    if (!button) return;
    const field = document.getElementById(button.dataset.copies);
    field.select();
    let isCopied = false;
    try {
      await navigator.clipboard.writeText(field.value);
      isCopied = true;
    } catch {
      // Pages that aren't served by https have no clipboard but this one.
      isCopied = document.execCommand("copy");
    }
    button.textContent = isCopied ? t("Copied") : t("Press Ctrl+C");
    button.setAttribute("aria-live", "polite");
  });
})();
