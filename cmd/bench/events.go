package main

import (
	"context"
	"fmt"

	"odradek/cmd/worker/config"
)

// eventsRecords is the input of events: LOF takes microseconds a score.
const eventsRecords = 3_000_000

// events takes the path's processor time apart: each case is the one before it
// with one thing more.
func (b *bench) events(ctx context.Context) ([]benchRow, error) {
	in, err := b.newInput(ctx, "events", pathKeys)
	if err != nil {
		return nil, err
	}
	if err := b.fill(ctx, in, b.scale(eventsRecords)); err != nil {
		return nil, err
	}
	level := config.Prefix + "DETECTOR_LEVEL_"
	lof := []string{level + "OP=lof", level + "WINDOW=64", level + "K=10"}
	cases := []struct {
		name, part string
		settings   []string
	}{
		{"zscore", "", nil},
		{"lof", "lof of 64 samples instead of zscore of 8", lof},
		{"anomalies", "threshold (conformal), severity, anomalies and their state",
			append(lof[:len(lof):len(lof)], config.Prefix+"ANOMALIES=true")},
	}
	var rows []benchRow
	before := 0.0
	for _, c := range cases {
		var cpus []float64
		disturbed := 0.0
		for i := range b.o.repeat {
			p, err := b.pathRun(ctx, in, fmt.Sprintf("%s-%d", c.name, i), i == b.o.repeat-1, c.settings...)
			if err != nil {
				return rows, err
			}
			b.say("%s %d: %v", c.name, i+1, p)
			cpus, disturbed = append(cpus, p.cpu), max(disturbed, p.others)
		}
		cpu, spread := median(cpus)
		r := row(c.name, cpu, "ns/record").noted("median of %d, spread %.0f%%", b.o.repeat, spread)
		if c.part != "" {
			r = r.noted("%.0f ns of it for %s", cpu-before, c.part)
		}
		if disturbed > maxOthers && b.cluster.Nodes() != nil {
			r = r.noted("DISTURBED: other processes took up to %.0f%% of the cores", 100*disturbed)
		}
		rows, before = append(rows, r), cpu
	}
	return rows, nil
}
