package cycle

import (
	"strconv"
	"time"

	"odradek/processor/metrics"
	"odradek/processor/state"
)

// writeToy writes how many scores a chunk has, without a key.
func (w *Writer) writeToy(p *Payload, s *state.State, _ *metrics.Work, now time.Time) (bytes int, err error) {
	t, sinks := &p.topics.Outputs[Toy], p.sinks[Toy]
	if t.Name == "" || len(s.Rows) == 0 {
		return 0, nil
	}
	to := &sinks[int(w.tp.Partition)%len(sinks)]
	b := p.lock(to, t, w.tp)
	defer to.mu.Unlock()
	value := strconv.AppendInt(nil, int64(len(s.Rows)), 10)
	return len(value), b.Append(now.UnixMilli(), nil, value, nil)
}
