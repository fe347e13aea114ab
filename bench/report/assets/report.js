"use strict";
(() => {
  const data = JSON.parse(document.getElementById("plots").textContent) || [];
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const number = (v) => {
    if (v == null) return "–";
    const a = Math.abs(v);
    return a >= 1000 ? Math.round(v).toLocaleString("en").replace(/,/g, "\u202f") : a >= 100 ? v.toFixed(1) : a >= 10 ? v.toFixed(2) : a === 0 ? "0" : v.toFixed(3);
  };
  const tick = (v) => (v == null ? "" : v >= 1000 ? v / 1000 + "k" : String(+v.toPrecision(4)));
  const isShare = (p) => p.y_max === 1;

  // decades are the ticks of a logarithmic axis: 1, 2 and 5 times powers of ten, or all whole multiples where those are few.
  const decades = (u, i, lo, hi) => {
    const within = (steps) => {
      const all = [];
      for (let p = Math.floor(Math.log10(lo)); p <= Math.log10(hi); p++) for (const m of steps) all.push(+(m * 10 ** p).toPrecision(3));
      return all.filter((v) => v >= lo && v <= hi);
    };
    const few = within([1, 2, 5]);
    return few.length >= 3 ? few : within([1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9]);
  };
  const log = { splits: decades, filter: (u, vs) => vs };

  // marks draws the vertical lines of a plot and their names, under the lines of data.
  const marks = (p) => (u) => {
    const ctx = u.ctx;
    ctx.save();
    ctx.font = 11 * devicePixelRatio + "px system-ui, sans-serif";
    const end = u.bbox.left + u.bbox.width;
    for (const [i, m] of p.marks.entries()) {
      const x = Math.round(u.valToPos(m.x, "x", true));
      if (x < u.bbox.left || x > end) continue;
      ctx.strokeStyle = color("faint");
      ctx.lineWidth = devicePixelRatio;
      ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(x, u.bbox.top);
      ctx.lineTo(x, u.bbox.top + u.bbox.height);
      ctx.stroke();
      // A name has the room up to the next line; where that is too little it is left out.
      const next = i + 1 < p.marks.length ? Math.min(end, u.valToPos(p.marks[i + 1].x, "x", true)) : end;
      if (x + ctx.measureText(m.label).width + 8 * devicePixelRatio < next) {
        ctx.fillStyle = color("soft");
        ctx.fillText(m.label, x + 4 * devicePixelRatio, u.bbox.top + 11 * devicePixelRatio);
      }
    }
    ctx.restore();
  };

  // alone are the samples that no line touches, for neither neighbour is there: a point has to show them, or nothing does.
  const alone = (u, i) => {
    const y = u.data[i];
    return [...y.keys()].filter((k) => y[k] != null && y[k - 1] == null && y[k + 1] == null);
  };

  const options = (p, width) => {
    const axis = { stroke: color("soft"), grid: { stroke: color("grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const y = isShare(p) ? (v) => (v == null ? "–" : (100 * v).toFixed(1) + " %") : number;
    return {
      width, height: Math.max(190, Math.min(240, Math.round(width * 0.46))),
      cursor: { y: false, points: { size: 6 }, sync: p.group === "time" || p.group === "engine" ? { key: "time" } : undefined },
      scales: {
        x: { time: false, distr: p.x_log ? 3 : 1, range: p.x_log ? (u, lo, hi) => [lo, hi] : undefined },
        y: p.y_log ? { distr: 3 } : { range: (u, lo, hi) => [0, p.y_max || (hi > 0 ? hi * 1.08 : 1)] },
      },
      axes: [
        { ...axis, ...(p.x_log ? log : {}), size: 28, gap: 4, values: (u, vs) => vs.map(tick) },
        { ...axis, ...(p.y_log ? log : {}), size: 52, gap: 6, values: (u, vs) => vs.map((v) => (v == null ? "" : isShare(p) ? Math.round(100 * v) + " %" : tick(v))) },
      ],
      legend: { markers: { width: 0, fill: (u, i) => color("tone" + p.lines[i - 1].tone) } },
      hooks: { drawClear: [marks(p)] },
      series: [
        { label: p.x_unit === "s" ? "at" : p.x_unit, value: (u, v) => (v == null ? "–" : number(v) + (p.x_unit === "s" ? " s" : "")) },
        ...p.lines.map((l) => ({
          label: l.label, value: (u, v) => y(v), stroke: color("tone" + l.tone), width: l.tone === 1 || l.dashed ? 1.25 : 1.75,
          dash: l.dashed ? [5, 4] : undefined, fill: l.fill ? color("tone" + l.tone) + "1f" : undefined,
          points: p.points && !l.dashed ? { show: true, size: 6, fill: color("paper"), width: 1.5 } : { show: false, filter: alone, size: 4, fill: color("tone" + l.tone) }, spanGaps: false,
        })),
      ],
    };
  };

  const drawn = [];
  for (const section of document.querySelectorAll(".plots")) {
    const grid = section.querySelector(".grid");
    for (const p of data.filter((p) => p.group === section.dataset.group)) {
      const box = document.createElement("div");
      box.className = "plot";
      const title = document.createElement("h3");
      title.textContent = p.title;
      if (p.y_unit) title.appendChild(Object.assign(document.createElement("span"), { textContent: p.y_unit }));
      box.appendChild(title);
      if (p.note) box.appendChild(Object.assign(document.createElement("p"), { className: "note", textContent: p.note }));
      grid.appendChild(box);
      drawn.push({ p, box });
    }
  }

  const draw = () => {
    for (const d of drawn) {
      if (d.plot) d.plot.destroy();
      d.width = d.box.clientWidth;
      d.plot = new uPlot(options(d.p, d.width), [d.p.x, ...d.p.lines.map((l) => l.y)], d.box);
      const picture = d.box.querySelector("canvas");
      picture.setAttribute("role", "img");
      picture.setAttribute("aria-label", d.p.words);
    }
    document.documentElement.dataset.drawn = String(drawn.length);
  };
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  let waiting = 0;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => drawn.some((d) => d.box.clientWidth !== d.width) && draw(), 100);
  });
})();
