package processor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"odradek/processor/cycle"
	"odradek/processor/kafka/record"
	"odradek/processor/metrics"
)

// A partition starts in a transaction of its own: its first offset is committed together
// with the owner and settings records of its changelog (provenance) before anything is
// fetched.

// setStart marks the state as the one at offset at, as if that were committed. start
// says that the offset has yet to be committed.
func (pt *partition) setStart(at int64, start bool) {
	pt.state.Mark(at)
	pt.state.Committed(at)
	pt.committed.Store(at)
	pt.noted = at
	pt.starting.Store(start || !pt.forward && (pt.restorer.Owner.Unwritten || pt.restorer.Settings.Unwritten()))
}

// resume fetches from offset on, and drops what was fetched before. A start that is not
// committed yet is committed first: records that arrive while the partition moves to
// another member must not be skipped (ODRADEK_START=latest), nor state be written that
// belongs to no offset.
func (pt *partition) resume(ctx context.Context, offset int64) error {
	if pt.waiting = pt.starting.Load() && pt.confined.Load() == nil; !pt.waiting {
		pt.seek(offset)
		return nil
	}
	pt.closeSource()
	pt.position.Store(offset)
	err := pt.joinStart(ctx)
	if errors.Is(err, cycle.ErrStale) {
		return nil // the command that follows resumes again
	}
	return err
}

// started begins to fetch once the start is committed.
func (pt *partition) started() {
	if pt.waiting && !pt.starting.Load() {
		pt.waiting = false
		pt.wipe = nil
		pt.seek(pt.position.Load())
	}
}

// joinStart adds the start of the partition to the open cycle: its offset with a replay
// floor, the owner and settings records, and the deletion of state that was emptied.
func (pt *partition) joinStart(ctx context.Context) error {
	c, err := pt.entry.Enter(ctx)
	if err != nil {
		return err
	}
	defer pt.entry.Leave()
	return pt.into(c, func() error {
		r := cycle.Result{Next: pt.position.Load(), Leader: pt.leader, Work: metrics.Work{Held: int64(pt.state.Held()), Fetched: time.Now()}}
		bytes := 0
		if !pt.forward {
			if bytes, err = pt.writeStart(c); err != nil {
				return err
			}
			r.Floor = pt.state.Floor()
		}
		pt.addTo(c, &r, bytes)
		return nil
	})
}

func (pt *partition) writeStart(c *cycle.Cycle[*partition]) (bytes int, err error) {
	ms := time.Now().UnixMilli()
	err = c.Payload.Changelog(pt.tp, func(b *record.Batches) (err error) {
		put := func(key, value []byte) {
			if err == nil {
				err = b.Append(ms, key, value, nil)
				bytes += len(key) + len(value)
			}
		}
		for _, key := range pt.wipe {
			put(key, nil)
		}
		if pt.restorer.Owner.Unwritten {
			put([]byte(OwnerKey), pt.restorer.Owner.Value())
		}
		if err == nil && pt.restorer.Settings.Unwritten() {
			var n int
			n, err = pt.restorer.PutSettings(b)
			bytes += n
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("processor: %s/%d: write to %s: %w", pt.tp.Topic, pt.tp.Partition, pt.restorer.TP().Topic, err)
	}
	return bytes, err
}

// forwarded is the commit metadata of a partition under ODRADEK_REKEY. It is no
// replay floor, so that older state is not taken for current when the setting is
// turned off again.
const forwarded = "forwarded"

// metadata returns the metadata of the offset commit of r.
func (pt *partition) metadata(r *cycle.Result) string {
	text := forwarded
	if !pt.forward {
		text = Metadata(r.Floor.String(), r.Incarnation)
	}
	if pt.side.stop.On() {
		text = r.Window.AppendTo(text)
	}
	return text
}
