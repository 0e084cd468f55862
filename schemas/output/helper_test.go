package output

import (
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

func equal(a, b []float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Float64bits(a[i]) != math.Float64bits(b[i]) && !(a[i] != a[i] && b[i] != b[i]) {
			return false
		}
	}
	return true
}

// newRand prints the seed of a test; ODRADEK_TEST_SEED repeats a run.
func newRand(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("ODRADEK_TEST_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("ODRADEK_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}
