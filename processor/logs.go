package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
)

// This file reads what the state of a partition is rebuilt from: its changelog and its input.

// restoreLogs reads the two logs of a partition: of its input, and of its changelog. Its methods
// belong to one goroutine.
type restoreLogs struct {
	Input   kafka.TP
	Client  *kafka.Client
	Fetcher *kafka.Fetcher
	Log     *slog.Logger
	Status  *partitionStatus
	Trouble *metrics.FailureLog
}

// Read calls fn for the visible records of tp in [from, to). It ends by
// position: the last records may be markers, aborted or compacted away. A batch of
// the input that cannot be read is skipped, as it was before; a changelog that cannot
// be read is refused.
func (l *restoreLogs) Read(ctx context.Context, tp kafka.TP, from, to int64, fn func(*record.Record) error) error {
	if from >= to {
		return nil
	}
	src := l.Fetcher.Add(tp, from)
	defer func() { src.Close() }()
	l.Status.SetSource(src)
	defer l.Status.SetSource(nil)
	l.Status.SetRemaining(to - from)
	defer l.Status.SetRemaining(0)
	var it record.Iterator
	for {
		var c *kafka.Chunk
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c = <-src.C():
		}
		if c == nil {
			return fmt.Errorf("processor: read %s: the fetcher ended", l.name(tp))
		}
		if c.Err != nil {
			return l.unread(tp, kafka.Lacks(fmt.Errorf("processor: read %s: %w", l.name(tp), c.Err), kafka.OpRead, tp.Topic))
		}
		it.Reset(&c.Chunk)
		l.Status.SetRemaining(to - c.From)
		var err error
		advance := it.Next
		if tp == l.Input {
			advance = func() bool { return nextReplayed(&it) }
		}
		for err == nil && advance() {
			rec := it.Record()
			if rec.Offset >= to {
				break
			}
			err = fn(rec)
		}
		if err == nil && it.Err() != nil {
			err = l.unread(tp, it.Err())
		}
		next := it.NextOffset()
		c.Release()
		if err != nil {
			return err
		}
		if next >= to {
			return nil
		}
		if it.Cut() {
			src.Close()
			src = l.Fetcher.Add(tp, next)
			l.Status.SetSource(src)
		}
	}
}

// List repeats ListOffsets of one partition until there is an answer: leaders move.
func (l *restoreLogs) List(ctx context.Context, tp kafka.TP, at int64) (int64, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		cctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		m, err := l.Client.Offsets.ListOffsets(cctx, []kafka.TP{tp}, at)
		cancel()
		if err == nil {
			l.Trouble.Over(l.Log, "offsets "+tp.Topic)
			if off, ok := m[tp]; ok && off >= 0 {
				return off, nil
			}
			if at >= 0 {
				return l.List(ctx, tp, kafka.Latest) // no record that late
			}
			err = errors.New("no offset in the answer")
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if c := kafka.ClassOf(err); c == kafka.Fatal {
			return 0, QuarantineOfPermission(kafka.Lacks(fmt.Errorf("processor: offsets of %s: %w", l.name(tp), err), kafka.OpDescribe, tp.Topic))
		}
		l.Trouble.Warn(l.Log, "offsets "+tp.Topic, "offsets cannot be listed yet", "of", l.name(tp), "err", err)
		if err := sleep(ctx, wait); err != nil {
			return 0, err
		}
	}
}

// name returns the partition for messages, with which of the two logs it is.
func (l *restoreLogs) name(tp kafka.TP) string {
	if tp == l.Input {
		return "input " + tp.String()
	}
	return "changelog " + tp.String()
}

// unread returns the error of a restore that cannot read tp: the partition's input, or
// its changelog.
func (l *restoreLogs) unread(tp kafka.TP, err error) error {
	var corrupt *record.CorruptError
	switch {
	case kafka.OffsetLost(err): // the caller handles it
		return err
	case tp != l.Input && errors.As(err, &corrupt):
		return &RefusedError{TP: l.Input, Reason: fmt.Sprintf("its changelog cannot be read: %v", err),
			Decide: fmt.Sprintf("worker state reset -topic %s -partition %d", l.Input.Topic, l.Input.Partition)}
	}
	return QuarantineOfFetch(err)
}

// nextReplayed advances to the next record of a chunk that is read again. It skips a batch
// that cannot be read: it became a dead letter before.
func nextReplayed(it *record.Iterator) bool {
	for !it.Next() {
		if _, ok := it.Unreadable(); !ok {
			return false
		}
		it.Skip()
	}
	return true
}

// sleep waits for d, or returns why ctx has ended.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
