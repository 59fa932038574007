// The annotator's screen: submit, skip, go back, flag, and the next pair at once.
// Every post names its pair by a token. A vote stays in this browser until the server has it.
(function () {
  "use strict";
  const { votes, drafts, post, isLogin, clock, fieldsOf, fill, groupsOf, isAnswered, keeper } = window.annotation;
  const { fold, unfold, watchTabs, linkScroll, viewer, shown, unseen, markChosen } = window.annotation;
  const BEAT = 60_000;
  const AWAY = 10 * 60_000;
  const RETRY = 5000;

  let form = document.querySelector("form#item");
  if (!form?.dataset.url) return;
  const settings = document.querySelector("[data-preferences]");
  let keep; let show; let appearedAt; let ahead = null; let isBusy = false; let retry = 0;

  const base = () => form.dataset.url;
  const isSet = (name) => Boolean(settings?.elements[name]?.checked);

  function say(text, isFailure = false, button = null) {
    const said = document.getElementById("said");
    said.textContent = text;
    if (isFailure) said.dataset.state = "failed"; else delete said.dataset.state;
    if (button) said.append(" ", button);
  }

  function link(text, href) {
    const made = document.createElement("a");
    made.textContent = text;
    made.href = href;
    return made;
  }

  const again = () => link("Log in again", `${document.body.dataset.login}?next=${encodeURIComponent(base())}`);

  function explain(answer) {
    if (answer.state === "out") say("You are logged out. What you entered is kept here.", true, again());
    else if (answer.state === "down") say("The server can't be reached. What you entered is kept here and is sent by itself.", true);
    else if (answer.state === "gone") say("This pair is no longer yours. Nothing else of yours is affected.", true, link("Go on", form.dataset.next));
    else say(answer.text, true, answer.status === 409 ? link("Go on", form.dataset.next) : null);
  }

  // --- one pair

  function start(made) {
    form = made;
    keep = keeper(form, { onKept: kept, onLost: explain });
    show = viewer(form, say);
    appearedAt = performance.now();
    isBusy = false;
    const local = drafts.get(form.dataset.token) ?? votes.get(form.dataset.token);
    if (local) { fill(form, local.fields); keep.changed(); }
    fold(form);
    watchTabs(form);
    linkScroll(form, () => isSet("link_scroll"));
    markChosen(form);
    window.annotation.markFirst(form);
  }

  function kept() {
    if (document.getElementById("said").dataset.state === "failed") say("What you entered is stored.");
  }

  function enter(html) {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    const next = holder.content.querySelector("form#item");
    document.querySelector(".undo")?.remove();
    form.replaceWith(next);
    history.replaceState(null, "", next.dataset.url);
    ahead = null;
    start(next);
    shown(next);
    document.getElementById("question-head").focus({ preventScroll: true });
    document.getElementById("announcer").textContent = `Next pair: ${next.querySelector("[data-part=question]").textContent.slice(0, 200)}`;
  }

  async function fetchAhead() {
    const token = form.dataset.token;
    try {
      const response = await fetch(`${base()}/ahead`);
      if (response.status !== 200 || isLogin(response)) return;
      const html = await response.text();
      if (form.dataset.token === token && !votes.tokens().some((sent) => html.includes(`data-token="${sent}"`))) ahead = html;
    } catch { /* the next one is then fetched when it is needed */ }
  }

  // --- submitting

  function problem() {
    const side = unseen(form);
    if (side) return `Look at the ${side.textContent.trim().toLowerCase()} response first.`;
    const open = groupsOf(form).find((group) => !isAnswered(group));
    if (!open) return "";
    window.annotation.mark(form, open);
    return open.classList.contains("criterion")
      ? `Answer every row: ${open.querySelector(".name").textContent} is missing.`
      : "Choose which response is better, or a tie, before you submit.";
  }

  async function submit() {
    if (isBusy) return;
    const missing = problem();
    if (missing) { say(missing, true); return; }
    isBusy = true;
    const { token } = form.dataset;
    const fields = [...fieldsOf(form), ["seconds", clock.take()]];
    votes.put(token, { fields, url: form.action });
    const sent = keep.end().then(() => deliver(token));
    if (ahead) {
      enter(ahead);
      form.querySelector("[value=back]").disabled = false;
      if (await sent !== "waiting") fetchAhead();
      return;
    }
    say("Sending…");
    const became = await sent;
    if (became === "stored") { window.location.assign(form.dataset.next); return; }
    isBusy = false;
    keep.resume();
  }

  // Posting twice stores one vote, so that trying again is always safe.
  // What became of it: stored, dropped (others had voted, or the round is closed), or waiting.
  async function deliver(token) {
    const vote = votes.get(token);
    if (!vote) return "stored";
    const isHere = () => token === form.dataset.token;
    const answer = await post(vote.url, vote.fields);
    if (answer.state === "ok") {
      votes.drop(token);
      document.getElementById("own-progress").outerHTML = answer.text;
      return "stored";
    }
    // It may be that of somebody else who uses this browser, and waits for them.
    if (answer.state === "gone" && !isHere()) return "dropped";
    if (answer.state === "down") { clearTimeout(retry); retry = setTimeout(resume, RETRY); }
    if (answer.state !== "refused" || isHere()) explain(answer);
    else say(`The pair before: ${answer.text}`, true, link("Show it", vote.url.replace(/\/vote$/, "")));
    if (answer.state !== "refused") return "waiting";
    votes.drop(token);
    if (answer.status !== 409) drafts.put(token, { fields: vote.fields });
    return "dropped";
  }

  // False while one of the votes could not be sent.
  async function deliverAll() {
    const became = [];
    for (const token of votes.tokens()) {
      became.push(await deliver(token));
      if (became.at(-1) === "stored" && token === form.dataset.token) { window.location.assign(form.dataset.next); return false; }
    }
    const stored = became.filter((each) => each === "stored").length;
    if (stored === became.length && stored > 0) say(stored === 1 ? "The vote that was waiting is stored." : `${stored} votes that were waiting are stored.`);
    return !became.includes("waiting");
  }

  async function resume() {
    if (await deliverAll() && !ahead) fetchAhead();
  }

  // --- skip, back, flag

  async function skip() {
    const button = form.querySelector("[value=skip]");
    if (isBusy || !button) return;
    isBusy = true;
    const { token, next } = form.dataset;
    const skipped = base();
    const answer = await post(`${skipped}/skip`, [...fieldsOf(form), ["seconds", clock.take()]]);
    isBusy = false;
    if (answer.state !== "ok") { explain(answer); return; }
    keep.end();
    if (!ahead) { window.location.assign(`${next}?skipped=${token}`); return; }
    enter(ahead);
    const undo = document.createElement("button");
    undo.type = "button";
    undo.className = "link";
    undo.textContent = "Undo";
    undo.addEventListener("click", async () => {
      const undone = await post(`${skipped}/unskip`, [["token", token]]);
      if (undone.state === "ok") window.location.assign(skipped); else explain(undone);
    });
    say("Skipped. Somebody else gets that pair.", false, undo);
    fetchAhead();
  }

  async function back() {
    const button = form.querySelector("[value=back]");
    if (isBusy || button.disabled) return;
    isBusy = true;
    if (!await deliverAll()) { isBusy = false; return; }
    keep.end();
    form.elements.seconds.value = clock.take();
    form.action = `${base()}/back`;
    HTMLFormElement.prototype.submit.call(form);
  }

  async function sendFlag(flagForm) {
    const answer = await post(`${base()}/flag`, [["token", form.dataset.token], ["reason", flagForm.elements.reason.value]]);
    document.getElementById("flag").close();
    if (answer.state !== "ok") { explain(answer); return; }
    flagForm.reset();
    say("Flagged. You can still vote on this pair, or skip it.");
  }

  const open = (id) => () => document.getElementById(id)?.showModal();

  async function saveSettings() {
    settings.elements.serif.value = settings.querySelector("[data-reading-switch] select").value === "serif" ? "on" : "";
    const fields = [...new FormData(settings).entries()].filter(([name, value]) => name !== "csrfmiddlewaretoken" && value);
    const answer = await post(settings.action, fields);
    if (answer.state !== "ok") explain(answer);
  }

  // --- wiring

  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (event.target.matches("[data-flag]")) { event.preventDefault(); sendFlag(event.target); return; }
    if (event.target.matches("[data-preferences]")) { event.preventDefault(); saveSettings(); return; }
    if (event.target !== form) return;
    event.preventDefault();
    if (button?.dataset.view) show(button);
    else if (button?.value === "skip") skip();
    else if (button?.value === "back") back();
    else submit();
  });

  document.addEventListener("input", (event) => {
    if (event.target.form === form && event.target.name) keep.changed();
  });
  document.addEventListener("change", (event) => {
    if (event.target.form === settings) { saveSettings(); return; }
    if (event.target.form !== form) return;
    keep.changed();
    markChosen(form);
    say("");
  });
  document.addEventListener("focusin", (event) => {
    const group = event.target.closest("[role=radiogroup]");
    if (group && form.contains(group)) window.annotation.mark(form, group);
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-unfold]")) { unfold(form); form.querySelector(".side-body").focus(); }
  });
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden" && !isBusy) keep.hidden();
  });
  window.addEventListener("online", resume);
  setInterval(async () => {
    if (clock.idleFor() > AWAY || isBusy) return;
    const token = form.dataset.token;
    const answer = await post(`${base()}/beat`, [["token", token]]);
    if (answer.state === "refused" && token === form.dataset.token) explain(answer);
    const held = ahead && /data-token="([\w-]+)" data-url="([^"]+)"/.exec(ahead);
    if (held) await post(`${held[2]}/beat`, [["token", held[1]]]);
  }, BEAT);

  window.annotation.listen({
    form: () => form,
    appearedAt: () => appearedAt,
    submit,
    skip,
    back,
    flag: open("flag"),
    help: open("help"),
    chosen: () => { if (isSet("one_key_submit") && groupsOf(form).every(isAnswered)) submit(); },
  });

  start(form);
  const reading = settings?.querySelector("[data-reading-switch] select");
  if (reading && settings.elements.serif.value === "on" && reading.value !== "serif") {
    reading.value = "serif";
    reading.dispatchEvent(new Event("change"));
  }
  resume();
})();
