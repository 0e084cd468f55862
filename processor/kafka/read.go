package kafka

import (
	"context"
	"fmt"

	"odradek/processor/kafka/record"
)

// ReadRange calls fn for the visible records of a partition in [from, to), until
// it returns false. It ends by position, because the last records may be markers,
// aborted or compacted away. fn must copy what it keeps.
func (f *Fetcher) ReadRange(ctx context.Context, tp record.TP, from, to int64, fn func(*record.Record) (more bool, err error)) error {
	if from >= to {
		return nil
	}
	src := f.Add(tp, from)
	defer src.Close()
	var it record.Iterator
	for {
		var c *Chunk
		select {
		case <-ctx.Done():
			return fmt.Errorf("read %s: %w", tp, ctx.Err())
		case c = <-src.C():
		}
		if c == nil {
			return fmt.Errorf("read %s: the fetcher ended", tp)
		}
		if c.Err != nil {
			return fmt.Errorf("read %s: %w", tp, c.Err)
		}
		more, err := true, error(nil)
		for it.Reset(&c.Chunk); more && err == nil && it.Next(); {
			if it.Record().Offset >= to {
				break
			}
			more, err = fn(it.Record())
		}
		if err == nil {
			err = it.Err()
		}
		next := it.NextOffset()
		c.Release()
		if err != nil || !more || next >= to {
			return err
		}
	}
}
