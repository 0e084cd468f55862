package metrics

import (
	"math/bits"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Latency counts durations in buckets of an eighth of a power of two of
// microseconds: exact below 16 us, within 12.5 % above. One goroutine may use
// it at a time; Observe takes about 2 ns.
type Latency struct {
	buckets [latencyBuckets]uint64
	count   uint64
	sum     uint64 // us
}

const (
	latencyMax     = 1<<40 - 1 // us; longer counts as this (12 days)
	latencyBuckets = 8*36 + 16
)

// Observe counts one duration in microseconds; a negative one counts as 0
// (clocks of two machines differ).
func (l *Latency) Observe(us int64) { l.ObserveN(us, 1) }

// ObserveN counts n durations of us microseconds.
func (l *Latency) ObserveN(us int64, n uint64) {
	v := uint64(min(max(us, 0), latencyMax))
	l.buckets[latencyBucket(v)] += n
	l.count += n
	l.sum += v * n
}

// latencyBucket returns v below 16; then each octave has 8 buckets.
func latencyBucket(v uint64) int {
	if v < 16 {
		return int(v)
	}
	e := bits.Len64(v) - 4
	return 8*e + int(v>>e)
}

// latencyBound returns the least value of bucket i.
func latencyBound(i int) uint64 {
	if i < 16 {
		return uint64(i)
	}
	e := i/8 - 1
	return uint64(i-8*e) << e
}

// Quantile returns the upper end of the bucket that holds the q-quantile, 0 for none.
func (l *Latency) Quantile(q float64) time.Duration {
	rank, seen := q*float64(l.count), uint64(0)
	for i, n := range l.buckets {
		seen += n
		if n > 0 && float64(seen) >= rank {
			return time.Duration(latencyBound(i+1)) * time.Microsecond
		}
	}
	return 0
}

// latencyHistogram is the sum of Latencies as a Prometheus histogram with one
// bucket per octave from 64 us to 18 minutes.
type latencyHistogram struct {
	desc *prometheus.Desc

	mu    sync.Mutex
	total Latency
}

// The octaves that are shown: 2^6 to 2^30 us.
const firstOctave, lastOctave = 6, 30

func newLatencyHistogram(name, help string) *latencyHistogram {
	return &latencyHistogram{desc: prometheus.NewDesc(name, help, nil, nil)}
}

// add takes what l counted and empties it.
func (h *latencyHistogram) add(l *Latency) {
	if l.count == 0 {
		return
	}
	h.mu.Lock()
	for i, n := range l.buckets {
		h.total.buckets[i] += n
	}
	h.total.count += l.count
	h.total.sum += l.sum
	h.mu.Unlock()
	*l = Latency{}
}

func (h *latencyHistogram) quantile(q float64) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.total.Quantile(q)
}

func (h *latencyHistogram) Describe(ch chan<- *prometheus.Desc) { ch <- h.desc }

func (h *latencyHistogram) Collect(ch chan<- prometheus.Metric) {
	h.mu.Lock()
	t := h.total
	h.mu.Unlock()
	buckets := make(map[float64]uint64, lastOctave-firstOctave+1)
	seen, i := uint64(0), 0
	for o := firstOctave; o <= lastOctave; o++ {
		for end := latencyBucket(1 << o); i < end; i++ {
			seen += t.buckets[i]
		}
		buckets[float64(uint64(1)<<o)/1e6] = seen
	}
	ch <- prometheus.MustNewConstHistogram(h.desc, t.count, float64(t.sum)/1e6, buckets)
}

// meter is a rate over the last full seconds.
type meter struct {
	mu      sync.Mutex
	first   int64 // second of the first event
	seconds [meterSeconds + 1]struct{ second, n int64 }
}

const meterSeconds = 10

func (m *meter) add(now time.Time, n int64) {
	s := now.Unix()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.first == 0 {
		m.first = s
	}
	b := &m.seconds[s%int64(len(m.seconds))]
	if b.second != s {
		b.second, b.n = s, 0
	}
	b.n += n
}

// rate returns the events per second over the last ten full seconds, or as many as
// there were since the first event.
func (m *meter) rate(now time.Time) float64 {
	s := now.Unix()
	m.mu.Lock()
	defer m.mu.Unlock()
	var n int64
	for _, b := range m.seconds {
		if b.second < s && b.second >= s-meterSeconds {
			n += b.n
		}
	}
	return float64(n) / float64(max(1, min(meterSeconds, s-m.first)))
}
