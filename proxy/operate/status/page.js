(() => {
  "use strict";
  const $ = (id) => document.getElementById(id), live = $("live"), find = $("find");
  const show = (on, text) => { live.className = "live " + (on ? "on" : "off"); live.textContent = text; };

  // Sections come as text that the server has escaped. Only what differs is changed, so that what the reader has opened,
  // focused, selected or scrolled stays as it is. Rows are known by their ids.
  const own = new Set(["open", "hidden", "aria-sort"]), sorts = {};
  const patch = (old, next) => {
    if (old.isEqualNode(next)) return;
    if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName) return old.replaceWith(next);
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
      return;
    }
    for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    for (const { name } of [...old.attributes]) if (!own.has(name) && !next.hasAttribute(name)) old.removeAttribute(name);
    if (old.nodeName === "TBODY" && old.closest("[data-sorts]")) return frame(old, next);
    const have = [...old.childNodes], want = [...next.childNodes];
    want.forEach((node, i) => have[i] ? patch(have[i], node) : old.append(node));
    have.slice(want.length).forEach((node) => node.remove());
  };
  // Rows with ids are changed by rows(); the body of their table may have another one, which says that there are none.
  const frame = (old, next) => {
    for (const node of [...old.childNodes]) if (!node.id) node.remove();
    old.append(...next.childNodes);
  };
  const order = (body, want) => {
    let at = body.firstElementChild;
    for (const row of want) if (row === at) at = at.nextElementSibling; else body.insertBefore(row, at);
  };

  // Rows are sent in their order, with a text where that is new.
  const rows = (section, body, list) => {
    const parsed = document.createElement("tbody");
    parsed.innerHTML = list.map((row) => row.text || "").join("");
    const fresh = [...parsed.rows];
    const want = list.map(({ id, text }) => {
      const known = $(id), next = text && fresh.shift();
      if (known?.parentNode !== body) return next;
      if (next) patch(known, next);
      return known;
    }).filter(Boolean);
    const stay = new Set(want);
    for (const row of [...body.rows]) if (row.id && !stay.has(row)) row.remove();
    given.set($(section), want.map((row) => row.id));
    if (sorts[section]) body.append(...want.filter((row) => row.parentNode !== body));
    else order(body, want);
  };

  // Sorting by a column, and back to the order of the server: trouble first.
  const given = new WeakMap();
  const valueOf = (row, column) => {
    const cell = row.cells[column], v = cell ? cell.dataset.v ?? cell.textContent : "";
    return v !== "" && isFinite(v) ? Number(v) : String(v).toLowerCase();
  };
  const compare = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? 1 : -1;
  const arrange = (id) => {
    const table = $(id).querySelector("table[data-sorts]");
    if (!table) return;
    [...table.tHead.rows[0].cells].forEach((th, i) => {
      if (!th.firstElementChild) {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = th.textContent;
        button.dataset.focus = "sort " + id + i;
        button.addEventListener("click", () => sort(id, i));
        th.replaceChildren(button);
      }
      const s = sorts[id];
      if (s && s.column === i) th.setAttribute("aria-sort", s.down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    });
    const body = table.tBodies[0], s = sorts[id];
    if (s) {
      const keyed = [...body.rows].map((row) => [valueOf(row, s.column), row]);
      keyed.sort((a, b) => (s.down ? -1 : 1) * compare(a[0], b[0]));
      order(body, keyed.map((k) => k[1]));
    }
    filter(body);
  };
  const sort = (id, column) => {
    const s = sorts[id];
    if (!s || s.column !== column) sorts[id] = { column, down: column > 0 };
    else if (s.down === column > 0) s.down = !s.down;
    else delete sorts[id];
    if (sorts[id]) return arrange(id);
    const body = $(id).querySelector("table[data-sorts]").tBodies[0];
    order(body, (given.get($(id)) || []).map((row) => row && $(row)).filter(Boolean));
    arrange(id);
  };
  const filter = (body) => {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of body.rows) {
      const text = words.length ? row.textContent.toLowerCase() : "";
      row.hidden = !words.every((w) => text.includes(w));
    }
  };
  const filterAll = () => {
    document.body.classList.toggle("filtering", find.value.trim() !== "");
    for (const table of document.querySelectorAll("table[data-sorts]")) filter(table.tBodies[0]);
  };

  const renew = (id, sent) => {
    const section = $(id);
    if (!section) return;
    if (sent.frame !== undefined) {
      const next = section.cloneNode(false);
      next.innerHTML = sent.frame;
      const head = section.querySelector("table[data-sorts] thead"), table = next.querySelector("table[data-sorts]");
      if (head && table) table.tHead.replaceWith(head.cloneNode(true)); // its buttons are made here: they stay
      patch(section, next);
    }
    const body = section.querySelector("table[data-sorts] > tbody");
    if (body) rows(id, body, sent.rows || []);
    arrange(id);
  };
  // A screen reader hears of trouble when it begins, changes its subject or ends, and not each second.
  let about = document.querySelector(".verdict")?.dataset.about;
  const announce = () => {
    const verdict = document.querySelector(".verdict");
    document.title = verdict.dataset.title;
    if (verdict.dataset.about === about) return;
    about = verdict.dataset.about;
    $("say").textContent = verdict.textContent;
  };
  const sections = [...document.querySelectorAll("main section")].map((s) => s.id);
  for (const id of sections) {
    given.set($(id), [...$(id).querySelectorAll("table[data-sorts] > tbody > tr")].map((row) => row.id));
    arrange(id);
  }
  find.addEventListener("input", filterAll);
  const slash = (e) => e.key === "/" && !e.ctrlKey && !e.metaKey && !e.altKey && !(e.target instanceof HTMLInputElement);
  document.addEventListener("keydown", (e) => {
    if (slash(e)) e.preventDefault(); // some browsers search the page by it
    else if (e.key === "Escape" && e.target === find) {
      find.value = "";
      filterAll();
    }
  });
  document.addEventListener("keyup", (e) => { if (slash(e)) find.focus(); }); // when no letter of it comes any more

  const source = new EventSource(location.origin + "/status/events" + location.search);
  source.addEventListener("sections", (e) => {
    const { at, sections } = JSON.parse(e.data);
    for (const id in sections) renew(id, sections[id]);
    announce();
    show(true, "live · " + at);
  });
  source.onerror = () => show(false, "not connected – numbers are old");
  document.addEventListener("submit", async (e) => {
    if (!e.target.matches('form[action="/-/mode"]')) return;
    e.preventDefault();
    const body = new URLSearchParams(new FormData(e.target, e.submitter));
    const answer = await fetch(location.origin + "/-/mode", { method: "POST", body, redirect: "manual" }).catch(() => null);
    if (!answer || answer.status >= 400) show(false, "the edge refused the change");
  });
})();
