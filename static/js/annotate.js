// The annotator's screen: submit, skip, go back, flag, and the next pair at once.
// Every post names its pair by a token. A vote stays in this browser until the server has it.
(function () {
  "use strict";
  const { votes, drafts, post, isLogin, clock, fieldsOf, fill, groupsOf, isAnswered, takeBack, lacksReason, askForReason, keeper } = window.annotation;
  const { fold, unfold, watchTabs, linkScroll, toLastTurn, viewer, shown, unseen, markChosen } = window.annotation;
  const { say, link, explain } = window.annotation;
  const { t } = window;
  const BEAT = 60_000;
  const AWAY = 10 * 60_000;
  // Within this time two clicks are a double one, whose second is not for the pair that came up.
  const DOUBLE = 500;
  const AWAY_SOON = t("Are you still here? Press any key, or this pair goes to someone else in a few minutes.");
  const NOT_DONE = t("Nothing was changed. Try again.");
  const SENDING = t("Sending your vote as shown. You can't change it until it has arrived.");
  const WITHDRAWN = t("You changed your vote before it arrived. It is kept as a draft: submit it again.");

  let form = document.querySelector("form#item");
  if (!form?.dataset.url) return;
  const { isSet, meant, show: showKeys, serif, reading } = window.annotation.settings();
  let keep; let show; let appearedAt; let ahead = null;
  let holds = 0; let focused = null; let isWithdrawn = false;
  // What a person who submitted was asked to do first. It stays when an earlier entry is stored.
  let asked = "";

  const base = () => form.dataset.url;
  const isDouble = () => performance.now() - appearedAt < DOUBLE;

  // While something about the pair is on its way, nothing can be entered that would not go with it.
  const isBusy = () => holds > 0;
  function freeze(isFrozen) {
    form.querySelectorAll(".criteria, .scale, .more, .closing").forEach((part) => { part.inert = isFrozen; });
  }
  function hold(text) {
    if (holds === 0) focused = document.activeElement;
    holds += 1;
    freeze(true);
    if (text) say(text);
  }
  function release() {
    holds -= 1;
    if (holds > 0) return;
    freeze(false);
    if (form.contains(focused)) focused.focus({ preventScroll: true });
  }
  // Training says how the person did before it goes on. `told` is what it said about a pair.
  let told = null; let isTelling = false;
  function tell() {
    const shown = form.querySelector(".told");
    isTelling = true;
    holds += 1;
    freeze(true);
    say("");
    shown.querySelector("[data-told]").replaceChildren(...told.nodes);
    shown.querySelector(".actions").hidden = false;
    told = null;
    shown.querySelector("[data-goes-on]").focus();
    if (!ahead) fetchAhead();
  }
  function goOn() {
    if (!isTelling) return;
    isTelling = false;
    holds -= 1;
    if (!ahead) { window.location.assign(form.dataset.next); return; }
    enter(ahead);
    fetchAhead();
  }
  function leave() {
    if (told?.token === form.dataset.token) { release(); tell(); return; }
    const { next } = form.dataset;
    say(t("Your vote is stored. Loading the next pair…"), false, link(t("Continue"), next));
    window.location.assign(next);
  }

  // --- one pair

  // `came`: when the pair was fetched, by this clock, which need not be that of the server.
  function start(made, came) {
    form = made;
    const changedAt = came - 1000 * form.dataset.age;
    keep = keeper(form, { onKept: kept, onLost: (answer) => explain(answer, isWithdrawn ? WITHDRAWN : undefined) });
    show = viewer(form, say);
    appearedAt = performance.now();
    isWithdrawn = false;
    const local = [drafts, votes].map((box) => box.get(form.dataset.token)).find((one) => one?.at > changedAt);
    if (local) { fill(form, local.fields); keep.changed(); }
    toLastTurn(form);
    fold(form);
    watchTabs(form);
    linkScroll(form, () => isSet("link_scroll"));
    markChosen(form);
    askForReason(form);
    window.annotation.more?.start(form, meant);
    showKeys(form);
    window.annotation.markFirst(form);
  }

  function kept() {
    const said = document.getElementById("said");
    if (said.dataset.state === "failed" && said.textContent !== asked) say(isWithdrawn ? WITHDRAWN : t("What you entered is stored."));
  }

  // A vote of this pair that waits for a connection is no longer what is on the screen.
  function withdraw() {
    const waiting = votes.get(form.dataset.token);
    if (!waiting || waiting.isStored) return false;
    votes.drop(form.dataset.token);
    clock.giveBack(waiting.fields.find(([name]) => name === "seconds")?.[1] ?? 0);
    return true;
  }

  function changed() {
    if (withdraw()) isWithdrawn = true;
    keep.changed();
    if (isWithdrawn) say(WITHDRAWN);
  }

  // A dialog belongs to its pair: it closes with it, and a flag names the pair it was written for.
  function renewDialogs() {
    document.querySelectorAll("dialog[open]").forEach((dialog) => dialog.close());
    const flag = document.querySelector("[data-flag]");
    flag.reset();
    flag.action = `${base()}/flag`;
    document.querySelectorAll("dialog [name=token]").forEach((field) => { field.value = form.dataset.token; });
  }

  function enter({ html, came }) {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    const next = holder.content.querySelector("form#item");
    document.querySelectorAll(".undo, #messages > *").forEach((told) => { told.remove(); });
    form.replaceWith(next);
    history.replaceState(null, "", next.dataset.url);
    ahead = null;
    start(next, came);
    renewDialogs();
    shown(next);
    document.getElementById("question-head").focus({ preventScroll: true });
    document.getElementById("announcer").textContent = t("Next pair: {question}", { question: next.querySelector("[data-part=question]").textContent.slice(0, 200) });
  }

  async function fetchAhead() {
    const token = form.dataset.token;
    const came = Date.now();
    try {
      const response = await fetch(`${base()}/ahead`);
      if (response.status !== 200 || isLogin(response)) return;
      const html = await response.text();
      // Loaded before they are shown, so that nothing moves when the pair comes up.
      for (const [, source] of html.matchAll(/<img src="([^"]+)"/g)) new Image().src = source;
      if (form.dataset.token === token && !votes.tokens().some((sent) => html.includes(`data-token="${sent}"`))) ahead = { html, came };
    } catch { /* the next one is then fetched when it is needed */ }
  }

  const { deliver, deliverAll, resume } = window.annotation.delivery({
    form: () => form,
    hold,
    release,
    leave,
    onClear: () => { if (!ahead) fetchAhead(); },
    onTold: (token, nodes) => { told = { token, nodes }; },
  });

  // --- submitting

  function problem() {
    const side = unseen(form);
    if (side) return side.hash === "#left" ? t("Look at the left response first.") : t("Look at the right response first.");
    const open = groupsOf(form).find((group) => !isAnswered(group));
    if (!open && lacksReason(form)) { form.elements.comment.focus(); return t("Say in the comment why you can't judge this pair, then submit."); }
    if (!open) return "";
    window.annotation.mark(form, open);
    if (open.dataset.missing) return open.dataset.missing;
    return open.classList.contains("criterion")
      ? t("Answer every row. Missing: {row}.", { row: open.querySelector(".name").textContent })
      : t("Choose which response is better, or a tie, before you submit.");
  }

  async function submit() {
    if (isBusy()) return;
    const missing = problem();
    if (missing) { asked = missing; say(missing, true); return; }
    withdraw();
    isWithdrawn = false;
    const { token } = form.dataset;
    const fields = [...fieldsOf(form), ["seconds", clock.take()]];
    votes.put(token, { fields, url: form.action });
    const sent = keep.end().then(() => deliver(token));
    if (ahead && !("training" in form.dataset)) {
      enter(ahead);
      form.querySelector("[value=back]").disabled = false;
      if (await sent !== "waiting") fetchAhead();
      return;
    }
    hold(SENDING);
    const became = await sent;
    if (became === "stored") { leave(); return; }
    release();
    keep.resume();
  }

  // --- skip, back, flag

  async function skip() {
    const button = form.querySelector("[value=skip]");
    if (isBusy() || !button) return;
    hold(t("Skipping…"));
    const { token, next } = form.dataset;
    const skipped = base();
    const answer = await post(`${skipped}/skip`, [...fieldsOf(form), ["seconds", clock.take()]]);
    if (answer.state !== "ok") { release(); explain(answer, NOT_DONE); return; }
    keep.end();
    if (!ahead) { window.location.assign(`${next}?skipped=${token}`); return; }
    release();
    enter(ahead);
    const undo = document.createElement("button");
    undo.type = "button";
    undo.className = "link";
    undo.textContent = t("Undo");
    undo.addEventListener("click", async () => {
      const undone = await post(`${skipped}/unskip`, [["token", token]]);
      if (undone.state === "ok") window.location.assign(skipped); else explain(undone, NOT_DONE);
    });
    say(answer.text, false, undo);
    fetchAhead();
  }

  async function back() {
    const button = form.querySelector("[value=back]");
    if (isBusy() || button.disabled) return;
    hold(t("Going back…"));
    if (!await deliverAll() || !await keep.stored()) { release(); return; }
    keep.end();
    form.action = `${base()}/back`;
    HTMLFormElement.prototype.submit.call(form);
  }

  async function sendFlag(flagForm) {
    const { token, reason } = flagForm.elements;
    const [flagged, written, pair] = [token.value, reason.value, base()];
    document.getElementById("flag").close();
    const answer = await post(flagForm.action, [["token", flagged], ["reason", written]]);
    const isHere = flagged === form.dataset.token;
    if (answer.state === "ok") {
      if (isHere && reason.value === written) flagForm.reset();
      const flaggedHere = form.querySelector("[value=skip]") ? t("Flagged. You can still vote on this pair, or skip it.") : t("Flagged.");
      say(isHere ? flaggedHere : t("The previous pair is flagged."));
    } else if (isHere) explain(answer, t("The flag was not sent. Your reason is still there. Try again."));
    else say(t("The flag on the previous pair was not sent. Your reason was: {reason}", { reason: written }), true, link(t("Show that pair"), pair));
  }

  const open = (id) => () => document.getElementById(id)?.showModal();

  const press = (selector) => () => form.querySelector(selector)?.click();

  function comment() { form.elements.comment.focus(); }

  function showAll() {
    if (form.querySelector(".sides[data-folded]")) unfold(form);
  }

  // Guidelines open by themselves once; what was read is told to the server when they close.
  function openUnread() {
    const guidelines = document.getElementById("guidelines");
    if (!guidelines || !("unread" in guidelines.dataset)) return;
    guidelines.showModal();
    document.getElementById("guidelines-head").focus();
    const url = `${base()}/read`;
    const { token } = form.dataset;
    guidelines.addEventListener("close", () => { appearedAt = performance.now(); post(url, [["token", token]]); }, { once: true });
  }

  // --- wiring

  function early() { say(t("That came before this pair could be read, so it was not counted.")); }

  document.addEventListener("submit", (event) => {
    const button = event.submitter;
    if (event.target.matches("[data-flag]")) { event.preventDefault(); sendFlag(event.target); return; }
    if (event.target !== form) return;
    event.preventDefault();
    if (button?.dataset.view) show(button);
    else if (isDouble()) return;
    else if (button?.value === "skip") skip();
    else if (button?.value === "back") back();
    else submit();
  });

  document.addEventListener("click", (event) => { if (event.target.closest("[data-goes-on]")) goOn(); });
  // The other keys do nothing meanwhile. A button that has the focus is pressed by Enter anyway.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.repeat || !isTelling || event.target.closest?.("a, button, summary") || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    goOn();
  });
  document.addEventListener("input", (event) => {
    if (event.target.form === form && event.target.name) changed();
  });
  document.addEventListener("change", (event) => {
    if (event.target.form !== form) return;
    takeBack(form, event.target);
    markChosen(form);
    askForReason(form);
    say("");
    changed();
  });
  document.addEventListener("focusin", (event) => {
    const group = event.target.closest("[role=radiogroup]");
    if (group && form.contains(group)) window.annotation.mark(form, group);
  });
  // A click meant for the pair before, as keys.js has it for keys.
  document.addEventListener("click", (event) => {
    if (event.isTrusted && event.detail > 0 && event.target.closest(".option") && performance.now() - appearedAt < window.annotation.SETTLE) {
      event.preventDefault();
      early();
    }
  }, { capture: true });
  window.addEventListener("pageshow", (event) => { if (event.persisted) { holds = 1; release(); } });
  document.addEventListener("click", (event) => {
    const side = event.target.closest("[data-unfold]")?.closest(".side");
    if (side) { unfold(form); side.querySelector(".side-body").focus({ preventScroll: true }); }
  });
  document.addEventListener("visibilitychange", () => {
    if (document.visibilityState === "hidden" && !isBusy()) keep.hidden();
  });
  async function beat() {
    const token = form.dataset.token;
    const answer = await post(`${base()}/beat`, [["token", token]]);
    if (answer.state === "refused" && token === form.dataset.token) explain(answer);
    const held = ahead && /data-token="([\w-]+)" data-url="([^"]+)"/.exec(ahead.html);
    // After a long absence others may have it; then there is another one.
    if (held && (await post(`${held[2]}/beat`, [["token", held[1]]])).state === "refused") { ahead = null; fetchAhead(); }
  }

  // Who reads with a screen reader presses no key that a page hears. So nobody loses a pair unwarned.
  let isWarned = false;
  setInterval(() => {
    if (isBusy()) return;
    if (clock.idleFor() <= AWAY) { beat(); return; }
    if (isWarned) return;
    isWarned = true;
    const stay = document.createElement("button");
    stay.type = "button";
    stay.textContent = t("Keep this pair");
    say(AWAY_SOON, false, stay);
  }, BEAT);
  ["pointermove", "pointerdown", "keydown", "touchmove", "focus", "click"].forEach((name) => {
    window.addEventListener(name, () => {
      if (!isWarned) return;
      isWarned = false;
      say(t("You keep this pair."));
      beat();
    }, { passive: true, capture: true });
  });

  window.annotation.listen({
    form: () => form,
    appearedAt: () => appearedAt,
    isBusy,
    early,
    meant,
    acts: {
      Enter: submit,
      Backspace: back,
      S: skip,
      F: open("flag"),
      "?": open("help"),
      G: open("guidelines"),
      C: comment,
      E: showAll,
      D: press("[data-view=differences]"),
      R: press("[data-view=raw]"),
      V: press(".side-tabs a:not([aria-current])"),
      W: () => window.annotation.more?.reasons(),
      M: () => window.annotation.more?.mark(),
      L: () => document.querySelector("[data-own]").click(),
    },
    chosen: () => {
      if (lacksReason(form)) comment();
      else if (isSet("one_key_submit") && groupsOf(form).every(isAnswered)) submit();
    },
  });

  start(form, Date.now() - performance.now());
  showKeys();
  if (reading() && serif() && reading().value !== "serif") {
    reading().value = "serif";
    reading().dispatchEvent(new Event("change"));
  }
  openUnread();
  resume();
})();
