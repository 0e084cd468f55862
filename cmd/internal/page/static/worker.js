// The page of one worker, and the alerts about it on every page.
"use strict";

function workerPage() {
  const big = el("div", { class: "big" });
  const intro = el("p", { class: "hint" });
  const partitions = table("Partitions of this worker", [
    { title: "Partition", first: true, sort: (p) => `${p.topic}/${String(p.partition).padStart(6, "0")}`, cell: (p) => `${p.topic}/${p.partition}` },
    { title: "State", span: true, cell: partitionState },
    { title: "Committed", number: true, cell: (p) => whole(p.committed) },
    { title: "End", number: true, cell: (p) => whole(p.end) },
    { title: "Lag", number: true, sort: (p) => p.lag, cell: (p) => whole(p.lag) },
    { title: "Records/s", number: true, sort: (p) => p.records_per_second, cell: (p) => whole(Math.round(p.records_per_second)) },
    { title: "Series", number: true, sort: (p) => p.keys, cell: (p) => whole(p.keys) },
    { title: "Open", number: true, sort: (p) => p.open, cell: (p) => whole(p.open) },
    { title: "Held", number: true, cell: (p) => whole(p.held) },
    { title: "Late", number: true, sort: (p) => p.late, cell: (p) => (p.late ? el("span", { class: "warn" }, whole(p.late)) : "0") },
    { title: "Watermark", nowrap: true, cell: (p) => when(p.watermark) },
    { title: "Committed at", nowrap: true, cell: (p) => ago(p.committed_at, status.now) },
  ]);
  const outcomes = table("Records since the start", [
    { title: "Topic", first: true, cell: (o) => o.topic },
    { title: "Consumed", number: true, cell: (o) => whole(o.consumed) },
    { title: "Samples", number: true, cell: (o) => whole(o.samples) },
    { title: "Of them", span: true, text: true, cell: (o) => o.parts.map((p, i) => [i > 0 && ", ", el("span", { class: p.name.startsWith("dead: ") && p.share > 0.01 ? "warn" : null },
      `${Number((100 * p.share).toPrecision(2))} % ${p.name} (${whole(p.records)})`)]) },
  ]);
  const detectors = table("Detectors", [
    { title: "Name", first: true, cell: (d) => (d.mapping ? `${d.name} (mapping ${d.mapping})` : d.name) },
    { title: "Method", cell: (d) => d.op },
    { title: "Fields", text: true, cell: (d) => d.fields },
    { title: "Series", text: true, cell: (d) => d.keys },
    { title: "Window", number: true, cell: (d) => whole(d.window) },
    { title: "Stride", number: true, cell: (d) => whole(d.stride) },
    { title: "Threshold", cell: (d) => d.threshold },
  ]);
  const faults = table("Last warnings and errors", [
    { title: "What", first: true, text: true, cell: (f) => f.text },
    { title: "Level", cell: (f) => el("span", { class: f.level === "ERROR" ? "critical" : "warn" }, f.level) },
    { title: "Times", number: true, cell: (f) => whole(f.count) },
    { title: "Last", nowrap: true, cell: (f) => when(f.time) },
  ]);
  const none = el("p", { class: "empty" }, "None assigned.");
  const calm = el("p", { class: "empty" }, "None.");
  main.replaceChildren(el("h1", {}, "Worker"), intro, big, el("h2", {}, "Partitions"), none, partitions.root, el("h2", {}, "Records since the start"), outcomes.root,
    el("h2", {}, "Detectors"), detectors.root, el("h2", {}, "Last warnings and errors"), calm, faults.root);
  return { name: "worker", title: "Worker", every: 3000, refresh: async () => {
    const s = status;
    if (!s) return;
    const sum = (k) => s.partitions.reduce((n, p) => n + p[k], 0);
    const gpus = s.gpus.map((g) => `${g.name} (${g.index})${g.up ? "" : ", out of service"}`).join("; ");
    set(intro, [s.instance && `instance ${s.instance}`, s.state, s.guarantee.replaceAll("_", " "), `executor ${s.executor}`, gpus, `version ${s.version}`,
      `started ${ago(s.started, s.now)}`].filter(Boolean).join(" · "));
    const figure = (value, name) => el("div", {}, value, el("small", {}, name));
    set(big, figure(whole(Math.round(s.records_per_second)), "records/s"), figure(whole(sum("lag")), "lag, records"), figure(whole(sum("keys")), "series"), figure(whole(sum("open")), "open anomalies"),
      figure(s.event_to_score.map(seconds).join(" / "), "event to score, p50 / p99"), figure(s.ingest_to_score.map(seconds).join(" / "), "receipt to score, p50 / p99"));
    none.hidden = s.partitions.length > 0;
    partitions.root.hidden = !none.hidden;
    partitions.show(s.partitions.map((p) => ({ key: `${p.topic}/${p.partition}`, value: p })));
    outcomes.show(s.outcomes.map((o) => ({ key: o.topic, value: o })));
    detectors.show(s.detectors.map((d) => ({ key: `${d.name} ${d.mapping || ""}`, value: d })));
    calm.hidden = s.faults.length > 0;
    faults.root.hidden = !calm.hidden;
    faults.show(s.faults.map((f) => ({ key: f.level + f.text, value: f })));
  }, end: () => {} };
}

function partitionState(p) {
  const parts = [];
  if (p.quarantine) parts.push(el("span", { class: "warn" }, `quarantined: ${p.quarantine.reason} at ${whole(p.quarantine.offset)}`));
  else if (p.running) parts.push("running");
  else parts.push(el("span", { class: "warn" }, p.remaining > 0 ? `restoring: ${whole(p.remaining)} offsets to read` : "restoring"));
  if (p.lost) parts.push(", ", el("span", { class: "warn" }, `no answer from its broker for ${seconds(p.fetch_age_seconds)}`));
  if (p.hold) parts.push(", ", el("span", { class: "warn" }, `held since ${ago(p.hold_since, status.now)}: ${p.hold}`));
  return parts;
}

// alerts lists what is wrong with this worker, on every page.
function alerts(s) {
  const list = [];
  const add = (text, bad) => list.push(el("div", { class: bad ? "alert bad" : "alert" }, text));
  for (const p of s.partitions) {
    if (p.quarantine) add([`${p.topic}/${p.partition} is paused since `, when(p.quarantine.since), `: ${p.quarantine.detail}`], true);
    if (p.hold) add(`${p.topic}/${p.partition} waits since ${ago(p.hold_since, s.now)}: ${p.hold}`);
    if (p.lost) add(`${p.topic}/${p.partition}: no answer from its broker`, true);
    if (p.fast_clock) add(`${p.topic}/${p.partition}: ${p.fast_clock}`);
  }
  for (const o of s.outcomes) {
    const dead = o.parts.filter((p) => p.name.startsWith("dead: "));
    const share = dead.reduce((n, p) => n + p.share, 0);
    const late = o.parts.filter((p) => p.name === "late").reduce((n, p) => n + p.share, 0);
    if (share > 0.01) add(`${(100 * share).toPrecision(2)} % of the records of ${o.topic} since the start are dead letters: ${dead.map((p) => p.name.slice(6)).join(", ")}. worker dlq list shows them.`, share > 0.5);
    if (late > 0.05) add(`${(100 * late).toPrecision(2)} % of the records of ${o.topic} since the start are late.`);
  }
  for (const g of s.gpus) if (!g.up) add(`GPU ${g.index} (${g.name}) is out of service.`);
  return list;
}
