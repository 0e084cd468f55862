// The page of the last records of an input topic: what the worker reads of each, or why it is left out.
"use strict";

const recordsOf = { topic: "", limit: "20" };

function recordsPage() {
  const text = (v) => (v == null ? "missing" : String(v));
  const value = (v) => `${v.field}=${text(v.read)}${v.read != null && v.value !== v.read ? ` → ${text(v.value)}` : ""}${v.read != null && v.value == null && v.reason ? ` (${v.reason})` : ""}`;
  const list = table("Records", [
    { title: "Record", first: true, nowrap: true, cell: (r) => `${r.partition}/${r.offset}` },
    { title: "Outcome", cell: (r) => el("span", { class: r.outcome === "dead" ? "critical" : r.outcome === "read" ? null : "warn" }, r.outcome === "dead" ? `dead letter${r.class ? ` (${r.class})` : ""}` : r.interval ? `closes an interval${r.outcome === "read" ? "" : ` (${r.outcome})`}` : r.outcome) },
    { title: "Series", text: true, cell: (r) => r.series },
    { title: "Time", nowrap: true, cell: (r) => when(r.time) },
    { title: "Values", span: true, text: true, cell: (r) => r.values.map(value).join("  ") },
    { title: "Reason", span: true, text: true, cell: (r) => r.reason },
  ]);
  const note = el("p", { class: "hint" });
  const topics = el("select", { name: "topic" });
  const limit = el("select", { name: "limit" }, ["20", "50", "100"].map((n) => el("option", { value: n, selected: n === recordsOf.limit }, n)));
  const form = el("form", { class: "filters", "aria-label": "Records", onchange: (e) => {
    recordsOf[e.target.name] = e.target.value;
    refresh();
  }, onsubmit: (e) => e.preventDefault() }, el("label", {}, "Topic", topics), el("label", {}, "Last records", limit), button("Read again", () => refresh()));
  main.replaceChildren(el("h1", {}, "Records"), form, note, list.root);

  let turn = 0;
  async function refresh() {
    const mine = ++turn;
    const query = new URLSearchParams({ limit: recordsOf.limit });
    if (recordsOf.topic) query.set("topic", recordsOf.topic);
    const s = await api(`records?${query}`).catch((e) => {
      if (e instanceof Refused) throw e;
      return { topic: "", topics: [], records: [], summary: e.message };
    });
    if (mine !== turn) return; // a later request has been sent
    if (s.topics.length > 0) topics.replaceChildren(...s.topics.map((t) => el("option", { value: t, selected: t === s.topic }, t)));
    const rows = [];
    for (const r of s.records) {
      const row = (i, of) => rows.push({ key: `${s.topic}/${r.partition}/${r.offset}/${i}`, value: { partition: r.partition, offset: r.offset, class: r.class, ...of } });
      if (r.samples.length === 0) row(0, { outcome: r.outcome, reason: r.reason, series: "", time: r.timestamp, values: [] });
      r.samples.forEach((x, i) => row(i, { ...x, reason: x.reason || r.reason }));
      r.intervals.forEach((x, i) => row(`interval ${i}`, { ...x, interval: true, reason: x.reason }));
    }
    list.show(rows);
    list.root.hidden = rows.length === 0;
    set(note, s.summary);
  }
  return { name: "records", title: "Records", every: 3600000, refresh, end: () => {} };
}
