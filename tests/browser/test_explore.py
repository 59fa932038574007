import json, os, re
import pytest
from decimal import Decimal
from tests.browser import accessible
from tests.browser.test_every_page import *
from tests.browser.test_every_page import arguments, SAME
from tests.browser.test_small_screens import judged, CHAPTERS
from judging.projects.models import Membership
from django.utils import timezone

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

def look(page, session, widths=((1280,720),(320,256))):
    faults = []
    page.emulate_media(reduced_motion="reduce")
    accessible.prepare(page)
    faults += list(accessible.of_tree(accessible.tree_of(session)))
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    faults += accessible.ask(page, "structure", "forms", "edges", "motion")
    for w, h in widths:
        page.set_viewport_size({"width": w, "height": h})
        over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if over > 0: faults.append((f"too wide at {w}", over))
        faults += [(f"{k} at {w}", d) for k, d in accessible.ask(page, "spacing")]
        faults += [(f"{k} at {w}", d) for k, d in accessible.by_keyboard(page, session)]
    page.set_viewport_size({"width": 1280, "height": 720})
    ax = Axe().run(page, options={"rules": {"target-size": {"enabled": True}}}).response["violations"]
    faults += [(f"axe {one['id']}", (node["target"], node["html"][:90])) for one in ax for node in one["nodes"][:4]]
    page.emulate_media(reduced_motion="no-preference")
    return faults

def note(state, out):
    open(f"/tmp/access198/explore-{state}.txt", "w").write("\n".join(out))

@pytest.mark.parametrize("arguments", ["open", "finished"], indirect=True)
def test_explore(request, log_in, arguments, annotator, project):
    state = request.node.callspec.params["arguments"]
    sue = make_user("sue", is_superuser=True)
    Membership.objects.create(user=sue, project=project, role="owner", unblinded_at=timezone.now())
    arguments["users"] = {"annotator": annotator, "superuser": sue}
    names = set(addresses()) & set(NAMES) - {"logout", "healthz", "demo_enter"}
    out = []
    sessions = {}
    titles = {}
    names = sorted(names if state == "open" else names - SAME)
    if os.environ.get("ONLY"): names = [n for n in names if re.search(os.environ["ONLY"], n)]
    for name, path, page in pages_of(log_in, arguments, names):
        page.set_viewport_size({"width": 1280, "height": 720})
        page.goto(path, wait_until="load")
        session = sessions.setdefault(page, None) or accessible.session_of(page)
        sessions[page] = session
        faults = look(page, session)
        title = page.title()
        titles.setdefault(title, []).append(name)
        out.append(f"== {name} {path[:60]} title {title[:80]}")
        out += [f"   {k}: {d}" for k, d in faults]
        note(state, out)
    out += [f"same title {t}: {n}" for t, n in titles.items() if len(n) > 1]
    note(state, out)

def test_judged(log_in, owner, project, judged):
    page = log_in(owner, "/")
    session = accessible.session_of(page)
    out = []
    slug = project.slug
    paths = [reverse("results_page", args=[slug, name]) for name in CHAPTERS]
    paths += [reverse(name, args=[slug]) for name in "project examples plan rounds runs".split()]
    paths += [reverse(name, args=[slug, 1]) for name in ("run", "round", "adjudication")]
    paths += [reverse("example", args=[slug, project.examples.first().pk]) + "?run=1"]
    for path in paths:
        page.goto(path)
        page.wait_for_load_state("networkidle")
        out.append(f"== {path} {page.title()[:60]}")
        out += [f"   {k}: {d}" for k, d in look(page, session)]
        note("judged", out)

EMPTY_FORM = """(i) => {
    const forms = [...document.querySelectorAll("main form[method=post]")].filter((f) => f.querySelector("input:not([type=hidden]), textarea, select") && !f.closest("dialog, noscript"));
    if (i === null) return forms.length;
    const form = forms[i];
    form.noValidate = true;
    form.querySelectorAll("details").forEach((d) => { d.open = true });
    form.querySelectorAll("input:not([type=hidden], [type=checkbox], [type=radio], [type=file]), textarea").forEach((f) => { f.value = f.type === "number" ? "-7" : ""; });
    form.requestSubmit([...form.querySelectorAll("button:not([type=button], [hidden])")].pop());
}"""

@pytest.mark.parametrize("arguments", ["plain"], indirect=True)
def test_errors(request, log_in, arguments, annotator, project):
    sue = make_user("sue", is_superuser=True)
    Membership.objects.create(user=sue, project=project, role="owner", unblinded_at=timezone.now())
    arguments["users"] = {"annotator": annotator, "superuser": sue}
    names = set(addresses()) & set(NAMES) - {"logout", "healthz", "demo_enter", "docs", "docs_page"}
    out = []
    sessions = {}
    for name, path, page in pages_of(log_in, arguments, sorted(names)):
        page.set_viewport_size({"width": 1280, "height": 720})
        page.goto(path, wait_until="load")
        session = sessions.setdefault(page, None) or accessible.session_of(page)
        sessions[page] = session
        for i in range(page.evaluate(EMPTY_FORM, None)):
            try:
                page.goto(path, wait_until="load")
                if page.evaluate(EMPTY_FORM, None) <= i: break
                with page.expect_navigation(timeout=5000):
                    page.evaluate(EMPTY_FORM, i)
                page.wait_for_load_state("load")
            except Exception as e:
                out.append(f"== {name} {i} no navigation {str(e)[:60]}")
                continue
            has = page.evaluate("[document.querySelectorAll('.errorlist').length, document.querySelectorAll('.notice.error').length, document.activeElement.outerHTML.slice(0,80), document.title.slice(0,30)]")
            out.append(f"== {name} {i} {has} {page.url[-40:]}")
            accessible.prepare(page)
            out += [f"   {k}: {d}" for k, d in accessible.ask(page, "forms", "structure")]
            out += [f"   {k}: {d}" for k, d in accessible.of_tree(accessible.tree_of(session))]
            note("errors", out)
    note("errors", out)
