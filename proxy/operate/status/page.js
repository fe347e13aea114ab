(() => {
  "use strict";
  const $ = (id) => document.getElementById(id), live = $("live"), find = $("find");
  const show = (on, text) => {
    const name = "live " + (on ? "on" : "off");
    if (live.className !== name) live.className = name;
    live.textContent = text;
  };

  // Sections come as text that the server has escaped. Only what differs is changed, so that what the reader has opened,
  // focused, selected or scrolled stays as it is.
  const parse = (text) => {
    const holder = document.createElement("template");
    holder.innerHTML = text;
    return holder.content;
  };
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
    if (old.hasAttribute("data-rows")) return frame(old, next);
    const have = [...old.childNodes], want = [...next.childNodes];
    want.forEach((node, i) => have[i] ? patch(have[i], node) : old.append(node));
    have.slice(want.length).forEach((node) => node.remove());
  };
  // Rows with ids are changed by rows(); their list may have another one, which says that there are none.
  const frame = (old, next) => {
    for (const node of [...old.childNodes]) if (!node.id) node.remove();
    old.append(...next.childNodes);
  };

  // Rows are sent in their order: with a text where that is new, with the cells that differ where the row is known. They are
  // kept by their ids, in the page or on their way into it.
  const lists = {};
  // What stands in a row's closed part is put there when it is opened.
  const later = new Map();
  const change = (cell, text) => {
    if (cell.className === "more" && !cell.firstElementChild.open) return later.set(cell, text);
    later.delete(cell);
    patch(cell, parse(text).firstElementChild);
  };
  document.addEventListener("toggle", (e) => {
    const cell = e.target.parentNode;
    if (e.target.open && later.has(cell)) change(cell, later.get(cell));
  }, true);
  const rows = (section, list) => {
    const known = lists[section], now = lists[section] = new Map();
    const fresh = [...parse(list.map((row) => row.text || "").join("")).children];
    for (const { id, text, cells } of list) {
      const next = text && fresh.shift();
      const row = known.get(id);
      if (row && next) {
        patch(row, next);
        for (const cell of row.cells || []) later.delete(cell);
      }
      for (const i in cells) change(row.cells[i], cells[i]);
      now.set(id, row || next);
    }
  };
  // Nothing moves under the pointer or the focus: as long as one of them is among the rows they keep their places, and a new
  // one waits.
  const waiting = new Set();
  let mouse = false; // a finger hovers where it was last
  document.addEventListener("pointermove", (e) => { mouse = e.pointerType !== "touch"; }, { passive: true });
  const held = (body) => mouse && body.matches(":hover") || body !== document.activeElement && body.contains(document.activeElement);
  // Of rows in order that are to stand in another one only those are moved that have another row before them.
  const order = (body, want) => {
    const stay = new Set(want);
    for (const row of [...body.children]) if (row.id && !stay.has(row)) {
      row.remove();
      for (const cell of row.cells || []) later.delete(cell);
    }
    let at = body.firstElementChild;
    for (const row of want) {
      if (at && row === at.nextElementSibling) { // the one at this place has moved down, and comes in its turn
        at.remove();
        at = row;
      }
      if (row === at) at = at.nextElementSibling;
      else body.insertBefore(row, at);
    }
  };

  // Sorting by a column, and back to the order of the server: trouble first.
  const valueOf = (row, column) => {
    const cell = row.cells[column], v = cell ? cell.dataset.v ?? cell.textContent : "";
    return v !== "" && isFinite(v) ? Number(v) : String(v).toLowerCase();
  };
  const compare = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? 1 : -1;
  const arrange = (id, asked) => {
    const body = $(id).querySelector("[data-rows]"), s = sorts[id];
    if (!body) return;
    const table = body.closest("table[data-sorts]");
    if (table) [...table.tHead.rows[0].cells].forEach((th, i) => {
      if (!th.firstElementChild) {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = th.textContent;
        button.dataset.focus = "sort " + id + i;
        button.addEventListener("click", () => sort(id, i));
        th.replaceChildren(button);
      }
      const sorted = s && s.column === i ? s.down ? "descending" : "ascending" : null;
      if (sorted === th.getAttribute("aria-sort")) return;
      if (sorted) th.setAttribute("aria-sort", sorted);
      else th.removeAttribute("aria-sort");
    });
    let want = [...lists[id].values()];
    if (s) {
      const keyed = want.map((row) => [valueOf(row, s.column), row]);
      keyed.sort((a, b) => (s.down ? -1 : 1) * compare(a[0], b[0]));
      want = keyed.map((k) => k[1]);
    }
    if (!asked && held(body)) waiting.add(id);
    else {
      waiting.delete(id);
      order(body, want);
    }
    if (table) filter(body);
  };
  const sort = (id, column) => {
    const s = sorts[id];
    if (!s || s.column !== column) sorts[id] = { column, down: column > 0 };
    else if (s.down === column > 0) s.down = !s.down;
    else delete sorts[id];
    arrange(id, true);
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
      next.append(parse(sent.frame));
      const head = section.querySelector("table[data-sorts] thead"), table = next.querySelector("table[data-sorts]");
      if (head && table) table.tHead.replaceWith(head.cloneNode(true)); // its buttons are made here: they stay
      patch(section, next);
    }
    rows(id, sent.rows || []);
    arrange(id);
  };
  // A screen reader hears of trouble when it begins, changes its subject or ends, and not each second.
  let about = document.querySelector(".verdict")?.dataset.about;
  const announce = () => {
    const verdict = document.querySelector(".verdict");
    if (document.title !== verdict.dataset.title) document.title = verdict.dataset.title;
    if (verdict.dataset.about === about) return;
    about = verdict.dataset.about;
    $("say").textContent = verdict.textContent;
  };
  for (const { id } of document.querySelectorAll("main section")) {
    lists[id] = new Map([...document.querySelectorAll(`#${id} [data-rows] > [id]`)].map((row) => [row.id, row]));
    arrange(id, true);
  }
  find.addEventListener("input", filterAll);
  const slash = (e) => e.key === "/" && !e.ctrlKey && !e.metaKey && !e.altKey && !(e.target instanceof HTMLInputElement);
  document.addEventListener("keydown", (e) => {
    if (slash(e)) e.preventDefault(); // some browsers search the page by it
    else if (e.key === "Escape" && e.target === find) {
      find.value = "";
      filterAll();
    } else if (e.key === "Escape") {
      const open = document.querySelector(".more > details[open]");
      if (open) open.open = false;
    }
  });
  document.addEventListener("keyup", (e) => { if (slash(e)) find.focus(); }); // when no letter of it comes any more

  const source = new EventSource(location.origin + "/status/events" + location.search);
  source.addEventListener("sections", (e) => {
    const { at, sections } = JSON.parse(e.data);
    for (const id in sections) renew(id, sections[id]);
    for (const id of waiting) if (!(id in sections)) arrange(id);
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
