package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"odradek/processor"
	"odradek/processor/kafka"
	"odradek/processor/state"
)

// PartitionWatermark is a line of Watermark.
type PartitionWatermark struct {
	Topic     string     `json:"topic"`
	Partition int32      `json:"partition"`
	Committed int64      `json:"committed"`        // -1: none
	Floor     int64      `json:"replay_floor"`     // -1: none
	Newest    *time.Time `json:"newest,omitempty"` // event time below the floor
	Watermark *time.Time `json:"watermark"`        // Newest less ODRADEK_LATENESS
	Lag       float64    `json:"lag_seconds"`      // of the watermark behind the clock
	Suspects  int        `json:"suspects"`         // held below the floor
	Ahead     *int       `json:"ahead,omitempty"`  // with -to: series with a sample after it
	names     [][]byte   // of these
	commit    kafka.Offset
}

// Watermark shows the watermark of each partition, as of its replay floor, and with
// -to and -yes repairs those that are later: see repair.
func (g *Group) Watermark(ctx context.Context) error {
	committed, err := committedOffsets(ctx, g.c, g.client, g.tps)
	if err != nil {
		return fmt.Errorf("admin: %w", err)
	}
	now := time.Now()
	lines := map[kafka.TP]*PartitionWatermark{}
	var order []kafka.TP
	for _, tp := range g.tps {
		if !g.stateOf[tp.Topic] {
			continue
		}
		p := &PartitionWatermark{Topic: tp.Topic, Partition: tp.Partition, Committed: committed[tp].Offset, Floor: -1, commit: committed[tp]}
		lines[tp], order = p, append(order, tp)
		if f, err := state.ParseFloor(p.commit.Metadata); err == nil && p.Committed >= 0 {
			p.Floor, p.Suspects = f.Offset, len(f.Suspects)
			if f.MaxTime != state.NoTime {
				newest := time.UnixMicro(f.MaxTime).UTC()
				wm := newest.Add(-g.c.ForTopic(tp.Topic).Keys.Lateness)
				p.Newest, p.Watermark, p.Lag = &newest, &wm, now.Sub(wm).Seconds()
			}
		}
		if !g.o.ToTime.IsZero() {
			if p.names, err = g.namesAfter(ctx, tp, g.o.ToTime.UnixMicro()); err != nil {
				return err
			}
			n := len(p.names)
			p.Ahead = &n
		}
	}
	if err := g.showWatermarks(order, lines); err != nil || g.o.ToTime.IsZero() {
		return err
	}
	return g.repair(ctx, order, lines)
}

func (g *Group) showWatermarks(order []kafka.TP, lines map[kafka.TP]*PartitionWatermark) error {
	if g.o.JSON {
		enc := json.NewEncoder(g.out)
		for _, tp := range order {
			if err := enc.Encode(lines[tp]); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(g.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "topic\tpartition\tcommitted\treplay from\tnewest event time\twatermark\tbehind the clock\tsuspects\tseries ahead")
	for _, tp := range order {
		p := lines[tp]
		newest, watermark, lag, ahead := "none", "none", "", ""
		if p.Newest != nil {
			newest, watermark = p.Newest.Format(time.RFC3339), p.Watermark.Format(time.RFC3339)
			lag = time.Duration(p.Lag * float64(time.Second)).Round(time.Second).String()
		}
		if p.Ahead != nil {
			ahead = strconv.Itoa(*p.Ahead)
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\t%s\t%d\t%s\n", p.Topic, p.Partition, p.Committed, p.Floor, newest, watermark,
			lag, p.Suspects, ahead)
	}
	return w.Flush()
}

// namesAfter lists the series of a partition with a sample after t.
func (g *Group) namesAfter(ctx context.Context, tp kafka.TP, t int64) ([][]byte, error) {
	log, ok := g.changelog(tp)
	if !ok {
		return nil, nil
	}
	cfg, err := g.c.ForTopic(tp.Topic).KeystateConfig()
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	cfg.DropMismatched = true
	recs, err := g.read(ctx, log, true)
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	state := state.New(cfg)
	for _, r := range recs {
		if r.key == "" || processor.IsRecord(r.key) {
			continue
		}
		if err := state.Load([]byte(r.key), r.value); err != nil {
			return nil, fmt.Errorf("admin: changelog %s at offset %d: %w", log, r.offset, err)
		}
	}
	return state.Keys.NamesAfter(t), nil
}

// repair undoes the effect of a wrong clock: it sets back the newest event time of partitions
// in the commit's metadata, at the same offset, and deletes the series with a later
// sample, because all of their samples would be late.
// It may be interrupted and run again. The offsets come first, because brokers refuse
// that commit while the group has members.
func (g *Group) repair(ctx context.Context, order []kafka.TP, lines map[kafka.TP]*PartitionWatermark) error {
	if err := g.own(ctx); err != nil {
		return err
	}
	to := g.o.ToTime.UnixMicro()
	offs, series := map[kafka.TP]kafka.Offset{}, map[kafka.TP]map[string]bool{}
	forgotten := 0
	for _, tp := range order {
		p := lines[tp]
		if p.Floor < 0 {
			fmt.Fprintf(g.err, "%s has no replay floor: nothing to repair\n", tp)
			continue
		}
		names := map[string]bool{}
		for _, name := range p.names {
			names[string(name)] = true
		}
		late := p.Newest != nil && p.Newest.After(g.o.ToTime)
		if !late && len(names) == 0 {
			continue
		}
		offs[tp], series[tp] = p.commit, names
		if late {
			off := p.commit
			var err error
			if off.Metadata, err = state.Repaired(off.Metadata, to,
				state.Jump{Most: g.c.ForTopic(tp.Topic).Keys.MaxJump.Microseconds(), Until: off.Offset}); err != nil {
				return fmt.Errorf("admin: %w", err)
			}
			offs[tp] = off
		}
		forgotten += len(names)
		if late {
			fmt.Fprintf(g.err, "%s: the newest event time is set back from %s to %s\n", tp, p.Newest.Format(time.RFC3339),
				g.o.ToTime.UTC().Format(time.RFC3339))
		}
		if len(names) > 0 {
			fmt.Fprintf(g.err, "%s: %d series with a later sample are forgotten; they warm up again, and their open anomalies are not closed\n", tp,
				len(names))
		}
	}
	switch {
	case len(offs) == 0:
		fmt.Fprintln(g.err, "no partition and no series is later: nothing to repair")
		return nil
	case slices.ContainsFunc(order, func(tp kafka.TP) bool { return g.c.ForTopic(tp.Topic).Keys.MaxJump == 0 }):
		fmt.Fprintln(g.err, "ODRADEK_MAX_JUMP is 0: where the record with the wrong time is replayed, or the next one comes, all is as before")
	}
	if err := g.o.Agree(fmt.Sprintf("set back %d partitions and forget %d series?", len(offs), forgotten)); err != nil {
		fmt.Fprintln(g.err, err)
		return nil
	}
	if err := g.commitOffsets(ctx, offs); err != nil {
		return err
	}
	n, err := g.wipe(ctx, func(tp kafka.TP, key string) bool {
		kind, name, _ := splitRecordKey(key)
		return kind != "eviction" && kind != "decision" && series[tp][name]
	})
	if err != nil {
		return fmt.Errorf("%w; the repair is not finished: run it again", err)
	}
	fmt.Fprintf(g.err,
		"repaired %d partitions, %d series forgotten, %d state records deleted; to forget all series of a topic there is worker state reset\n",
		len(offs), forgotten, n)
	return nil
}
