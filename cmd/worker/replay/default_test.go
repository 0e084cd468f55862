package replay

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"odradek/cmd/worker/quality"
	"odradek/detectors"
)

// newRand prints the seed of a test; ODRADEK_TEST_SEED repeats a run.
func newRand(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("ODRADEK_TEST_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("ODRADEK_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// TestTheDefaultFindsFaults replays streams with nothing configured: most of what is
// plainly wrong opens an anomaly, and little else does.
func TestTheDefaultFindsFaults(t *testing.T) {
	rnd := newRand(t)
	exec := detectors.NewCPU(1)
	defer exec.Close()
	found, planted, opened := 0, 0, 0
	for dim := range 3 {
		dim++
		c, err := Settings(nil, dim)
		if err != nil {
			t.Fatal(err)
		}
		s := quality.Series{Name: "s", Dim: dim}
		faults := []int{1500, 2600, 3700} // further apart than a history is long
		for i := range 4200 {
			s.Times = append(s.Times, int64(i)*1e6)
			for c := range dim {
				v := 5*math.Sin(float64(i)/20+float64(c)) + 0.3*rnd.NormFloat64()
				switch {
				case i == 1500 && c == 0:
					v += 10 // a spike
				case i >= 2600 && i < 2620:
					v += 6 // another level
				case i >= 3700 && i < 3740:
					v = 0.3 * rnd.NormFloat64() // the wave stops
				}
				s.Values = append(s.Values, v)
			}
		}
		got, err := Series(context.Background(), c, exec, &s)
		if err != nil {
			t.Fatal(err)
		}
		planted += len(faults)
		for _, f := range faults {
			for _, at := range got[0].Opens {
				if at >= f && at < f+60 {
					found++
					break
				}
			}
		}
		opened += len(got[0].Opens)
	}
	if 3*found < 2*planted || opened > 3*planted {
		t.Errorf("%d of %d faults found, %d anomalies", found, planted, opened)
	}
}
