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

// suspend ends everything that the partition does, before it is restored.
func (pt *partition) suspend() {
	pt.running.Store(false)
	pt.status.ClearHold()
	pt.confined.Store(nil)
	pt.advance.Store(noAdvance)
	pt.closeSource()
}

// settle goes on from offset at, after a restore.
func (pt *partition) settle(ctx context.Context, at int64) error {
	pt.status.CommittedNow()
	// In this order: the main goroutine raises the epoch and then reads running, so
	// either it sends a rollback or we have the new epoch.
	pt.running.Store(true)
	pt.handle.Renew()
	return pt.resume(ctx, at)
}

// returnTo goes on from the committed offset to, after a rollback.
func (pt *partition) returnTo(ctx context.Context, to int64) error {
	pt.endStop()
	pt.side.stop.Rollback(to)
	pt.handle.Renew()
	return pt.resume(ctx, to)
}

// setStart begins at offset at, as if that were committed. start says that it, or what belongs to it, has yet to be
// committed; metadata is the committed offset's.
func (pt *partition) setStart(at int64, start bool, metadata string) {
	pt.committed.Store(at)
	pt.starting.Store(start)
	pt.side.stop.Start(at, metadata)
}

// resume fetches from offset on, and drops what was fetched before. A start that is not
// committed yet is committed first: records that arrive while the partition moves to
// another member must not be skipped (start=latest), nor state be written that
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
		pt.seek(pt.position.Load())
	}
}

// joinStart adds the start of the partition to the open cycle: its offset, and what its work commits with that.
func (pt *partition) joinStart(ctx context.Context) error {
	c, err := pt.handle.Enter(ctx)
	if err != nil {
		return err
	}
	defer pt.handle.Leave()
	return pt.into(c, func() error {
		r := cycle.Result{Next: pt.position.Load(), Leader: pt.leader, Work: metrics.Work{Fetched: time.Now()}}
		bytes, err := pt.work.writeStart(c, &r)
		if err != nil {
			return err
		}
		pt.addTo(c, &r, bytes)
		return nil
	})
}

// writeStart adds the owner and settings records to the cycle, and the deletion of state that was emptied.
func (f *folder) writeStart(c *cycle.Cycle[*partition], r *cycle.Result) (bytes int, err error) {
	f.noteState(r)
	ms := time.Now().UnixMilli()
	err = c.Payload.Changelog(f.pt.tp, func(b *record.Batches) (err error) {
		put := func(key, value []byte) {
			if err == nil {
				err = b.Append(ms, key, value, nil)
				bytes += len(key) + len(value)
			}
		}
		for _, key := range f.wipe {
			put(key, nil)
		}
		if f.restorer.changelog.Owner.Unwritten {
			put([]byte(OwnerKey), f.restorer.changelog.Owner.Value())
		}
		if err == nil && f.restorer.changelog.Settings.Unwritten() {
			var n int
			n, err = f.restorer.changelog.PutSettings(b)
			bytes += n
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("processor: %s/%d: write to %s: %w", f.pt.tp.Topic, f.pt.tp.Partition, f.restorer.changelog.TP().Topic, err)
	}
	return bytes, err
}
