package limits

import (
	"math"
	"testing"
	"time"

	"odradek/detectors/seedtest"
)

// TestPace: sizes of cycles after sequences of outcomes.
func TestPace(t *testing.T) {
	const kib, mib, ms = 1 << 10, 1 << 20, time.Millisecond
	type outcome struct {
		bytes int // 0: a full cycle
		took  time.Duration
		fails bool
		want  int
	}
	for _, x := range []struct {
		name     string
		limit    time.Duration
		outcomes []outcome
	}{
		{"a fast broker is at full size after four cycles", 30 * time.Second, []outcome{
			{took: 20 * ms, want: 4 * mib}, {took: 40 * ms, want: 16 * mib}, {took: 90 * ms, want: 64 * mib}, {took: 300 * ms, want: 96 * mib},
		}},
		{"a slow one takes what it can in the target", 30 * time.Second, []outcome{
			{took: 1000 * ms, want: 512 * kib}, {took: 500 * ms, want: 512 * kib}, {took: 250 * ms, want: 1 * mib},
		}},
		{"a short transaction has a short target", time.Second, []outcome{
			{took: 250 * ms, want: 512 * kib}, {took: 125 * ms, want: 512 * kib},
		}},
		{"cycles that are not full tell nothing", 30 * time.Second, []outcome{
			{bytes: 100 * kib, took: 30 * ms, want: 1 * mib}, {bytes: 500 * kib, took: 900 * ms, want: 1 * mib},
		}},
		{"a time-out halves, and the rate that it shows bounds", 4 * time.Second, []outcome{
			{took: 10 * ms, want: 4 * mib}, {took: 1 * ms, want: 16 * mib},
			{took: 4000 * ms, fails: true, want: 2 * mib}, {took: 4000 * ms, fails: true, want: 256 * kib},
		}},
		{"a cycle that is not full and times out halves", 4 * time.Second, []outcome{
			{bytes: 10 * kib, took: 4000 * ms, fails: true, want: 512 * kib}, {bytes: 10 * kib, took: 4000 * ms, fails: true, want: 256 * kib},
		}},
		{"what was too much comes back slowly", 4 * time.Second, []outcome{
			{took: 4000 * ms, fails: true, want: 128 * kib}, {took: 1 * ms, want: 192 * kib}, {took: 1 * ms, want: 288 * kib},
		}},
		{"a failure at once is not the rate's", 4 * time.Second, []outcome{
			{took: 5 * ms, fails: true, want: 1 * mib}, {took: 10 * ms, want: 4 * mib},
		}},
		{"there is a least size", 4 * time.Second, []outcome{
			{took: 4000 * ms, fails: true, want: 128 * kib}, {took: 4000 * ms, fails: true, want: 64 * kib},
			{took: 4000 * ms, fails: true, want: 64 * kib},
			{took: 4000 * ms, want: 64 * kib},
		}},
	} {
		p := NewPace(x.limit)
		for i, o := range x.outcomes {
			if o.bytes == 0 {
				o.bytes = p.size
			}
			if o.fails {
				p.Failed(o.bytes, o.bytes/256, o.took)
			} else {
				p.Committed(o.bytes, o.bytes/256, o.took)
			}
			if p.size != o.want {
				t.Errorf("%s: size %d after outcome %d, want %d", x.name, p.size, i, o.want)
			}
		}
	}
}

// TestPaceConverges: brokers of any rate, with some noise, take most of what they
// could, and after the first few cycles none fails.
func TestPaceConverges(t *testing.T) {
	rng := seedtest.New(t)
	for range 300 {
		limit := time.Duration(1+rng.IntN(30)) * time.Second
		rate := math.Exp(math.Log(256<<10) + rng.Float64()*math.Log(1<<12)) // 256 KiB/s to 1 GiB/s
		wait := time.Duration(10+rng.IntN(20)) * time.Millisecond
		p := NewPace(limit)
		bytes, busy := 0, time.Duration(0)
		for i := range 60 {
			took := wait + time.Duration(float64(p.size)/rate*(0.8+0.4*rng.Float64())*float64(time.Second))
			if took > limit {
				if i > 4 {
					t.Fatalf("%.0f bytes/s, %v: cycle %d of %d bytes fails", rate, limit, i, p.size)
				}
				p.Failed(p.size, p.size/100, limit)
				continue
			}
			if i >= 20 {
				bytes, busy = bytes+p.size, busy+took
			}
			p.Committed(p.size, p.size/100, took)
		}
		// Below the least time for the waits, and above the largest size, less goes.
		could := min(rate, float64(mostCycleBytes)/(wait.Seconds()+float64(mostCycleBytes)/rate))
		if got := float64(bytes) / busy.Seconds(); got < 0.6*could {
			t.Errorf("%.0f bytes/s of %.0f, limit %v, wait %v, size %d", got, could, limit, wait, p.size)
		}
	}
}

// TestRoom: the shares of all partitions overshoot a cycle by half at most.
func TestRoom(t *testing.T) {
	p := NewPace(30 * time.Second)
	p.Committed(1000, 10, time.Millisecond) // 100 bytes a record
	for _, n := range []int{0, 1, 4, 64} {
		r := p.Room(n)
		if total := float64(r.Records) * 100 * float64(n); total > float64(max(p.size/2, n*32*100)) || r.Records < 32 || r.State < 1 {
			t.Errorf("%d partitions: %+v of %d", n, r, p.size)
		}
	}
	p.size = wholeChunks
	if r := p.Room(64); r != (Room{wholeChunks, snapshotBytes, math.MaxInt64}) {
		t.Errorf("%+v", r)
	}
}
