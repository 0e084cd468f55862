// The charts of a series: values with their usual range, expected values and the spans of anomalies, and below them the
// scores of each detector with their thresholds, all on one time axis.
"use strict";

const Charts = (() => {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  // short writes a number with all its digits if it has at most 10, as readings have; a computed one, such as a score, and a
  // float32 such as 2.799999952 with 7, which tell float32 values apart.
  function short(v) {
    if (v == null) return "–";
    const digits = (text) => text.replace(/e.*/, "").replace(/[-.]/g, "").replace(/^0+/, "").replace(/0+$/, "").length;
    const shown = digits(String(v)) <= 10 ? v : +v.toPrecision(7);
    return Math.abs(v) >= 1e9 || (v !== 0 && Math.abs(v) < 1e-4) ? shown.toExponential().replace("e+", "e") : String(shown);
  }

  // score writes a score, or another number that no one has measured.
  const score = (v) => short(v == null ? v : +v.toPrecision(5));

  // expected writes what was expected where actual was measured: to three digits of the difference, as in the summary.
  function expected(v, actual) {
    const apart = v == null || actual == null ? 0 : Math.abs(actual - v);
    if (apart === 0) return short(v);
    return short(+v.toFixed(Math.max(0, Math.min(15, 2 - Math.floor(Math.log10(apart))))));
  }

  const ms = (text) => Date.parse(text);

  // ticks labels places of an axis that are a step apart, with as many digits as tell them apart.
  function ticks(list) {
    const most = list.reduce((m, v) => Math.max(m, Math.abs(v)), 0);
    const step = list.length > 1 ? Math.abs(list[1] - list[0]) : most;
    const digits = most > 0 ? Math.min(15, Math.max(3, Math.ceil(Math.log10(most / step) + 2))) : 3;
    const power = most >= 1e6 || (most > 0 && most < 1e-3);
    return list.map((v) => (v == null ? "" : power && v !== 0 ? (+v.toPrecision(digits)).toExponential().replace("e+", "e") : String(+v.toPrecision(digits))));
  }

  const font = () => `12px ${getComputedStyle(document.body).fontFamily}`;

  // widest returns the width of the widest of some texts, in CSS pixels.
  function widest(texts) {
    const c = document.createElement("canvas").getContext("2d");
    c.font = font();
    return Math.ceil(Math.max(0, ...texts.map((t) => c.measureText(t).width)));
  }

  const day = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

  // steps are the steps of the time axis in milliseconds, each at most 2.5 times the one before: with uPlot's own, of 1 and 5
  // minutes, 3 minutes can be without a label.
  const steps = [[1, [1, 2, 5, 10, 20, 50, 100, 200, 500]], [1e3, [1, 2, 5, 10, 15, 30]], [6e4, [1, 2, 5, 10, 15, 30]], [36e5, [1, 2, 4, 6, 12]],
    [864e5, [1, 2, 4, 8, 15, 30, 60, 90, 180, 365, 730, 1825, 3650]]].flatMap(([unit, list]) => list.map((n) => n * unit));

  // clock labels the time axis in local time; the first label has the day. A step is in milliseconds.
  function clock(u, list, index, space, step) {
    const parts = step < 1000 ? { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 1 } :
      step < 60000 ? { hour: "2-digit", minute: "2-digit", second: "2-digit" } : step < 86400000 ? { hour: "2-digit", minute: "2-digit" } : { month: "short", day: "numeric" };
    const text = new Intl.DateTimeFormat(undefined, { ...parts, hourCycle: "h23" });
    return list.map((t, i) => (t == null ? "" : text.format(t) + (i === 0 || day.format(t) !== day.format(list[i - 1]) ? "\n" + day.format(t) : "")));
  }

  // spans returns a plugin that fills the time spans of anomalies behind the lines. One of a single sample is a line.
  function spans(anomalies) {
    return {
      hooks: {
        drawClear: (u) => {
          const { ctx } = u;
          const { left, top, width, height } = u.bbox;
          ctx.save();
          ctx.beginPath();
          ctx.rect(left, top, width, height);
          ctx.clip();
          for (const a of anomalies) {
            const from = u.valToPos(ms(a.start), "x", true);
            const to = Math.max(u.valToPos(ms(a.end), "x", true), from + 2 * devicePixelRatio);
            ctx.fillStyle = colour("--span");
            ctx.fillRect(from, top, to - from, height);
          }
          ctx.restore();
        },
      },
    };
  }

  function axis(extra) {
    return { stroke: colour("--dim"), font: font(), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid"), width: 1 }, ...extra };
  }

  // options returns what uPlot draws a chart with. Its label of a time may be at either end, so half of the widest one has place
  // beside both. gutter returns the width of the axis of values, by its labels.
  function options(height, width, anomalies, range, series, bands, gutter) {
    const label = widest(["00:00:00.0", ...Array.from({ length: 12 }, (_, month) => day.format(new Date(2000, month, 28)))]);
    const end = Math.ceil(label / 2) + 2;
    const beside = (u, labels) => Math.max(end, gutter(u, labels || []));
    // Where summer time begins, a step is an hour shorter and its label may reach into the one before.
    const labelled = (u, list, index, space, step) => list.map((t, i) => (t > u.scales.x.max || (i > 0 && ((t - list[i - 1]) / step) * space < label) ? null : t));
    return {
      width,
      height,
      ms: 1,
      series,
      bands,
      plugins: [spans(anomalies)],
      scales: { x: { time: true, range: (u, low, high) => (low == null ? range : [low, high]) } },
      padding: [null, end, null, (u, side, axes) => (axes[side] ? 0 : beside(u))], // without a value uPlot draws no axis of values
      axes: [axis({ values: clock, space: label + 8, incrs: steps, filter: labelled }), axis({ size: beside, values: (u, list) => ticks(list) })],
      cursor: { sync: { key: "series" }, drag: { x: true, y: false } },
      legend: { live: true },
    };
  }

  const time = { label: "time", value: (u, v) => (v == null ? "–" : new Date(v).toLocaleString()) };
  const line = (label, stroke, extra) => ({ label, stroke, width: 1.5, value: (u, v) => short(v), points: { size: 4 }, ...extra });

  // draw puts the charts of an answer of /series into a box. It returns what zooms and ends them.
  function draw(box, answer, field) {
    const plots = [];
    const width = () => Math.max(240, box.clientWidth - 16);
    const times = answer.times;
    const pad = Math.max(1000, (times[times.length - 1] - times[0]) * 0.01);
    const full = [times[0] - pad, times[times.length - 1] + pad];

    // gutter is the same for all charts, so that times are below each other: it follows the widest label that any of them has had.
    let room = 62;
    function gutter(u, labels) {
      const need = widest(labels) + 18; // with uPlot's tick and gap
      if (need > room) {
        room = need;
        queueMicrotask(() => plots.forEach((p) => p !== u && p.redraw(false, true)));
      }
      return room;
    }

    function chart(title, hint, data, opts) {
      const section = document.createElement("section");
      section.className = "chart";
      const head = document.createElement("h3");
      head.append(title, " ");
      const small = document.createElement("span");
      small.textContent = hint;
      head.append(small);
      section.append(head);
      box.append(section);
      const plot = new uPlot(opts, data, section);
      plot.root.setAttribute("role", "img");
      plot.root.setAttribute("aria-label", `${title}: ${hint}`);
      plots.push(plot);
    }

    const values = answer.values[field];
    const shown = answer.anomalies;
    const name = answer.fields[field];
    const expected = times.map(() => null);
    for (const a of shown) {
      const at = (a.fields || []).indexOf(name);
      const v = a.expected && at >= 0 ? a.expected[at] : null;
      const peak = ms(a.peak_time);
      if (v != null && peak >= times[0] && peak <= times[times.length - 1]) expected[nearest(times, peak)] = v;
    }
    const series = [time, line(name, colour("--values"))];
    const data = [times, values];
    const bands = [];
    const usual = answer.usual[field];
    const withBand = usual.low.some((v) => v != null);
    if (withBand) {
      const edge = { stroke: "transparent", width: 0, points: { show: false } };
      data.push(usual.high, usual.low);
      series.push(line("usual, to", "transparent", edge), line("from", "transparent", edge));
      bands.push({ series: [2, 3], fill: colour("--band") });
    }
    if (usual.detector) {
      data.push(usual.expected);
      series.push(line(`expected by ${usual.detector}`, colour("--expected"), { width: 1, points: { show: false } }));
    }
    if (expected.some((v) => v != null)) {
      data.push(expected);
      series.push(line("expected at a peak", colour("--expected"), { paths: () => null, points: { show: true, size: 9, fill: colour("--expected") } }));
    }
    const words = [`${times.length} samples`, `${shown.length} anomal${shown.length === 1 ? "y" : "ies"}, shaded`];
    if (usual.detector) words.push(`what ${usual.detector} expected, and 3 of its usual differences to either side`);
    else if (withBand) words.push(`usual range of the ${usual.over} samples before each`);
    chart(name, words.join("; "), data, options(box.clientWidth < 600 ? 220 : 270, width(), shown, full, series, bands, gutter));

    for (const s of answer.scores) {
      const own = shown.filter((a) => a.detector === s.detector);
      const known = s.threshold.some((v) => v != null);
      const list = [time, line("score", colour("--values"))];
      const rows = [s.times, s.scores];
      if (known) {
        list.push(line("threshold", colour("--threshold"), { width: 2, spanGaps: false, points: { show: false } }));
        rows.push(s.threshold);
      }
      const what = known ? `scores and threshold (${s.rule})` : `scores; threshold ${s.rule}: known only where an anomaly is`;
      chart(s.detector, `${s.op}: ${what}`, rows, options(box.clientWidth < 600 ? 170 : 190, width(), own, full, list, [], gutter));
    }

    const observer = new ResizeObserver(() => plots.forEach((p) => p.setSize({ width: width(), height: p.height })));
    observer.observe(box);
    const scale = () => [plots[0].scales.x.min, plots[0].scales.x.max];
    const zoomTo = (min, max) => plots.forEach((p) => p.setScale("x", { min, max }));
    zoomTo(...full);
    return {
      zoomTo,
      scale,
      reset: () => zoomTo(...full),
      zoom: (factor) => {
        const [min, max] = scale();
        const middle = (min + max) / 2;
        zoomTo(middle - ((max - min) * factor) / 2, middle + ((max - min) * factor) / 2);
      },
      move: (share) => {
        const [min, max] = scale();
        zoomTo(min + (max - min) * share, max + (max - min) * share);
      },
      end: () => {
        observer.disconnect();
        plots.forEach((p) => p.destroy());
      },
    };
  }

  // marks returns a plugin that draws rows of anomalies above a chart, a side each: filled where the other side has none.
  const markRow = 20;
  const belowMarks = 9; // half of the axis' highest label
  function marks(sides) {
    return {
      hooks: {
        draw: (u) => {
          const { ctx } = u;
          const { left, top, width } = u.bbox;
          const px = devicePixelRatio;
          ctx.save();
          ctx.font = `${12 * px}px ${getComputedStyle(document.body).fontFamily}`;
          ctx.textAlign = "right";
          ctx.textBaseline = "middle";
          sides.forEach((side, i) => {
            const y = top - ((sides.length - i) * markRow + belowMarks) * px;
            ctx.fillStyle = colour("--text");
            ctx.fillText(side.sensitivity, left - 8 * px, y + (markRow / 2) * px);
            ctx.fillStyle = ctx.strokeStyle = colour("--grid");
            ctx.fillRect(left, y + (markRow - 1) * px, width, px);
            for (const a of side.anomalies) {
              const from = Math.max(left, u.valToPos(ms(a.start), "x", true));
              const to = Math.min(left + width, Math.max(u.valToPos(ms(a.end), "x", true), from + 4 * px));
              if (to <= from) continue;
              ctx.fillStyle = ctx.strokeStyle = colour(a.both ? "--dim" : "--critical");
              ctx.lineWidth = px;
              if (a.both) ctx.strokeRect(from + px / 2, y + 4.5 * px, to - from - px, 10 * px);
              else ctx.fillRect(from, y + 4 * px, to - from, 11 * px);
            }
          });
          ctx.restore();
        },
      },
    };
  }

  // compare puts the charts of an answer of /backtest into a box: the values of each field, below the anomalies of both sides.
  function compare(box, answer) {
    const plots = [];
    const width = () => Math.max(240, box.clientWidth - 16);
    const { times, before, after } = answer;
    const half = times.slice(1).reduce((least, t, i) => Math.min(least, t - times[i]), Infinity) / 2;
    const pad = Math.max(1000, (times[times.length - 1] - times[0]) * 0.01);
    const full = [times[0] - pad, times[times.length - 1] + pad];
    const only = [...before.anomalies, ...after.anomalies].filter((a) => !a.both);
    answer.fields.forEach((name, field) => {
      const [x, y] = [[], []];
      times.forEach((t, i) => {
        const [low, high] = [answer.low[field][i], answer.high[field][i]];
        x.push(t);
        y.push(low);
        if (high !== low) {
          x.push(t + half);
          y.push(high);
        }
      });
      const section = document.createElement("section");
      section.className = "chart";
      const head = document.createElement("h3");
      const small = document.createElement("span");
      const words = `anomalies with ${before.sensitivity} and with ${after.sensitivity}: outlined where both have one, filled and shaded where one has none`;
      small.textContent = words;
      head.append(name, " ", small);
      section.append(head);
      box.append(section);
      let room = 62;
      const opts = options(box.clientWidth < 600 ? 230 : 260, width(), only, full, [time, line(name, colour("--values"), { points: { show: false } })], [], (u, labels) => (room = Math.max(room, widest(labels) + 18)));
      opts.plugins.push(marks([before, after]));
      opts.padding[0] = 2 * markRow + belowMarks + 4;
      delete opts.cursor.sync;
      const plot = new uPlot(opts, [x, y], section);
      plot.root.setAttribute("role", "img");
      plot.root.setAttribute("aria-label", `${name}: ${words}. ${before.sensitivity}: ${before.total}, ${after.sensitivity}: ${after.total}`);
      plots.push(plot);
    });
    const observer = new ResizeObserver(() => plots.forEach((p) => p.setSize({ width: width(), height: p.height })));
    observer.observe(box);
    return { end: () => {
      observer.disconnect();
      plots.forEach((p) => p.destroy());
    } };
  }

  // nearest returns the index of the sample nearest to a time.
  function nearest(times, t) {
    let low = 0;
    let high = times.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (times[middle] < t) low = middle + 1;
      else high = middle;
    }
    return low > 0 && t - times[low - 1] < times[low] - t ? low - 1 : low;
  }

  return { draw, compare, nearest, short, score, expected, widest };
})();
