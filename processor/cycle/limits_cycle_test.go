package cycle

import (
	"math"
	"math/rand/v2"
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
			{took: 1000 * ms, want: 1536 * kib}, {took: 1500 * ms, want: 512 * kib}, {took: 500 * ms, want: 512 * kib},
		}},
		{"a short transaction has a short target", time.Second, []outcome{
			{took: 250 * ms, want: 1536 * kib}, {took: 375 * ms, want: 512 * kib}, {took: 125 * ms, want: 512 * kib},
		}},
		{"sizes that are too alike change: a second for 1 MiB, most of it fixed", 30 * time.Second, []outcome{
			{took: 1000 * ms, want: 1536 * kib}, {took: 1005 * ms, want: 6 * mib}, {took: 1050 * ms, want: 24 * mib},
		}},
		{"one that is late makes the next small", 30 * time.Second, []outcome{
			{took: 20 * ms, want: 4 * mib}, {took: 40 * ms, want: 16 * mib}, {took: 4000 * ms, want: 2 * mib},
		}},
		{"what takes a fixed time is no rate, failed or not", 30 * time.Second, []outcome{
			{took: 3000 * ms, want: 171 * kib}, {took: 3000 * ms, want: 683 * kib}, {took: 3000 * ms, want: 2731 * kib},
			{took: 5000 * ms, fails: true, want: 2731 * kib}, {took: 15000 * ms, fails: true, want: 91 * kib},
		}},
		{"cycles that are not full do not change the size", 30 * time.Second, []outcome{
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
			if d := p.size - o.want; max(d, -d) > o.want/100 {
				t.Errorf("%s: size %d after outcome %d, want %d", x.name, p.size, i, o.want)
			}
		}
	}
}

// broker takes cycles: each a fixed time and a time a byte, both with noise.
type broker struct {
	fixed time.Duration
	rate  float64 // bytes/s
	noise float64 // 0.2: times are from 80 % to 120 %
}

func (b broker) took(rng *rand.Rand, bytes int) time.Duration {
	noise := func() float64 { return 1 - b.noise + 2*b.noise*rng.Float64() }
	return time.Duration(float64(b.fixed)*noise() + float64(bytes)/b.rate*noise()*float64(time.Second))
}

// could returns the bytes/s of the largest cycles.
func (b broker) could() float64 {
	return min(b.rate, mostCycleBytes/(b.fixed.Seconds()+mostCycleBytes/b.rate))
}

// backlog commits full cycles, and returns how many fail, the last of them, and the bytes/s of all but the first 20.
func (p *Pace) backlog(rng *rand.Rand, b broker, limit time.Duration, cycles int) (failed, last int, rate float64) {
	bytes, busy := 0, time.Duration(0)
	for i := range cycles {
		took := b.took(rng, p.size)
		if took > limit {
			failed, last = failed+1, i
			took = limit
			p.Failed(p.size, p.size/100, took)
		} else {
			n := p.size
			p.Committed(n, n/100, took)
			if i >= 20 {
				bytes += n
			}
		}
		if i >= 20 {
			busy += took
		}
	}
	return failed, last, float64(bytes) / busy.Seconds()
}

// TestPaceConverges: brokers of any rate take most of what they could, and after the first few cycles none fails.
func TestPaceConverges(t *testing.T) {
	rng := seedtest.New(t)
	for range 300 {
		limit := time.Duration(1+rng.IntN(30)) * time.Second
		b := broker{time.Duration(10+rng.IntN(20)) * time.Millisecond,
			math.Exp(math.Log(256<<10) + rng.Float64()*math.Log(1<<12)), 0.2} // 256 KiB/s to 1 GiB/s
		p := NewPace(limit)
		_, last, got := p.backlog(rng, b, limit, 60)
		if last > 4 {
			t.Fatalf("%+v, limit %v: cycle %d fails", b, limit, last)
		}
		// Below the least time for the waits, and above the largest size, less goes.
		if got < 0.6*b.could() {
			t.Errorf("%+v, limit %v: %.0f bytes/s of %.0f, size %d", b, limit, got, b.could(), p.size)
		}
	}
}

// TestPaceFixedPart: where a commit takes a fixed time, up to seconds, at least half of what the brokers could take goes,
// and no cycle comes near the time-out of its transaction.
func TestPaceFixedPart(t *testing.T) {
	const limit = 30 * time.Second
	rng := seedtest.New(t)
	for range 300 {
		b := broker{time.Duration(rng.Int64N(int64(5 * time.Second))), 100 << 20 * (0.5 + rng.Float64()), 0.2}
		p := NewPace(limit)
		failed, _, got := p.backlog(rng, b, limit, 100)
		if failed > 0 || got < 0.5*b.could() {
			t.Errorf("%+v: %d cycles fail, %.2f MiB/s of %.2f, size %d KiB", b, failed, got/(1<<20), b.could()/(1<<20), p.size>>10)
		}
		if most := b.fixed + limit/4; b.took(rng, p.size) > most*12/10 {
			t.Errorf("%+v: a cycle of %d KiB takes more than %v", b, p.size>>10, most)
		}
	}
}

// TestPaceChanges: brokers become slow or fast, near or distant; few cycles fail, and the size follows.
func TestPaceChanges(t *testing.T) {
	const ms, mib = time.Millisecond, 1 << 20
	rng := seedtest.New(t)
	for _, x := range []struct {
		name          string
		limit         time.Duration
		before, after broker
		fail          int     // cycles, at most
		least         float64 // of what the brokers could take
	}{
		{"slower by 400", 30 * time.Second, broker{30 * ms, 200 * mib, 0.2}, broker{30 * ms, mib / 2, 0.2}, 2, 0.4},
		{"slower by 40", 30 * time.Second, broker{30 * ms, 200 * mib, 0.2}, broker{30 * ms, 5 * mib, 0.2}, 0, 0.4},
		{"faster by 400", 30 * time.Second, broker{30 * ms, mib / 2, 0.2}, broker{30 * ms, 200 * mib, 0.2}, 0, 0.4},
		{"distant", 30 * time.Second, broker{30 * ms, 200 * mib, 0.2}, broker{time.Second, 200 * mib, 0.2}, 0, 0.4},
		{"near", 30 * time.Second, broker{time.Second, 200 * mib, 0.2}, broker{30 * ms, 200 * mib, 0.2}, 0, 0.4},
		{"distant, slower by 200", 30 * time.Second, broker{time.Second, 100 * mib, 0.2}, broker{time.Second, mib / 2, 0.2}, 2, 0.3},
		{"distant and slow, a short transaction", 3 * time.Second, broker{30 * ms, 100 * mib, 0.2}, broker{600 * ms, mib, 0.2}, 4, 0.15},
	} {
		for range 30 {
			p := NewPace(x.limit)
			p.backlog(rng, x.before, x.limit, 40)
			failed, last, got := p.backlog(rng, x.after, x.limit, 100)
			if failed > x.fail || last > 50 || got < x.least*x.after.could() {
				t.Errorf("%s: %d cycles fail, the last is %d, %.2f MiB/s of %.2f", x.name, failed, last, got/mib, x.after.could()/mib)
			}
		}
	}
}

// TestPaceAfterSmallCycles: a backlog that follows an hour of small cycles has large ones soon, regardless of the fixed part.
func TestPaceAfterSmallCycles(t *testing.T) {
	rng := seedtest.New(t)
	for _, fixed := range []int{30, 250, 600, 1000, 3000} {
		b := broker{time.Duration(fixed) * time.Millisecond, 100 << 20, 0.2}
		p := NewPace(30 * time.Second)
		for range 1000 {
			n := 1<<10 + rng.IntN(40<<10)
			p.Committed(n, n/256+1, b.took(rng, n))
		}
		p.backlog(rng, b, 30*time.Second, 6)
		if got := float64(p.size) / b.took(rng, p.size).Seconds(); got < 0.3*b.could() {
			t.Errorf("fixed %v: %.1f MiB/s of %.1f after 6 cycles", b.fixed, got/(1<<20), b.could()/(1<<20))
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
