// The page: anomalies of the group, one series, what operators have said, and this worker. Data comes from the JSON API of
// the worker that serves the page (openapi.json); text from it is only ever set as text.
"use strict";

const main = document.getElementById("main");
const dialog = document.getElementById("dialog");
let token = sessionStorage.getItem("token") || "";
let status = null; // the last answer of /status.json
let feedback = { feedback: [], writable: false }; // the last answer of /feedback
let view = null; // { name, refresh, end }

// Elements.

function el(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes || {})) {
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v === true) e.setAttribute(k, "");
    else if (v != null && v !== false) e.setAttribute(k, v);
  }
  e.append(...children.flat(Infinity).filter((c) => c != null && c !== false));
  return e;
}

const button = (text, onclick, attributes) => el("button", { type: "button", onclick, ...attributes }, text);

// Text.

const number = (v) => Charts.short(v);
const scores = (a) => `${Charts.score(a.peak_score)} / ${Charts.score(a.threshold)}`;
const whole = (v) => (v == null ? "–" : v.toLocaleString());
const local = (text) => new Date(text).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
const when = (text) => (text ? el("time", { datetime: text, title: new Date(text).toISOString() }, local(text)) : "–");

function duration(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const units = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];
  const at = units.findIndex(([n]) => ms >= n);
  const [n, unit] = units[at];
  let text = `${Math.floor(ms / n)} ${unit}`;
  if (at + 1 < units.length) {
    const rest = Math.floor((ms % n) / units[at + 1][0]);
    if (rest > 0) text += ` ${rest} ${units[at + 1][1]}`;
  }
  return text;
}

const seconds = (s) => (s === 0 ? "–" : duration(s * 1000));
const ago = (text, now) => (text && !text.startsWith("0001") ? `${duration(Math.max(0, Date.parse(now) - Date.parse(text)))} ago` : "–");

// lasting returns how long an anomaly lasts; of an open one, as far as its last record says.
function lasting(a) {
  if (a.state === "closed") return duration(Date.parse(a.end) - Date.parse(a.start));
  const so = Math.max(Date.parse(a.end), Date.parse(a.event_time)) - Date.parse(a.start);
  return so > 0 ? `≥ ${duration(so)}` : "just opened";
}

// field returns the index of the field that an anomaly is about.
const fieldOf = (a) => Math.max(0, (a.fields || []).indexOf(a.field));
const part = (list, a) => (list ? list[fieldOf(a)] : null);
const unit = (a) => (a.unit ? ` ${a.unit}` : "");
const usual = (a) => (a.spread ? ` ± ${number(+a.spread.toPrecision(2))}` : "") + unit(a);
const badge = (a) => el("span", { class: `badge ${a.band}` }, `${a.severity} ${a.band}`);
const seriesLink = (a) => `#/series?${new URLSearchParams({ key: a.series, topic: a.source.topic, partition: a.source.partition, anomaly: a.id })}`;

// The API.

class Refused extends Error {}

async function api(path, options) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const r = await fetch(path, { ...options, headers: { ...headers, ...(options || {}).headers } });
  const answer = await r.json().catch(() => ({ error: `${r.status} ${r.statusText}` }));
  if (r.status === 401) {
    askToken();
    throw new Refused(answer.error);
  }
  if (!r.ok) throw new Error(answer.error);
  return answer;
}

let asking = false;

function askToken() {
  document.getElementById("token-button").hidden = false;
  if (asking || dialog.open) return;
  asking = true;
  const input = el("input", { type: "password", autocomplete: "current-password", required: true, value: token, "aria-describedby": "token-hint" });
  const form = el("form", { onsubmit: (e) => {
    e.preventDefault();
    token = input.value;
    sessionStorage.setItem("token", token);
    dialog.close();
    refreshAll();
  } }, el("p", { class: "hint", id: "token-hint" }, "The worker asks for the token of ODRADEK_PAGE_TOKEN. It is kept until this tab is closed."),
  el("label", {}, "Token", input), el("div", { class: "actions" }, el("button", { class: "primary" }, "Use"), button("Cancel", () => dialog.close())));
  openDialog("Token", form);
}

function openDialog(title, ...content) {
  const back = document.activeElement;
  dialog.replaceChildren(el("h2", { id: "dialog-title" }, title), ...content);
  dialog.onclose = () => {
    asking = false;
    dialog.replaceChildren();
    if (back && back.isConnected) back.focus();
  };
  if (!dialog.open) dialog.showModal();
}

// Tables.

// table returns a table whose rows are kept by key, so that focus and selection outlive a refresh. columns are
// { title, cell, sort, number, first, span, nowrap }; sort returns what rows are ordered by.
function table(caption, columns) {
  let order = null;
  let rows = [];
  const kept = new Map();
  const body = el("tbody", { role: "rowgroup" });
  const heads = columns.map((c, i) => {
    const turn = () => { // descending, ascending, as it came
      if (!order || order.i !== i) order = { i, down: true };
      else order = order.down ? { i, down: false } : null;
      for (const h of heads) h.removeAttribute("aria-sort");
      if (order) heads[i].setAttribute("aria-sort", order.down ? "descending" : "ascending");
      show(rows);
    };
    return el("th", { scope: "col", role: "columnheader", class: c.number && "n" }, c.sort ? button(c.title, turn) : c.title);
  });
  const root = el("div", { class: "wide" }, el("table", { class: "cards", role: "table" }, el("caption", { class: "sr" }, caption),
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, heads)), body));

  function show(list) {
    rows = list;
    if (order) {
      const by = columns[order.i].sort;
      list = [...list].sort((a, b) => {
        const x = by(a.value);
        const y = by(b.value);
        return (x < y ? -1 : x > y ? 1 : 0) * (order.down ? -1 : 1);
      });
    }
    const seen = new Set(list.map((r) => r.key));
    for (const [key, row] of kept) {
      if (seen.has(key)) continue;
      row.tr.remove();
      kept.delete(key);
    }
    list.forEach((r, i) => {
      let row = kept.get(r.key);
      if (!row) {
        row = { tr: el("tr", { role: "row", "data-key": r.key }), version: null };
        kept.set(r.key, row);
      }
      const version = JSON.stringify(r.value);
      if (row.version !== version) {
        const focused = [...row.tr.querySelectorAll("a,button")].indexOf(document.activeElement);
        row.version = version;
        row.tr.replaceChildren(...columns.map((c) => el("td", { role: "cell", "data-label": c.title,
          class: [c.number && "n", c.first && "first", c.span && "span", c.nowrap && "nowrap", c.text && "text"].filter(Boolean).join(" ") || null }, c.cell(r.value))));
        if (focused >= 0) row.tr.querySelectorAll("a,button")[focused]?.focus();
      }
      if (body.children[i] !== row.tr) body.insertBefore(row.tr, body.children[i] || null);
    });
  }
  return { root, show };
}

// set replaces an element's content only where it changes, so that what is being read stays.
function set(e, ...content) {
  const next = el("div", {}, ...content);
  if (e.innerHTML !== next.innerHTML) e.replaceChildren(...next.childNodes);
}

// Anomalies.

const filters = { series: "", detector: "", min_severity: "0", state: "", from: "", to: "" };

function anomaliesPage() {
  const open = anomalyTable("Open anomalies");
  const closed = anomalyTable("Closed anomalies");
  const openHead = el("h2", { id: "open-head" });
  const closedHead = el("h2");
  const note = el("p", { class: "hint" }, "Loading …");
  const detector = el("select", { name: "detector" }, el("option", { value: "" }, "all"));
  const change = (e) => {
    filters[e.target.name] = e.target.value;
    refresh();
  };
  const input = (name, attributes) => el("input", { name, value: filters[name], ...attributes });
  const form = el("form", { class: "filters", role: "search", "aria-label": "Filter anomalies", oninput: change, onsubmit: (e) => e.preventDefault() },
    el("label", {}, "Series", input("series", { type: "search", placeholder: "part, or pump-*" })),
    el("label", {}, "Detector", detector),
    el("label", {}, "Severity from", el("select", { name: "min_severity" }, [["0", "any"], ["50", "50"], ["67", "67"], ["83", "83"], ["100", "100"]].map(
      ([v, t]) => el("option", { value: v, selected: v === filters.min_severity }, t)))),
    el("label", {}, "State", el("select", { name: "state" }, [["", "open and closed"], ["open", "open"], ["closed", "closed"]].map(
      ([v, t]) => el("option", { value: v, selected: v === filters.state }, t)))),
    el("label", {}, "From", input("from", { type: "datetime-local", step: "1" })),
    el("label", {}, "To", input("to", { type: "datetime-local", step: "1" })),
    button("Clear", () => {
      for (const k of Object.keys(filters)) filters[k] = k === "min_severity" ? "0" : "";
      for (const e of form.elements) if (e.name) e.value = filters[e.name];
      refresh();
    }));
  main.replaceChildren(el("h1", {}, "Anomalies"), form, note, openHead, open.root, closedHead, closed.root);

  let turn = 0;
  async function refresh() {
    const mine = ++turn;
    const query = new URLSearchParams();
    for (const [k, v] of Object.entries(filters)) {
      if (v === "" || (k === "min_severity" && v === "0")) continue;
      query.set(k, k === "from" || k === "to" ? new Date(v).toISOString() : v);
    }
    const list = await api(`anomalies?${query}`);
    if (mine !== turn) return; // a later request has been sent
    const rows = (state) => list.anomalies.filter((a) => a.state === state).map((a) => ({ key: a.id, value: a }));
    open.show(rows("open"));
    closed.show(rows("closed"));
    const shown = (state, all, faults) => {
      const n = rows(state).length;
      const of = faults < all ? `, of ${faults === 1 ? "one fault" : `${whole(faults)} faults`}` : "";
      return list.loading && n === 0 ? "…" : (n < all ? `${n} of ${whole(all)}` : whole(all)) + of;
    };
    set(openHead, "Open ", el("span", { class: "count" }, shown("open", list.open, list.open_faults)));
    set(closedHead, "Closed ", el("span", { class: "count" }, shown("closed", list.closed, list.closed_faults)));
    open.root.hidden = openHead.hidden = filters.state === "closed";
    closed.root.hidden = closedHead.hidden = filters.state === "open";
    const words = [];
    if (list.loading) words.push(`Loading … ${list.topic} is being read.`);
    else if (list.open + list.closed === 0) words.push("No anomaly matches.");
    if (list.truncated) words.push("Older anomalies are in the topic only.");
    if (list.fault) words.push(list.fault);
    set(note, words.join(" "));
    for (const name of list.detectors) if (![...detector.options].some((o) => o.value === name)) detector.append(el("option", { value: name }, name));
    detector.value = filters.detector;
  }
  return { name: "anomalies", title: "Anomalies", every: 1500, refresh, end: () => {} };
}

function anomalyTable(caption) {
  return table(caption, [
    { title: "Series", first: true, text: true, sort: (a) => a.series, cell: (a) => [el("a", { href: seriesLink(a) }, a.series), a.muted && [" ", el("span", { class: "tag" }, "muted")],
      a.like && [" ", el("span", { class: "tag", title: "Labelled false alarms that it resembles: " + a.like.labels.join(", ") }, `like ${a.like.count} false alarms`)],
      a.recurs && [" ", el("span", { class: "tag" }, `recurs ${a.recurs}`)],
      a.label && [" ", el("span", { class: "tag" }, a.label === "confirm" ? "confirmed" : "false alarm")]] },
    { title: "Since", nowrap: true, sort: (a) => (a.escalation || a).start, cell: (a) => when((a.escalation || a).start) },
    { title: "Duration", nowrap: true, sort: (a) => Date.parse(a.end) - Date.parse(a.start), cell: lasting },
    { title: "Detector", sort: (a) => a.detector, cell: (a) => (a.member ? `${a.detector}: ${a.member}` : a.detector) },
    { title: "Severity", sort: (a) => a.severity, cell: badge },
    { title: "Summary", text: true, span: true, cell: (a) => a.summary || "–" },
    { title: "Score / threshold", number: true, nowrap: true, sort: (a) => (a.peak_score ?? 0) / Math.abs(a.threshold || 1), cell: scores },
    { title: "Expected", number: true, nowrap: true, cell: (a) => Charts.expected(part(a.expected, a), part(a.actual, a)) + usual(a) },
    { title: "Actual", number: true, cell: (a) => number(part(a.actual, a)) + unit(a) + (a.field && (a.fields || []).length > 1 ? ` (${a.field})` : "") },
    { title: "Id", span: true, cell: (a) => button(a.id.slice(0, 8) + "…", () => anomalyDialog(a), { class: "link id", title: a.id, "aria-label": `Details of anomaly ${a.id}` }) },
    { title: "Fault", nowrap: true, sort: (a) => a.fault, cell: (a) => el("code", { title: a.fault }, a.fault.slice(0, 8) + "…") },
  ]);
}

function details(a) {
  const row = (name, value) => value != null && value !== "" && [el("dt", {}, name), el("dd", {}, value)];
  const list = (values, write) => values && values.map((v, i) => `${(a.fields || [])[i] || i}: ${write(v, i)}`).join(", ");
  const copied = el("span", { role: "status" });
  return el("dl", {},
    row("Id", [el("code", {}, a.id), " ", button("Copy", async () => {
      try {
        await navigator.clipboard.writeText(a.id);
        copied.textContent = " copied";
      } catch {
        copied.textContent = " select and copy it: the browser allows copying over HTTPS and on this host only";
      }
    }), copied]),
    row("State", a.reason ? `${a.state}: ${a.reason}` : a.state), row("Severity", badge(a)), row("Series", a.series), row("Input topic", a.source.topic), row("Detector", a.member ? `${a.detector}: ${a.member}` : a.detector),
    row("Summary", a.summary), row("Recurs", a.recurs), row("Start", when(a.start)), row(`At this severity`, a.escalation && `${when(a.escalation.start)}, since the sample of ${when(a.escalation.since)}`), row("End so far", when(a.end)), row("Peak", when(a.peak_time)), row("Opened at", when(a.opened_at)),
    row("Samples over the threshold", whole(a.samples)), row("Score / threshold", scores(a)),
    row("Rank", a.rank == null ? null : `one in ${whole(Math.max(1, Math.round(1 / a.rank)))}`), row("Expected", list(a.expected, (v, i) => Charts.expected(v, (a.actual || [])[i]))), row("Actual", list(a.actual, number)),
    row("Contribution", list(a.contribution, Charts.score)), row("Carried by", a.carried_by), row("Usually within", a.spread && `${number(+a.spread.toPrecision(2))}${unit(a)}`), row("Fault", el("code", {}, a.fault)), row("Group", a.group && el("code", {}, a.group)),
    row("Region", a.region && `columns ${a.region.column_from}–${a.region.column_to}, rows ${a.region.row_from}–${a.region.row_to}: ${whole(a.region.observed)} observed, ${number(a.region.expected)} expected`),
    row("Caused by", `${a.source.topic}, partition ${a.source.partition}, offset ${a.source.offset}`),
    row("Said of it", a.label && (a.label === "confirm" ? "confirmed" : "false alarm")));
}

function anomalyDialog(a) {
  openDialog(`Anomaly of ${a.series}`, details(a), sayForms(a), el("p", {}, el("a", { href: seriesLink(a), onclick: () => dialog.close() }, "Values and scores"), " ",
    button("Close", () => dialog.close())));
}

// sayForms returns what mutes and labels.
function sayForms(a) {
  if (!feedback.writable) {
    return el("p", { class: "hint" }, feedback.topic === "" ? "Feedback is off (ODRADEK_FEEDBACK_TOPIC)." :
      "To mute and label here, start the worker with ODRADEK_PAGE_TOKEN; or use worker mute and worker feedback.");
  }
  const result = el("p", { role: "status" });
  const reason = el("input", { name: "reason", maxlength: "500" });
  const author = el("input", { name: "author", maxlength: "100", value: localStorage.getItem("author") || "" });
  async function say(what, done) {
    try {
      localStorage.setItem("author", author.value);
      const said = await api("feedback", { method: "POST", body: JSON.stringify({ ...what, reason: reason.value, author: author.value }),
        headers: { "Content-Type": "application/json" } });
      result.className = "good";
      result.textContent = `${done}: ${said.id}`;
      refreshAll();
    } catch (e) {
      result.className = "error";
      result.textContent = e.message;
    }
  }
  const keys = el("input", { name: "keys", required: true, value: a.series, "aria-describedby": "keys-hint" });
  const topic = el("select", { name: "topic" }, el("option", { value: a.source.topic }, `${a.source.topic} only`), el("option", { value: "" }, "all topics"));
  const only = el("select", { name: "only" }, el("option", { value: a.detector }, `${a.detector} only`), el("option", { value: "" }, "all detectors"));
  const length = el("select", { name: "length" }, [["3600", "1 hour"], ["14400", "4 hours"], ["86400", "1 day"], ["604800", "1 week"], ["", "until removed"]].map(
    ([v, t]) => el("option", { value: v }, t)));
  const form = el("form", { onsubmit: (e) => {
    e.preventDefault();
    // Event time: a mute of an open anomaly begins with it, so that it covers what is happening.
    const what = { kind: "mute", keys: keys.value, from: a.start };
    if (topic.value) what.topic = topic.value;
    if (only.value) what.detector = only.value;
    if (length.value) what.to = new Date(Math.max(Date.now(), Date.parse(a.event_time)) + 1000 * length.value).toISOString();
    say(what, "Muted");
  } },
  el("div", { class: "row" }, el("label", {}, "Series that match", keys), el("label", {}, "Input topic", topic), el("label", {}, "Detector", only)),
  el("span", { class: "hint", id: "keys-hint" }, "* stands for any text and ? for one byte."),
  el("div", { class: "row" }, el("label", {}, "For", length), el("div", { class: "actions end" }, el("button", { class: "primary" }, "Mute"))));
  return el("fieldset", {}, el("legend", {}, "Feedback"), el("div", { class: "row" }, el("label", {}, "Reason", reason), el("label", {}, "Author", author)), form,
    el("div", { class: "actions below" }, button("It was a fault", () => say({ kind: "confirm", anomaly: a.id }, "Confirmed")),
      button("False alarm", () => say({ kind: "false_alarm", anomaly: a.id }, "Labelled"))), result);
}

// One series.

function seriesPage(query) {
  const key = query.get("key") || "";
  let samples = Number(query.get("samples")) || 500;
  let charts = null;
  let answer = null;
  let field = null;
  const box = el("div", { id: "charts", tabindex: "0", role: "group", "aria-label": "Charts. Keys: plus and minus zoom, arrows move, 0 shows all.", onkeydown: (e) => {
    const step = { "+": () => charts.zoom(0.5), "=": () => charts.zoom(0.5), "-": () => charts.zoom(2), ArrowLeft: () => charts.move(-0.2), ArrowRight: () => charts.move(0.2), 0: () => charts.reset() }[e.key];
    if (!charts || !step || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    step();
  } });
  const list = anomalyTable(`Anomalies of ${key}`);
  const notes = el("ul", { class: "notes" });
  const choice = el("select", { onchange: (e) => {
    field = Number(e.target.value);
    draw();
  } });
  const choiceLabel = el("label", { hidden: true }, "Field", choice);
  const gridBox = el("div", { id: "grids" });
  let grids = null;
  const data = el("details", { hidden: true });
  const more = button("More history", () => {
    samples = Math.min(20000, samples * 4);
    load();
  });
  const toolbar = el("div", { class: "toolbar", role: "toolbar", "aria-label": "Time axis" }, choiceLabel, button("Anomaly", () => charts && toAnomaly()),
    button("Zoom in", () => charts && charts.zoom(0.5)), button("Zoom out", () => charts && charts.zoom(2)), button("Earlier", () => charts && charts.move(-0.5)),
    button("Later", () => charts && charts.move(0.5)), button("All", () => charts && charts.reset()), more, button("Reload", () => load()));
  const state = el("p", { class: "hint", role: "status" }, "Reading …");
  const trial = backtestPanel(key, () => (answer && answer.anchor ? { topic: answer.anchor.topic, partition: answer.anchor.partition } : {}));
  main.replaceChildren(el("p", { class: "back" }, el("a", { href: "#/" }, "All anomalies")), el("h1", {}, key), state, toolbar, box, gridBox, data, notes,
    trial.root, el("h2", {}, "Anomalies of the series"), list.root);

  function current() {
    return answer.anomalies.find((a) => a.id === query.get("anomaly")) || answer.anomalies[answer.anomalies.length - 1];
  }

  function toAnomaly() {
    const a = current();
    if (!a) return charts.reset();
    const from = Date.parse(a.start);
    const to = Date.parse(a.end);
    const span = answer.times[answer.times.length - 1] - answer.times[0];
    const pad = Math.max(to - from, span / 40, 1000);
    charts.zoomTo(from - 2 * pad, to + 2 * pad);
  }

  function draw(keep = true) { // keep leaves the time axis as it is
    const was = keep && charts && charts.scale();
    if (charts) charts.end();
    charts = null;
    box.replaceChildren();
    if (answer.times.length > 1) {
      charts = Charts.draw(box, answer, field);
      if (was) charts.zoomTo(...was);
    }
    toolbar.hidden = !charts;
  }

  // loadGrids shows the heatmap or the grid of an anomaly's detector.
  async function loadGrids(a) {
    let blocks = null;
    try {
      blocks = a && await api(`blocks?${new URLSearchParams({ anomaly: a.id })}`);
    } catch (e) {
      blocks = { notes: [e.message] };
    }
    if (view.page !== self) return;
    if (grids) grids.end();
    gridBox.replaceChildren();
    grids = blocks && Grids.draw(gridBox, blocks, a);
  }

  async function load() {
    state.textContent = "Reading …";
    const was = answer;
    try {
      const q = new URLSearchParams({ key, samples });
      for (const name of ["topic", "partition", "anomaly"]) if (query.get(name)) q.set(name, query.get(name));
      answer = await api(`series?${q}`);
    } catch (e) {
      state.textContent = e.message;
      toolbar.hidden = !was;
      return;
    }
    if (view.page !== self) return;
    choice.replaceChildren(...answer.fields.map((f, i) => el("option", { value: i }, f)));
    choiceLabel.hidden = answer.fields.length < 2;
    if (field == null || field >= answer.fields.length) field = Math.max(0, answer.fields.indexOf(current()?.field));
    choice.value = field;
    draw(was && was.times.length === answer.times.length);
    const read = `${whole(answer.records)} records read, ${(answer.bytes / 1048576).toFixed(1)} of at most ${answer.budget / 1048576} MiB`;
    state.textContent = answer.times.length ? `${whole(answer.times.length)} samples from ${local(answer.times[0])} to ${local(answer.times[answer.times.length - 1])} (${read}).` : `No samples (${read}).`;
    more.disabled = !answer.more || samples >= 20000;
    notes.replaceChildren(...answer.notes.map((n) => el("li", {}, n)));
    list.show(answer.anomalies.slice().reverse().map((a) => ({ key: a.id, value: a })));
    data.hidden = !answer.times.length;
    data.replaceChildren(el("summary", {}, "Samples around the peak as a table"), sampleTable(answer, current()));
    loadGrids(current());
  }

  const self = {};
  return { page: self, name: "anomalies", title: key, every: 4000, load, refresh: async () => {
    trial.refresh();
    if (!answer) return;
    const now = await api(`anomalies?${new URLSearchParams({ series: key, topic: answer.anchor.topic, partition: answer.anchor.partition, limit: 2000 })}`);
    const have = new Map(answer.anomalies.map((a) => [a.id, a]));
    const fresh = now.anomalies.filter((a) => a.series === key && have.has(a.id));
    fresh.forEach((a) => have.set(a.id, a));
    list.show([...have.values()].reverse().map((a) => ({ key: a.id, value: a })));
  }, redraw: () => {
    if (answer) draw();
    if (grids) grids.redraw();
    trial.redraw();
  }, end: () => {
    trial.end();
    if (charts) charts.end();
    if (grids) grids.end();
  } };
}

// sampleTable is the text of a chart: 25 samples on each side of the peak.
function sampleTable(answer, a) {
  const at = a ? Charts.nearest(answer.times, Date.parse(a.peak_time)) : answer.times.length - 1;
  const from = Math.max(0, at - 25);
  const rows = answer.times.slice(from, at + 26).map((t, i) => el("tr", {}, el("td", {}, new Date(t).toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium", hourCycle: "h23" })),
    answer.values.map((v) => el("td", { class: "n" }, number(v[from + i]))), el("td", {}, answer.anomalies.filter((x) => t >= Date.parse(x.start) && t <= Date.parse(x.end)).map((x) => x.detector).join(", "))));
  return el("div", { class: "wide" }, el("table", {}, el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Time"), answer.fields.map((f) => el("th", { scope: "col", class: "n" }, f)), el("th", { scope: "col" }, "Anomaly of"))), el("tbody", {}, rows)));
}

// What operators have said.

function feedbackPage() {
  const note = el("p", { class: "hint" });
  const result = el("p", { role: "status" });
  const list = table("What operators have said", [
    { title: "Id", first: true, cell: (f) => el("code", {}, f.id) },
    { title: "Kind", sort: (f) => f.kind, cell: (f) => f.kind.replace("_", " ") + (f.to && Date.parse(f.to) < Date.now() ? " (over)" : "") },
    { title: "Series, anomaly", text: true, span: true, cell: (f) => (f.anomaly ? el("code", {}, f.anomaly) : f.keys || "all") },
    { title: "Input topic", text: true, cell: (f) => (f.anomaly ? "–" : f.topic ? f.topic + (f.partition == null ? "" : `/${f.partition}`) : "all") },
    { title: "Detector", cell: (f) => f.detector || (f.anomaly ? "–" : "all") },
    { title: "Side", cell: (f) => f.direction || "–" },
    { title: "From", cell: (f) => (f.anomaly ? "–" : f.from ? when(f.from) : "always") },
    { title: "To", cell: (f) => (f.anomaly ? "–" : f.to ? when(f.to) : "never over") },
    { title: "Author", cell: (f) => f.author || "–" },
    { title: "Reason", text: true, cell: (f) => f.reason || "–" },
    { title: "", cell: (f) => feedback.writable && button("Remove", async () => {
      try {
        await api(`feedback?${new URLSearchParams({ id: f.id })}`, { method: "DELETE" });
        result.textContent = `${f.id} is removed.`;
        refreshAll();
      } catch (e) {
        result.textContent = e.message;
      }
    }, { "aria-label": `Remove ${f.id}` }) },
  ]);
  main.replaceChildren(el("h1", {}, "Mutes and labels"), note, result, list.root);
  return { name: "feedback", title: "Mutes and labels", every: 2000, refresh: async () => {
    await readFeedback();
    const words = feedback.topic ? [`Records of ${feedback.topic}.`] : ["Feedback is off (ODRADEK_FEEDBACK_TOPIC)."];
    if (feedback.topic && !feedback.writable) words.push("Set ODRADEK_PAGE_TOKEN to write them here; worker mute and worker feedback write them too.");
    if (feedback.loading) words.push("Loading …");
    else if (feedback.topic && feedback.feedback.length === 0) words.push("Nothing has been said. Mute or label an anomaly by its id in the list of anomalies.");
    if (feedback.total > feedback.feedback.length || feedback.truncated) words.push(`The newest ${whole(feedback.feedback.length)} are listed.`);
    if (feedback.fault) words.push(feedback.fault);
    set(note, words.join(" "));
    list.show(feedback.feedback.map((f) => ({ key: f.id, value: f })));
  }, end: () => {} };
}

async function readFeedback() {
  try {
    feedback = await api(`feedback?limit=${view.name === "feedback" ? 2000 : 1}`); // other views ask whether it can be written
  } catch (e) {
    feedback = { feedback: [], writable: false, topic: "", fault: e.message };
  }
}

// Routes and refreshing.

let failed = "";

async function readStatus() {
  try {
    status = await api("status.json");
    failed = "";
  } catch (e) {
    failed = e instanceof Refused ? "" : `No answer from the worker: ${e.message}`;
  }
  const box = document.getElementById("alerts");
  set(box, failed && el("div", { class: "alert bad" }, failed), status ? alerts(status) : null);
  if (!status) return;
  document.getElementById("group").textContent = status.group;
  const outcome = (name) => status.outcomes.reduce((n, o) => n + o.parts.filter((p) => p.name.startsWith(name)).reduce((m, p) => m + p.records, 0), 0);
  const lag = status.partitions.reduce((n, p) => n + p.lag, 0);
  const item = (name, value, bad) => el("span", { class: bad && "warn" }, `${name} `, el("b", {}, value));
  const restoring = status.partitions.filter((p) => !p.running && !p.quarantine).length;
  set(document.getElementById("summary"), item("", restoring ? `restoring ${restoring}` : status.state, status.state !== "running"),
    item("records/s", whole(Math.round(status.records_per_second))), item("lag", whole(lag)), item("warming up", whole(outcome("warming up"))),
    item("missing", whole(outcome("missing"))), item("late", whole(outcome("late"))), item("dead", whole(outcome("dead: ")), outcome("dead: ") > 0), item("on", status.executor));
}

async function refreshView() {
  const mine = view;
  try {
    await mine.refresh();
  } catch (e) {
    if (!(e instanceof Refused) && mine === view) set(document.getElementById("alerts"), el("div", { class: "alert bad" }, e.message));
  }
}

async function refreshAll() {
  await Promise.all([readStatus(), readFeedback()]);
  if (view.load && !view.loaded) {
    view.loaded = true;
    view.load();
  }
  await refreshView();
}

function route() {
  const [path, search] = (location.hash.slice(1) || "/").split("?");
  const pages = { "/": anomaliesPage, "/series": seriesPage, "/feedback": feedbackPage, "/shadow": shadowPage, "/records": recordsPage, "/worker": workerPage };
  if (view) view.end();
  view = (pages[path] || anomaliesPage)(new URLSearchParams(search || ""));
  document.title = `${view.title} · Odradek`;
  for (const a of document.querySelectorAll("nav a")) {
    if (a.dataset.page === view.name) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  scrollTo(0, 0);
  main.focus({ preventScroll: true });
  view.next = 0;
  refreshAll();
  showShadow();
}

let ticks = 0;
setInterval(() => {
  if (document.hidden || dialog.open && asking) return;
  if (++ticks % 6 === 0) readStatus();
  if (ticks % 10 === 0) readFeedback();
  if (ticks % Math.round(view.every / 500) === 0) refreshView();
}, 500);

document.getElementById("token-button").addEventListener("click", askToken);
document.getElementById("zone").textContent = `Times are local (${Intl.DateTimeFormat().resolvedOptions().timeZone}); hover for UTC`;
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view.redraw && view.redraw());
if (token) document.getElementById("token-button").hidden = false;
addEventListener("hashchange", route);
route();
