// The line above the choices that says what happened, what is safe and what to do.
(function () {
  "use strict";
  const { t } = window;
  const KEPT = t("What you entered is kept in this browser and will be sent automatically.");

  function say(text, isFailure = false, button = null) {
    const said = document.getElementById("said");
    said.textContent = text;
    if (isFailure) said.dataset.state = "failed"; else delete said.dataset.state;
    if (button) said.append(" ", button);
  }

  // What is tried again every few seconds is not announced every few seconds.
  function sayOnce(text) {
    if (document.getElementById("said").textContent !== text) say(text, true);
  }

  function link(text, href) {
    const made = document.createElement("a");
    made.textContent = text;
    made.href = href;
    return made;
  }

  const form = () => document.querySelector("form#item");
  const again = () => link(t("Log in again"), `${document.body.dataset.login}?next=${encodeURIComponent(form().dataset.url)}`);
  const onward = () => link(t("Continue"), form().dataset.next);

  // `safe` is what to know about what could not be sent.
  function explain(answer, safe = KEPT) {
    if (answer.state === "out") say(t("You are logged out. What you entered is kept in this browser."), true, again());
    else if (answer.state === "down") sayOnce(`${t("The server can't be reached.")} ${safe}`);
    else if (answer.state === "gone") say(t("This pair is no longer assigned to you. Your other votes are not affected."), true, onward());
    else say(answer.text, true, answer.status === 409 ? onward() : null);
  }

  Object.assign(window.annotation, { say, link, explain });
})();
