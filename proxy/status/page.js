(() => {
  "use strict";
  const $ = (id) => document.getElementById(id), live = $("live"), find = $("find");
  const show = (on, text) => { live.className = "live " + (on ? "on" : "off"); live.textContent = text; };

  // Sections come as text that the server has escaped. Only what differs is changed, so that what the reader has opened,
  // focused, selected or scrolled stays as it is. Rows are known by their ids.
  const own = new Set(["open", "hidden", "aria-sort"]), sorts = {};
  const patch = (old, next) => {
    if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName) return old.replaceWith(next);
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
      return;
    }
    for (const { name, value } of next.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    for (const { name } of [...old.attributes]) if (!own.has(name) && !next.hasAttribute(name)) old.removeAttribute(name);
    if (old.nodeName === "TBODY" && next.rows[0]?.id) return rows(old, next);
    const have = [...old.childNodes], want = [...next.childNodes];
    want.forEach((node, i) => have[i] ? patch(have[i], node) : old.append(node));
    have.slice(want.length).forEach((node) => node.remove());
  };
  const rows = (old, next) => {
    const have = new Map([...old.rows].map((row) => [row.id, row]));
    const want = [...next.rows].map((row) => {
      const known = have.get(row.id);
      if (!known) return row;
      have.delete(row.id);
      patch(known, row);
      return known;
    });
    for (const row of have.values()) row.remove();
    for (const node of [...old.childNodes]) if (node.nodeName !== "TR") node.remove();
    if (sorts[old.closest("section").id]) old.append(...want.filter((row) => row.parentNode !== old));
    else order(old, want);
  };
  const order = (body, want) => want.forEach((row, i) => { if (body.rows[i] !== row) body.insertBefore(row, body.rows[i] || null); });

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

  const renew = (id, html) => {
    const section = $(id);
    if (!section) return;
    const next = section.cloneNode(false);
    next.innerHTML = html;
    for (const table of next.querySelectorAll("table[data-sorts]")) { // the heads are made here: they stay
      given.set(section, [...table.tBodies[0].rows].map((row) => row.id));
      const head = section.querySelector("table[data-sorts] thead");
      if (head) table.tHead.replaceWith(head.cloneNode(true));
    }
    patch(section, next);
    arrange(id);
  };
  // A screen reader hears of trouble when it begins, changes its subject or ends, and not each second.
  let about = document.querySelector(".verdict")?.dataset.about;
  const announce = () => {
    const verdict = document.querySelector(".verdict");
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

  const source = new EventSource(location.origin + "/status/events");
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
