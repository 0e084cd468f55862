// Package seedtest draws the random inputs of tests, so that a failure can be repeated.
package seedtest

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// New returns a source with a new seed, or with that in ODRADEK_TEST_SEED, and logs the
// seed.
func New(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("ODRADEK_TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("ODRADEK_TEST_SEED: %v", err)
		}
	}
	t.Logf("ODRADEK_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}
