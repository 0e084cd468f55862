package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/fetch"
	"odradek/processor/kafka/record"
	"odradek/processor/policy"
	"odradek/processor/status"
	"odradek/processor/trouble"
)

// logs reads the two logs of a partition: of its input, and of its changelog.
type logs struct {
	input   kafka.TP
	host    *host
	log     *slog.Logger
	status  *status.Partition
	trouble *trouble.Log
}

// read calls fn for the visible records of tp in [from, to). It ends by
// position: the last records may be markers, aborted or compacted away. A batch of
// the input that cannot be read is skipped, as it was before; a changelog that cannot
// be read is refused.
func (l *logs) read(ctx context.Context, tp kafka.TP, from, to int64, fn func(*record.Record) error) error {
	if from >= to {
		return nil
	}
	src := l.host.fetcher.Add(tp, from)
	defer func() { src.Close() }()
	l.status.SetSource(src)
	defer l.status.SetSource(nil)
	l.status.SetRemaining(to - from)
	defer l.status.SetRemaining(0)
	var it record.Iterator
	for {
		var c *fetch.Chunk
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c = <-src.C():
		}
		if c == nil {
			return fmt.Errorf("processor: read %s/%d: the fetcher ended", tp.Topic, tp.Partition)
		}
		if c.Err != nil {
			return l.unread(tp, fmt.Errorf("processor: read %s/%d: %w", tp.Topic, tp.Partition, c.Err))
		}
		it.Reset(&c.Chunk)
		l.status.SetRemaining(to - c.From)
		var err error
		advance := it.Next
		if tp == l.input {
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
			src = l.host.fetcher.Add(tp, next)
			l.status.SetSource(src)
		}
	}
}

// list repeats ListOffsets until there is an answer: leaders move.
func (l *logs) list(ctx context.Context, tp kafka.TP, at int64) (int64, error) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		cctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		m, err := l.host.cfg.Client.ListOffsets(cctx, []kafka.TP{tp}, at)
		cancel()
		if err == nil {
			l.trouble.Over(l.log, "offsets "+tp.Topic)
			if off, ok := m[tp]; ok && off >= 0 {
				return off, nil
			}
			if at >= 0 {
				return l.list(ctx, tp, StartLatest) // no record that late
			}
			err = errors.New("no offset in the answer")
		}
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		if c := kafka.ClassOf(err); c == kafka.Fatal {
			err = fmt.Errorf("processor: offsets of %s/%d: %w", tp.Topic, tp.Partition, err)
			if kafka.Unauthorized(err) {
				err = &stuckError{reasonUnauthorized, err}
			}
			return 0, err
		}
		l.trouble.Warn(l.log, "offsets "+tp.Topic, "offsets cannot be listed yet", "of", tp.Topic, "err", err)
		if err := sleep(ctx, wait); err != nil {
			return 0, err
		}
	}
}

// unread is the error of a restore that cannot read tp: the partition's input, or
// its changelog.
func (l *logs) unread(tp kafka.TP, err error) error {
	var corrupt *record.CorruptError
	switch {
	case fetch.OffsetLost(err): // the caller handles it
		return err
	case tp != l.input && errors.As(err, &corrupt):
		return &policy.RefusedError{TP: l.input, Reason: fmt.Sprintf("its changelog cannot be read: %v", err),
			Decide: fmt.Sprintf("worker state reset -topic %s -partition %d", l.input.Topic, l.input.Partition)}
	}
	return stuckFetch(err)
}
