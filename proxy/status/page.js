(() => {
  "use strict";
  const live = document.getElementById("live");
  const say = (on, text) => { live.className = "live " + (on ? "on" : "off"); live.textContent = text; };
  // Sections come as text that the server has escaped. What the reader has opened, focused or scrolled stays as it is.
  const renew = (id, html) => {
    const section = document.getElementById(id);
    if (!section) return;
    const focus = section.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
    const open = [...section.querySelectorAll("details[open] > summary")].map((s) => s.dataset.focus);
    const box = section.querySelector(".scroll");
    const at = box && [box.scrollLeft, box.scrollTop];
    section.innerHTML = html;
    for (const s of section.querySelectorAll("details > summary")) if (open.includes(s.dataset.focus)) s.parentElement.open = true;
    const now = section.querySelector(".scroll");
    if (at && now) [now.scrollLeft, now.scrollTop] = at;
    if (focus) section.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus();
  };
  const source = new EventSource(location.origin + "/status/events");
  source.addEventListener("sections", (e) => {
    const { at, sections } = JSON.parse(e.data);
    for (const id in sections) renew(id, sections[id]);
    say(true, "live · " + at);
  });
  source.onerror = () => say(false, "not connected – numbers are old");
  document.addEventListener("submit", async (e) => {
    if (!e.target.matches('form[action="/-/mode"]')) return;
    e.preventDefault();
    const body = new URLSearchParams(new FormData(e.target, e.submitter));
    const answer = await fetch(location.origin + "/-/mode", { method: "POST", body, redirect: "manual" }).catch(() => null);
    if (!answer || answer.status >= 400) say(false, "the edge refused the change");
  });
})();
