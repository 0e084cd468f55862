package page

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"odradek/detectors/discord"
	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
)

const (
	// blocksBudget bounds the bytes of keys and values that are read of the blocks topic for one answer.
	blocksBudget = 16 << 20
	// blocksBack is the number of offsets of the first span before the anomaly: as large as blocks are, they fit a quarter of
	// blocksBudget.
	blocksBack = 15
)

// Blocks implements DataSource. It searches for the window in which the anomaly's peak was scored: the first that includes the
// peak. It reads the blocks topic first before and then after the time at which the last record of the anomaly was written.
func (e *Explorer) Blocks(ctx context.Context, id string) (*Blocks, error) {
	e.ask()
	e.mu.Lock()
	anomaly, err := e.find(id)
	e.mu.Unlock()
	if err != nil {
		return nil, err
	}
	out := &Blocks{Anomaly: id, Detector: anomaly.a.Detector, Budget: blocksBudget, Notes: []string{}}
	d := e.c.input(anomaly.a.Topic).detector(anomaly.a.Detector)
	if d == nil {
		return out, nil // silence, or a detector that is no longer configured
	}
	out.Grid = d.Grid
	if !d.Heatmap {
		return out, nil
	}
	select { // as for a series
	case e.reading <- struct{}{}:
		defer func() { <-e.reading }()
	case <-ctx.Done():
		return nil, errors.New("page: a series is being read; try again")
	}
	r := &blockReading{e: e, anomaly: anomaly, detector: d, out: out}
	r.fetcher = kafka.NewFetcher(e.c.Client, kafka.FetchConfig{ReadCommitted: true})
	defer r.fetcher.Close()
	if err := r.read(ctx); err != nil {
		return nil, err
	}
	return out, nil
}

// blockReading reads the blocks topic for an anomaly.
type blockReading struct {
	e        *Explorer
	anomaly  *storedAnomaly
	detector *Detector
	fetcher  *kafka.Fetcher
	out      *Blocks

	scored *block // the first block whose samples include the peak
	after  *block // the first block read of samples after the peak
	before bool   // a block of samples before the peak was read
}

// block is a record of the blocks topic.
type block struct {
	source   Origin
	from, to int64 // event times of the first and the last sample of the task, µs
	data     []byte
}

func (r *blockReading) note(format string, args ...any) {
	r.out.Notes = append(r.out.Notes, fmt.Sprintf(format, args...))
}

// read searches for the block to show, and sets the answer.
func (r *blockReading) read(ctx context.Context) error {
	topic := r.e.c.Blocks
	if topic == "" {
		r.note("No heatmap: blocks are not published (ODRADEK_BLOCKS=false).")
		return nil
	}
	infos, err := r.e.c.Client.Admin.Topics(ctx, topic)
	if err != nil {
		return fmt.Errorf("page: topic %q: %w", topic, err)
	}
	if !infos[topic].Exists || infos[topic].Partitions == 0 {
		r.note("No heatmap: the blocks topic %s does not exist, or may not be read.", topic)
		return nil
	}
	tp := kafka.TP{Topic: topic, Partition: kafka.Partition(r.anomaly.key, infos[topic].Partitions)}
	first, end, err := r.e.bounds(ctx, tp)
	if err != nil {
		return err
	}
	at, err := r.e.c.Client.Offsets.ListOffsets(ctx, []kafka.TP{tp}, r.anomaly.written)
	if err != nil {
		return fmt.Errorf("page: %s: %w", tp, err)
	}
	middle := end
	if offset := at[tp]; offset >= 0 {
		middle = max(first, min(offset, end))
	}
	for to, n := middle, int64(blocksBack); to > first && !r.before && r.out.Bytes < blocksBudget/2; {
		from, before := max(first, to-n), r.out.Bytes
		if err := r.span(ctx, tp, from, to, blocksBudget-r.out.Bytes); err != nil {
			return err
		}
		if to = from; r.out.Bytes-before < blocksBudget/16 {
			n *= 2
		}
	}
	if r.scored == nil {
		if err := r.span(ctx, tp, middle, end, blocksBudget-r.out.Bytes); err != nil {
			return err
		}
	}
	shown := r.scored
	switch {
	case shown == nil && r.after == nil:
		r.note("No heatmap: none of the %d blocks read around the anomaly in %s is of the series and the detector, %d MiB at most are read.",
			r.out.Records, tp, blocksBudget>>20)
		return nil
	case shown == nil:
		shown = r.after
		r.note("The heatmap is of a later window: none that includes the peak is in the %d blocks read of %s, %d MiB at most.",
			r.out.Records, tp, blocksBudget>>20)
	}
	if r.out.Heatmap, err = shown.heatmap(r.detector.Lead); err != nil {
		return fmt.Errorf("page: %s: the block of offset %d of %s: %w", tp, shown.source.Offset, shown.source.Topic, err)
	}
	return nil
}

// span reads the blocks of [from, to), room bytes at most.
func (r *blockReading) span(ctx context.Context, tp kafka.TP, from, to, room int64) error {
	err := r.fetcher.ReadRange(ctx, tp, from, to, func(rec *record.Record) (bool, error) {
		size := int64(len(rec.Key) + len(rec.Value) + overhead)
		if size > room {
			return false, nil
		}
		room -= size
		r.out.Records++
		r.out.Bytes += size
		return r.keep(rec), nil
	})
	if err != nil {
		return fmt.Errorf("page: %s from offset %d on: %w", tp, from, err)
	}
	return nil
}

// keep stores a record that may be the block to show. It reports whether a later record may be.
func (r *blockReading) keep(rec *record.Record) (more bool) {
	if !bytes.Equal(rec.Key, r.anomaly.key) {
		return true
	}
	text := func(name string) string {
		v, _ := rec.Header(name)
		return string(v)
	}
	if text("odradek.detector") != r.detector.Name || text("content-type") != discord.MediaType {
		return true
	}
	var faults []error
	integer := func(name string, bits int) int64 {
		v, err := strconv.ParseInt(text(name), 10, bits)
		faults = append(faults, err)
		return v
	}
	b := block{source: Origin{Topic: text("odradek.source.topic"), Partition: int32(integer("odradek.source.partition", 32)),
		Offset: integer("odradek.source.offset", 64)}, from: integer("odradek.from", 64), to: integer("odradek.to", 64)}
	if errors.Join(faults...) != nil {
		return true // not of a worker
	}
	if b.source.Topic != r.anomaly.a.Topic || b.source.Partition != r.anomaly.a.Partition {
		return true // of another series of this key
	}
	peak := r.anomaly.a.PeakTime
	switch {
	case b.to < peak:
		r.before = true
		return true
	case b.from > peak && (r.after == nil || b.from < r.after.from):
		b.data = bytes.Clone(rec.Value)
		r.after = &b
	case b.from <= peak && (r.scored == nil || b.from < r.scored.from):
		b.data = bytes.Clone(rec.Value)
		r.scored = &b
	}
	return false
}

// heatmap returns the heatmap of a block whose task has lead samples before those that were searched.
func (b *block) heatmap(lead int) (*Heatmap, error) {
	var h discord.Heatmap
	if err := h.UnmarshalBinary(b.data); err != nil {
		return nil, err
	}
	// Samples are drawn as evenly spaced.
	each := float64(b.to-b.from) / 1000 / float64(max(1, lead+h.Starts+h.Lengths.Min-2))
	out := &Heatmap{Source: b.source, From: float64(b.from)/1000 + each*float64(lead), MinLength: h.Lengths.Min, MaxLength: h.Lengths.Max,
		LengthStep: h.Lengths.Step, Columns: h.Columns, Cells: make([][]int, h.Rows)}
	out.To = out.From + each*float64(h.Starts)
	for row := range out.Cells {
		out.Cells[row] = make([]int, h.Columns)
		for column := range out.Cells[row] {
			out.Cells[row][column] = int(h.Cells[row*h.Columns+column])
		}
	}
	return out, nil
}
