package processor

import "time"

// holding is what a partition waits for outside of Kafka. A held partition is not
// hung: it tries again until there is an answer, and a worker that is started anew
// would be held at the same record. So it has gauges of its own and is left out of
// Stalled.
type holding struct {
	why    string
	since  time.Time
	offset int64 // of the record that waits
}

const heldForRegistry = "the schema registry does not answer"

// held notes that the record at offset cannot be read before why is over. The log
// gets a line when a hold begins, not with each try.
func (pt *partition) held(why string, offset int64, err error) {
	if h := pt.onHold.Load(); h != nil && h.why == why && h.offset == offset {
		return
	}
	pt.onHold.Store(&holding{why: why, since: time.Now(), offset: offset})
	pt.log.Warn("partition held, "+why, "offset", offset, "err", err)
}

// released ends a hold. What was held has not been committed for as long, so the
// time that Stalled allows begins anew.
func (pt *partition) released() {
	h := pt.onHold.Load()
	if h == nil {
		return
	}
	pt.onHold.Store(nil)
	now := time.Now()
	pt.behindAt.Store(now.UnixNano())
	pt.log.Info("partition goes on", "offset", h.offset, "held", now.Sub(h.since).Round(time.Millisecond))
}
