// The part of a series' page that tries another sensitivity: what the preset finds in the records that the topic still has, with the
// settings in force and with the other one.
"use strict";

// backtestPanel returns the panel of a series; source returns its topic and partition, or null where they are not known.
function backtestPanel(key, source) {
  let answer = null;
  let chart = null;
  let running = null; // AbortController of the request under way
  let offered = "";
  const choice = el("select", { name: "sensitivity" });
  const samples = el("select", { name: "samples" }, [["10000", "10,000"], ["50000", "50,000"], ["100000", "100,000"]].map(
    ([v, t]) => el("option", { value: v, selected: v === "50000" }, t)));
  const go = el("button", { class: "primary" }, "Compare");
  const form = el("form", { class: "filters", "aria-label": "Try another sensitivity", onsubmit: (e) => {
    e.preventDefault();
    if (running) running.abort();
    else compare();
  } }, el("label", {}, "Sensitivity", choice), el("label", {}, "Newest samples", samples), go);
  const state = el("p", { class: "hint", role: "status" });
  const sides = table("What each sensitivity finds", [
    { title: "Sensitivity", first: true, cell: (s) => s.sensitivity + (s.now ? " (in force)" : "") },
    { title: "Faults", number: true, cell: (s) => whole(s.faults) },
    { title: "Anomalies", number: true, cell: (s) => whole(s.total) },
    { title: "Alarms a day", number: true, cell: (s) => (s.alarms_per_day == null ? "–" : number(+s.alarms_per_day.toPrecision(2))) },
    { title: "Judged", number: true, nowrap: true, cell: (s) => duration(s.days * 86400000) },
  ]);
  const box = el("div", {});
  const use = el("p", {});
  const found = table("Anomalies of the comparison", [
    { title: "Since", first: true, cell: (a) => when(a.start) },
    { title: "Duration", cell: (a) => (a.open ? "open" : duration(Date.parse(a.end) - Date.parse(a.start))) },
    { title: "Detector", cell: (a) => a.detector },
    { title: "Severity", cell: badge },
    { title: "Found with", cell: (a) => a.found },
  ]);
  const foundHead = el("summary", {});
  const notes = el("ul", { class: "notes" });
  const result = el("div", { hidden: true }, sides.root, box, use, el("details", {}, foundHead, found.root), notes);
  const root = el("section", { id: "backtest", hidden: true }, el("h2", {}, "Try another sensitivity"), form, state, result);

  function draw() {
    if (chart) chart.end();
    chart = null;
    box.replaceChildren();
    if (answer && answer.times.length > 1) chart = Charts.compare(box, answer);
  }

  async function compare() {
    const at = source();
    const query = new URLSearchParams({ key, sensitivity: choice.value, samples: samples.value, ...at });
    const mine = new AbortController();
    running = mine;
    go.textContent = "Stop";
    result.hidden = true;
    state.textContent = "Reading and scoring: 20 seconds at most …";
    answer = null;
    try {
      answer = await api(`backtest?${query}`, { signal: mine.signal });
    } catch (e) {
      state.textContent = e.message;
    }
    running = null;
    go.textContent = "Compare";
    if (mine.signal.aborted) {
      answer = null;
      state.textContent = "Stopped.";
    }
    if (answer) show();
  }

  function show() {
    const { before, after } = answer;
    state.textContent = `${whole(answer.samples)} samples from ${local(answer.from)} to ${local(answer.to)} (${whole(answer.records)} records read, ${(answer.bytes / 1048576).toFixed(1)} MiB). ${answer.cut || "The topic has no others."}`;
    sides.show([{ key: "before", value: { ...before, now: true } }, { key: "after", value: after }]);
    const line = el("code", {}, answer.setting);
    use.replaceChildren(...(answer.setting.startsWith("ODRADEK_") ? ["To use it, start the workers with ", line, "."] : ["To use it, put ", line, " in the settings file; the workers take it up as they run."]));
    const rows = [...before.anomalies.map((a) => ({ ...a, found: a.both ? "both" : before.sensitivity })),
      ...after.anomalies.filter((a) => !a.both).map((a) => ({ ...a, found: after.sensitivity }))];
    rows.sort((a, b) => Date.parse(b.start) - Date.parse(a.start));
    const most = 200;
    foundHead.textContent = rows.length > most ? `The newest ${most} of ${rows.length} anomalies as a table` : "The anomalies as a table";
    foundHead.parentElement.hidden = rows.length === 0;
    found.show(rows.slice(0, most).map((a, i) => ({ key: `${a.found} ${a.detector} ${a.start} ${i}`, value: a })));
    notes.replaceChildren(...answer.notes.map((n) => el("li", {}, n)));
    result.hidden = false;
    draw();
  }

  return { root, redraw: draw, refresh: () => {
    const now = (status && status.sensitivity) || "";
    root.hidden = !now;
    if (now === offered) return;
    offered = now;
    choice.replaceChildren(...["low", "normal", "high"].filter((s) => s !== now).map((s) => el("option", { value: s, selected: s === "high" }, s)));
  }, end: () => {
    if (running) running.abort();
    if (chart) chart.end();
  } };
}
