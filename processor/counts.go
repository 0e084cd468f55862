package processor

import "odradek/processor/keystate"

// counts is one chunk's share of the accounting equation (see Metrics).
type counts struct {
	consumed, bytes, dead, forwarded int64
	aborted, control                 int64 // input records that were passed over
	evicted                          int64 // keys
	early                            int64 // records released before the watermark reached them
	suspects                         suspectNews
	outcomes                         keystate.Counts
	changes                          changeCounts
}

func (c *counts) add(d *counts) {
	c.consumed += d.consumed
	c.bytes += d.bytes
	c.dead += d.dead
	c.forwarded += d.forwarded
	c.aborted += d.aborted
	c.control += d.control
	c.evicted += d.evicted
	c.early += d.early
	for i := range c.suspects {
		c.suspects[i] += d.suspects[i]
	}
	for i := range c.outcomes {
		c.outcomes[i] += d.outcomes[i]
	}
	for name, n := range d.changes {
		c.changes.add(name, n)
	}
}
