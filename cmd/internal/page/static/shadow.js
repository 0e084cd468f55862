// The page that compares detectors in shadow mode with the others.
"use strict";

const shadowRange = { from: "", to: "" };

function shadowPage() {
  const rate = (v) => (v == null ? "–" : Number(v.toPrecision(2)).toLocaleString(undefined, { maximumFractionDigits: 6 }));
  const list = table("Detectors in shadow mode beside the others", [
    { title: "In shadow mode", first: true, sort: (r) => r.detector, cell: (r) => r.detector },
    { title: "Opened", number: true, sort: (r) => r.opened, cell: (r) => whole(r.opened) },
    { title: "Per series and day", number: true, nowrap: true, sort: (r) => r.rate ?? -1, cell: (r) => rate(r.rate) },
    { title: "Beside", sort: (r) => r.beside, cell: (r) => r.beside },
    { title: "Beside: opened", number: true, sort: (r) => r.other, cell: (r) => whole(r.other) },
    { title: "Beside: per series and day", number: true, nowrap: true, sort: (r) => r.otherRate ?? -1, cell: (r) => rate(r.otherRate) },
    { title: "Found by both", number: true, sort: (r) => r.both, cell: (r) => whole(r.both) },
    { title: "Only in shadow", number: true, sort: (r) => r.onlyShadow, cell: (r) => whole(r.onlyShadow) },
    { title: "Only beside", number: true, sort: (r) => r.onlyLive, cell: (r) => whole(r.onlyLive) },
  ]);
  const anomalies = table("Anomalies in shadow mode", [
    { title: "Series", first: true, text: true, sort: (a) => a.series, cell: (a) => [el("a", { href: seriesLink(a) }, a.series), a.muted && [" ", el("span", { class: "tag" }, "muted")]] },
    { title: "State", sort: (a) => a.state, cell: (a) => a.state },
    { title: "Since", nowrap: true, sort: (a) => a.start, cell: (a) => when(a.start) },
    { title: "Duration", nowrap: true, sort: (a) => Date.parse(a.end) - Date.parse(a.start), cell: lasting },
    { title: "Detector", sort: (a) => a.detector, cell: (a) => a.detector },
    { title: "Severity", sort: (a) => a.severity, cell: badge },
    { title: "Score / threshold", number: true, nowrap: true, sort: (a) => (a.peak_score ?? 0) / Math.abs(a.threshold || 1), cell: scores },
    { title: "Id", cell: (a) => el("span", { class: "id", title: a.id }, a.id.slice(0, 8) + "…") },
  ]);
  const head = el("h2");
  const note = el("p", { class: "hint" });
  const input = (name) => el("input", { name, value: shadowRange[name], type: "datetime-local", step: "1" });
  const form = el("form", { class: "filters", "aria-label": "Time range", oninput: (e) => {
    shadowRange[e.target.name] = e.target.value;
    refresh();
  }, onsubmit: (e) => e.preventDefault() }, el("label", {}, "From", input("from")), el("label", {}, "To", input("to")));
  main.replaceChildren(el("h1", {}, "Shadow mode"), form, note, list.root, head, anomalies.root);

  let turn = 0;
  async function refresh() {
    const mine = ++turn;
    const query = new URLSearchParams();
    for (const [k, v] of Object.entries(shadowRange)) if (v !== "") query.set(k, new Date(v).toISOString());
    const s = await api(`shadow?${query}`);
    if (mine !== turn) return; // a later request has been sent
    const rows = [];
    for (const d of s.detectors) {
      const row = (beside, other, otherRate, pair) => rows.push({ key: JSON.stringify([d.detector, beside]), value: { detector: d.detector, opened: d.opened,
        rate: d.per_series_day, beside, other, otherRate, both: pair.both, onlyShadow: pair.only_shadow, onlyLive: pair.only_live } });
      row("all others", d.live.reduce((n, l) => n + l.opened, 0), d.live.length ? d.live.reduce((n, l) => n + l.per_series_day, 0) : null, d);
      if (d.live.length > 1) for (const l of d.live) row(l.detector, l.opened, l.per_series_day, l);
    }
    list.show(rows);
    list.root.hidden = rows.length === 0;
    const all = s.open + s.closed;
    anomalies.show(s.anomalies.map((a) => ({ key: a.id, value: a })));
    set(head, "Anomalies in shadow mode ", el("span", { class: "count" }, s.anomalies.length < all ? `${s.anomalies.length} of ${whole(all)}` : whole(all)));
    anomalies.root.hidden = head.hidden = all === 0;
    const words = [el("span", {}, "Anomalies that opened from ", when(s.from), " to ", when(s.to), ". Both: one series, with an event time in common. "),
      `Rates are of this worker's partitions, with ${whole(s.series)} series. `];
    if (!s.topic) words.push("No detector is in shadow mode (SHADOW). ");
    else if (s.loading) words.push(`Loading … ${s.topic} is being read. `);
    if (s.truncated) words.push("Older anomalies are in the topics only: the numbers may lack some. ");
    if (s.fault) words.push(s.fault);
    set(note, ...words);
  }
  return { name: "shadow", title: "Shadow mode", every: 3000, refresh, end: () => {} };
}

// showShadow shows the way to the page where there is something to compare.
async function showShadow() {
  const s = await api("shadow?limit=1").catch(() => ({ topic: "" }));
  document.getElementById("shadow-link").hidden = !s.topic;
}
