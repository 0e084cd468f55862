package processor

import (
	"fmt"
	"strconv"
	"time"

	"odradek/processor/kafka"
	"odradek/processor/kafka/record"
)

// blockHeaders is more than the headers of a block and what the record's batch adds
// take.
const blockHeaders = 4 << 10

// writeBlocks puts the blocks that detectors made of the chunk's tasks into the cycle,
// byte for byte, keyed by series. Headers say what a block is and of which samples.
func (pt *partition) writeBlocks(c *cycle, _ *result, now time.Time) (bytes int, err error) {
	t, sinks := &c.outs.topics[OutputBlocks], c.sinks[OutputBlocks]
	if t.name == "" {
		return 0, nil
	}
	for i := range pt.state.Blocks {
		row := &pt.state.Blocks[i]
		key := row.Key.Name()
		h := append(pt.sourceHeaders("odradek.source.", row.Offset),
			record.Header{Key: "content-type", Value: []byte(row.MediaType)},
			record.Header{Key: "odradek.detector", Value: []byte(pt.host.cfg.State.Detectors[row.Detector].Name)},
			record.Header{Key: "odradek.from", Value: strconv.AppendInt(nil, row.About, 10)},
			record.Header{Key: "odradek.to", Value: strconv.AppendInt(nil, row.Until, 10)})
		s := &sinks[kafka.Partition(key, len(sinks))]
		b := c.lock(s, t)
		err := b.Append(now.UnixMilli(), key, row.Data, h)
		s.mu.Unlock()
		if err != nil {
			return bytes, fmt.Errorf("processor: a block of %d bytes does not fit topic %s: %w; raise its max.message.bytes",
				len(row.Data), t.name, err)
		}
		bytes += len(key) + len(row.Data) + blockHeaders/16
	}
	return bytes, nil
}
