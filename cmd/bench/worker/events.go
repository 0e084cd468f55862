package worker

import (
	"context"
	"fmt"

	"odradek/cmd/bench/testbed"
	"odradek/cmd/internal/config"
)

// eventsRecords is the input of events: LOF takes microseconds a score.
const eventsRecords = 3_000_000

// Events splits the path's processor time: each case adds one step to the one before it.
func (b *Bench) Events(ctx context.Context) ([]testbed.Row, error) {
	in, err := b.NewInput(ctx, "events", pathKeys)
	if err != nil {
		return nil, err
	}
	if err := b.Fill(ctx, in, b.Scale(eventsRecords)); err != nil {
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
	var rows []testbed.Row
	before := 0.0
	for _, c := range cases {
		var cpus []float64
		disturbed := 0.0
		for i := range b.Repeat {
			p, err := b.pathRun(ctx, in, fmt.Sprintf("%s-%d", c.name, i), i == b.Repeat-1, c.settings...)
			if err != nil {
				return rows, err
			}
			b.Say("%s %d: %v", c.name, i+1, p)
			cpus, disturbed = append(cpus, p.CPU), max(disturbed, p.Others)
		}
		cpu, spread := testbed.Median(cpus)
		r := testbed.NewRow(c.name, cpu, "ns/record").Noted("median of %d, spread %.0f%%", b.Repeat, spread)
		if c.part != "" {
			r = r.Noted("%.0f ns of it for %s", cpu-before, c.part)
		}
		if disturbed > testbed.MaxOthers && b.Cluster.Nodes() != nil {
			r = r.Noted("DISTURBED: other processes took up to %.0f%% of the cores", 100*disturbed)
		}
		rows, before = append(rows, r), cpu
	}
	return rows, nil
}
