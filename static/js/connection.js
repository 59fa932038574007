// A part of the page that could not be fetched says so, and says so no longer once it could.
(function () {
  "use strict";
  const { t } = window;
  function say(text) {
    const place = document.getElementById("messages");
    if (!place) return;
    clear();
    const notice = document.createElement("p");
    notice.id = "connection";
    notice.className = "notice error";
    notice.setAttribute("role", "alert");
    const what = document.createElement("strong");
    what.textContent = text[0];
    notice.append(what, ` ${text[1]}`);
    place.append(notice);
  }

  function clear() { document.getElementById("connection")?.remove(); }

  const refused = {
    401: [t("You are logged out."), t("Nothing is lost. Log in again, then reload this page.")],
    403: [t("This was refused."), t("Your session may have ended, or your role does not include it. Reload the page and try again.")],
    404: [t("This is no longer there."), t("Someone may have removed it. Reload the page.")],
    503: [t("The database can't be used at the moment."), t("What was stored is safe. Try again in a minute.")],
    413: [t("This is too large for the server."), t("Nothing was stored.")],
  };

  document.addEventListener("htmx:sendError", () => say([t("The server can't be reached."), t("What was stored is safe. This page continues automatically when the connection is back.")]));
  document.addEventListener("htmx:timeout", () => say([t("The server did not answer in time."), t("What was stored is safe. Try again in a moment.")]));
  document.addEventListener("htmx:responseError", (event) => say(refused[event.detail.xhr.status]
    || [t("The server failed."), t("What was stored is safe. Reload the page. If it fails again, tell the operator the time.")]));

  // When a session has ended the answer is the page for logging in, which belongs in no fragment.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr, isError } = event.detail;
    if (isError) return;
    const answered = xhr.responseURL ? new URL(xhr.responseURL).pathname : "";
    const login = document.body.dataset.login;
    if (answered === login && window.location.pathname !== login) {
      event.detail.shouldSwap = false;
      say(refused[401]);
    } else clear();
  });
})();
