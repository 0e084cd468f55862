// What detectors make of whole windows: the heatmap of discords, and the grid of counts with the region of an anomaly, each on
// a canvas with its text as a table.
"use strict";

const Grids = (() => {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const rgb = (name) => [1, 3, 5].map((i) => parseInt(colour(name).slice(i, i + 2), 16));
  const at = (ms) => local(new Date(ms).toISOString());
  const distance = (v) => number((v - 1) / 127);

  // canvas returns a section with a canvas that paint draws again for every width and theme. textOf returns the text of a place.
  function canvas(box, title, hint, paint, textOf) {
    const surface = el("canvas", { role: "img", "aria-label": `${title}: ${hint}` });
    const tip = el("div", { class: "tip", hidden: true });
    const section = el("section", { class: "chart cells" }, el("h3", {}, `${title} `, el("span", {}, hint)), surface, tip);
    box.append(section);
    let plot = null; // { left, top, width, height } of what paint has drawn
    surface.addEventListener("mousemove", (e) => {
      const x = (e.offsetX - plot.left) / plot.width;
      const y = (e.offsetY - plot.top) / plot.height;
      tip.hidden = !(x >= 0 && x < 1 && y >= 0 && y < 1);
      if (tip.hidden) return;
      tip.textContent = textOf(x, y);
      const left = surface.offsetLeft + e.offsetX + 12;
      tip.style.left = `${Math.max(4, Math.min(left, section.clientWidth - tip.offsetWidth - 4))}px`;
      tip.style.top = `${surface.offsetTop + e.offsetY + 14}px`;
    });
    surface.addEventListener("mouseleave", () => { tip.hidden = true; });
    const redraw = () => {
      const width = Math.max(200, box.clientWidth - 18);
      const ratio = devicePixelRatio || 1;
      const begin = (height) => { // sets the size, in CSS pixels
        surface.width = Math.round(width * ratio);
        surface.height = Math.round(height * ratio);
        surface.style.width = `${width}px`;
        surface.style.height = `${height}px`;
        const c = surface.getContext("2d");
        c.scale(ratio, ratio);
        c.font = `12px ${getComputedStyle(document.body).fontFamily}`;
        c.fillStyle = colour("--dim");
        return c;
      };
      plot = paint(begin, width);
    };
    redraw();
    return { section, redraw };
  }

  // reduced returns the largest value of each cell of a smaller grid, rows from the least.
  function reduced(cells, columns, width, height) {
    const out = Array.from({ length: Math.min(height, cells.length) }, () => new Uint8Array(Math.min(width, columns)));
    cells.forEach((row, y) => {
      const to = out[Math.floor((y * out.length) / cells.length)];
      row.forEach((v, x) => {
        const i = Math.floor((x * to.length) / columns);
        to[i] = Math.max(to[i], v);
      });
    });
    return out;
  }

  // lengths returns the lengths of a row of a heatmap, as text.
  function lengths(h, row, rows) {
    const count = Math.floor((h.max_length - h.min_length) / h.length_step) + 1;
    const first = Math.ceil((row * count) / rows);
    const last = Math.max(first, Math.ceil(((row + 1) * count) / rows) - 1);
    const samples = [first, last].map((i) => h.min_length + Math.min(i, count - 1) * h.length_step);
    return samples[0] === samples[1] ? `${samples[0]}` : `${samples[0]} to ${samples[1]}`;
  }

  // heatmap draws the distances of discords by time and length, the largest length on top.
  function heatmap(box, h, a, detector) {
    let most = 2;
    for (const row of h.cells) for (const v of row) most = Math.max(most, v);
    const span = h.to - h.from;
    const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", ...(span < 600000 ? { second: "2-digit" } : {}),
      ...(span > 86400000 ? { day: "numeric", month: "short" } : {}), hourCycle: "h23" });
    const last = h.min_length + Math.floor((h.max_length - h.min_length) / h.length_step) * h.length_step;
    const paint = (begin, width) => {
      const left = Math.max(46, Charts.widest([`${h.min_length}`, `${last}`]) + 8);
      const plot = { left, top: 8, width: width - left - 10, height: Math.max(120, Math.min(260, h.cells.length * 12)) };
      const c = begin(plot.top + plot.height + 40);
      const cells = reduced(h.cells, h.columns, Math.ceil(plot.width), plot.height);
      const image = new ImageData(cells[0].length, cells.length);
      const [none, low, high] = ["--panel", "--heat-low", "--heat-high"].map(rgb);
      cells.forEach((row, y) => row.forEach((v, x) => {
        const share = (v - 1) / (most - 1);
        for (let i = 0; i < 3; i++) image.data[4 * ((cells.length - 1 - y) * row.length + x) + i] = v === 0 ? none[i] : low[i] + (high[i] - low[i]) * share;
        image.data[4 * ((cells.length - 1 - y) * row.length + x) + 3] = 255;
      }));
      const small = new OffscreenCanvas(image.width, image.height);
      small.getContext("2d").putImageData(image, 0, 0);
      c.imageSmoothingEnabled = false;
      c.drawImage(small, plot.left, plot.top, plot.width, plot.height);
      const x = (ms) => plot.left + (Math.max(0, Math.min(1, (ms - h.from) / span))) * plot.width;
      c.strokeStyle = colour("--expected");
      c.lineWidth = 2;
      const peak = Date.parse(a.peak_time);
      if (peak >= h.from) { // else the window is a later one
        c.beginPath();
        c.moveTo(x(peak), plot.top);
        c.lineTo(x(peak), plot.top + plot.height);
        c.stroke();
      }
      c.strokeStyle = colour("--line");
      c.lineWidth = 1;
      c.strokeRect(plot.left, plot.top, plot.width, plot.height);
      c.textBaseline = "middle";
      c.textAlign = "right";
      const rows = h.cells.length;
      for (const row of new Set([0, Math.floor(rows / 2), rows - 1])) {
        c.fillText(row === rows - 1 ? `${last}` : lengths(h, row, rows).split(" ")[0], plot.left - 5, plot.top + ((rows - 0.5 - row) / rows) * plot.height);
      }
      c.textBaseline = "top";
      const label = Charts.widest(Array.from({ length: 12 }, (_, month) => clock.format(new Date(2000, month, 28))));
      const ticks = Math.max(1, Math.min(8, Math.floor(plot.width / Math.max(110, 1.5 * label + 8)))); // the first and the last end at the edges
      for (let i = 0; i <= ticks; i++) {
        c.textAlign = i === 0 ? "left" : i === ticks ? "right" : "center";
        c.fillText(clock.format(h.from + (span * i) / ticks), plot.left + (plot.width * i) / ticks, plot.top + plot.height + 5);
      }
      c.textAlign = "left";
      c.fillText(`length ↑, time → from ${new Date(h.from).toLocaleDateString(undefined, { dateStyle: "medium" })}`, plot.left, plot.top + plot.height + 22);
      return plot;
    };
    const textOf = (x, y) => {
      const row = Math.min(h.cells.length - 1, Math.floor((1 - y) * h.cells.length));
      const v = h.cells[row][Math.floor(x * h.columns)];
      return `${at(h.from + x * span)}, ${lengths(h, row, h.cells.length)} samples: ${v ? `normalised distance ${distance(v)}` : "no discord"}`;
    };
    const drawing = canvas(box, `Discords of ${detector}`, `the window from ${at(h.from)} on, lengths ${h.min_length} to ${last}`, paint, textOf);
    const shown = h.cells.map((row, i, all) => {
      const v = row.reduce((m, n) => Math.max(m, n), 0);
      const first = row.indexOf(v);
      return el("tr", {}, el("td", {}, lengths(h, i, all.length)), el("td", { class: "n" }, v ? distance(v) : "none"),
        el("td", {}, v ? at(h.from + (first / h.columns) * span) : "–"));
    });
    drawing.section.append(
      el("div", { class: "legend" }, "normalised distance 0", el("i", { class: "ramp" }), distance(most), el("i", { class: "ordinary" }), "no discord", el("i", { class: "peak" }), "peak of the anomaly"),
      el("details", {}, el("summary", {}, "Heatmap as a table"), el("div", { class: "wide" }, el("table", {}, el("caption", { class: "sr" }, "Largest distance of each length"),
        el("thead", {}, el("tr", {}, ["Samples", "Largest distance", "From"].map((t, i) => el("th", { scope: "col", class: i === 1 && "n" }, t)))), el("tbody", {}, shown)))));
    return drawing.redraw;
  }

  // region draws where in its grid an anomaly of op scan is, row 0 on top.
  function region(box, g, a) {
    const r = a.region;
    const known = g != null && r.column_to < g.columns && r.row_to < g.rows;
    const columns = known ? g.columns : r.column_to + 1;
    const rows = known ? g.rows : r.row_to + 1;
    const names = known ? [g.x, g.y] : ["x", "y"];
    const across = known ? [number(g.x0), number(g.x1)] : ["0", `${columns - 1}`];
    const down = known ? [number(g.y0), number(g.y1)] : ["0", `${rows - 1}`];
    const paint = (begin, width) => {
      const left = Math.max(56, Charts.widest(down) + 8);
      const cell = Math.min((Math.min(width, 640) - left - 14) / columns, 420 / rows);
      const plot = { left, top: 22, width: Math.max(cell * columns, 40), height: Math.max(cell * rows, 40) };
      const c = begin(plot.top + plot.height + 8);
      const [wide, high] = [plot.width / columns, plot.height / rows];
      c.textBaseline = "middle";
      const beside = Charts.widest([across[0]]) + Charts.widest([across[1]]) + 8 <= plot.width;
      c.fillText(beside ? across[0] : across.join(" to "), plot.left, 10);
      c.textAlign = "right";
      if (beside) c.fillText(across[1], plot.left + plot.width, 10);
      c.fillText(down[0], plot.left - 5, plot.top + 6);
      c.fillText(down[1], plot.left - 5, plot.top + plot.height - 6);
      c.fillStyle = colour("--panel");
      c.fillRect(plot.left, plot.top, plot.width, plot.height);
      c.fillStyle = colour("--heat-high");
      c.fillRect(plot.left + r.column_from * wide, plot.top + r.row_from * high, Math.max(3, (r.column_to - r.column_from + 1) * wide),
        Math.max(3, (r.row_to - r.row_from + 1) * high));
      c.strokeStyle = colour("--line");
      c.beginPath();
      for (let i = 0; i <= columns; i += wide < 4 ? columns : 1) {
        c.moveTo(plot.left + i * wide, plot.top);
        c.lineTo(plot.left + i * wide, plot.top + plot.height);
      }
      for (let i = 0; i <= rows; i += high < 4 ? rows : 1) {
        c.moveTo(plot.left, plot.top + i * high);
        c.lineTo(plot.left + plot.width, plot.top + i * high);
      }
      c.stroke();
      return plot;
    };
    const textOf = (x, y) => {
      const [column, row] = [Math.floor(x * columns), Math.floor(y * rows)];
      const inside = column >= r.column_from && column <= r.column_to && row >= r.row_from && row <= r.row_to;
      return `column ${column}, row ${row}${inside ? ": in the region" : ""}`;
    };
    const counts = `${whole(r.observed)} observed where ${number(r.expected)} are expected`;
    const extent = known ? `grid of ${columns} columns and ${rows} rows, row 0 on top` : "drawn as far as the region reaches, row 0 on top: this worker has no such grid";
    const drawing = canvas(box, `Region of ${a.detector}`, `${counts}; ${extent}`, paint, textOf);
    const row = (name, value) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, value));
    drawing.section.append(el("div", { class: "legend" }, el("i", { class: "region" }), "the region", el("i", { class: "ordinary" }), "other cells",
      el("span", {}, known ? `${names[0]} →, ${names[1]} ↓` : "columns →, rows ↓")),
      el("details", { open: true }, el("summary", {}, "Region as a table"), el("table", { class: "facts" }, el("tbody", {},
        row("Columns", `${r.column_from} to ${r.column_to}`), row("Rows", `${r.row_from} to ${r.row_to}`),
        row(names[0], `${number(r.x0)} to ${number(r.x1)}`), row(names[1], `${number(r.y0)} to ${number(r.y1)}`),
        row("Observed", whole(r.observed)), row("Expected", number(r.expected)), row("Log-likelihood ratio", number(r.llr)), row("p-value", number(r.p))))));
    return drawing.redraw;
  }

  // draw shows an answer of /blocks. It returns what draws it again and what ends it.
  function draw(box, blocks, a) {
    const drawings = [];
    if (blocks.heatmap) drawings.push(heatmap(box, blocks.heatmap, a, blocks.detector));
    if (a && a.region) drawings.push(region(box, blocks.grid, a));
    if (blocks.notes.length) box.append(el("ul", { class: "notes" }, blocks.notes.map((n) => el("li", {}, n))));
    const redraw = () => drawings.forEach((d) => d());
    const observer = new ResizeObserver(redraw);
    observer.observe(box);
    return { redraw, end: () => observer.disconnect() };
  }

  return { draw };
})();
