package metrics

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"odradek/detectors/seedtest"
)

func TestLatencyBuckets(t *testing.T) {
	for i := range latencyBuckets - 1 {
		lo, hi := latencyBound(i), latencyBound(i+1)
		if hi <= lo || latencyBucket(lo) != i || latencyBucket(hi-1) != i || float64(hi-lo) > max(1, 0.125*float64(lo)) {
			t.Fatalf("bucket %d is [%d, %d)", i, lo, hi)
		}
	}
	if b := latencyBucket(latencyMax); b >= latencyBuckets {
		t.Errorf("the largest value is in bucket %d of %d", b, latencyBuckets)
	}
}

func TestLatencyQuantilesAndHistogram(t *testing.T) {
	r := seedtest.New(t)
	h := newLatencyHistogram("x_seconds", "x")
	var l Latency
	var all []int64
	sum := 0.0
	for i := range 20_000 {
		v := int64(r.ExpFloat64() * 5000)
		all = append(all, v)
		sum += float64(v)
		l.Observe(v)
		if i%777 == 0 {
			h.add(&l)
		}
	}
	h.add(&l)
	if l.count != 0 {
		t.Error("add does not empty")
	}
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 0.999} {
		want := float64(all[int(math.Ceil(q*float64(len(all))))-1]) // in a bucket of at most an eighth of it
		got := float64(h.quantile(q) / time.Microsecond)
		if got <= want || got > want*1.125+1 {
			t.Errorf("quantile %v is %v us, want %v", q, got, want)
		}
	}
	ch := make(chan prometheus.Metric, 1)
	h.Collect(ch)
	var m dto.Metric
	if err := (<-ch).Write(&m); err != nil {
		t.Fatal(err)
	}
	if n := m.Histogram.GetSampleCount(); n != uint64(len(all)) {
		t.Errorf("%d samples", n)
	}
	if s := m.Histogram.GetSampleSum() * 1e6; s < sum*0.999 || s > sum*1.001 {
		t.Errorf("sum %v, want %v", s, sum)
	}
	for _, b := range m.Histogram.Bucket {
		bound := b.GetUpperBound() * 1e6
		want := 0
		for want < len(all) && float64(all[want]) < bound {
			want++
		}
		if b.GetCumulativeCount() != uint64(want) {
			t.Errorf("%v us: %d, want %d", bound, b.GetCumulativeCount(), want)
		}
	}
}

func TestLatencyOfStrangeValues(t *testing.T) {
	var l Latency
	l.Observe(-5)
	l.Observe(1 << 62)
	if l.count != 2 || l.Quantile(0.5) != time.Microsecond {
		t.Errorf("%d, %v", l.count, l.Quantile(0.5))
	}
	if (&Latency{}).Quantile(0.99) != 0 {
		t.Error("a quantile of nothing")
	}
}

func BenchmarkLatencyObserve(b *testing.B) {
	var l Latency
	v := int64(1)
	for range b.N {
		v = v*5 + 3
		l.Observe(v & 0xfffff)
	}
	if l.count == 0 {
		b.Fatal()
	}
}

func TestMeter(t *testing.T) {
	var m meter
	at := time.Unix(1000, 0)
	for s := range 30 {
		for range 4 {
			m.add(at.Add(time.Duration(s)*time.Second), 25)
		}
	}
	var young meter
	young.add(at, 30)
	young.add(at.Add(time.Second), 30)
	if r := young.rate(at.Add(2 * time.Second)); r != 30 {
		t.Errorf("rate after two seconds %v", r)
	}
	if r := m.rate(at.Add(29*time.Second + 900*time.Millisecond)); r != 100 {
		t.Errorf("rate %v", r)
	}
	if r := m.rate(at.Add(time.Hour)); r != 0 {
		t.Errorf("rate after an hour %v", r)
	}
}

func TestEndTimes(t *testing.T) {
	var e endTimes
	at := time.Unix(1000, 0)
	for s := range 100 {
		e.add(at.Add(time.Duration(s)*time.Second), int64(10*s+10)) // 10 records a second
	}
	now := at.Add(99 * time.Second)
	if lag := e.lag(now, 505, 1000); lag != 49*time.Second { // record 505 was first seen at second 50
		t.Errorf("lag %v", lag)
	}
	if lag := e.lag(now, 1000, 1000); lag != 0 {
		t.Errorf("lag %v without records to go", lag)
	}
	for s := range 20_000 {
		e.add(now.Add(time.Duration(s)*time.Second), int64(2000+s))
	}
	if len(e.at) > maxEndTimes {
		t.Errorf("%d remembered", len(e.at))
	}
}
