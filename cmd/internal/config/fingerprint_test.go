package config

import (
	"strings"
	"testing"
)

// TestFingerprintsStay: stored state carries these numbers. One that changes stops every
// worker that has such state, so it changes with the op's scores (Spec.Version) alone.
func TestFingerprintsStay(t *testing.T) {
	for _, tt := range []struct {
		settings string
		want     uint64
	}{
		{"OP=discord", 0x37f7c174f6e820ee},
		{"OP=discord WINDOW=512 EXACT_ABOVE=0.9 K=1", 0x899b367bd3f2d523},
		{"OP=discords FIELDS=a", 0x7ef11244594dd1bd},
		{"OP=discords FIELDS=a RADIUS=auto", 0x0d890535709067cf},
		{"OP=flatline", 0x9e045124262e696f},
		{"OP=flatline AFTER=9 TOLERANCE=0.25 WINDOW=7", 0xbb8a5e489783fed0},
		{"OP=ikasst", 0xef0b6d3891873297},
		{"OP=ikasst WINDOW=100 RANK=4 KRYLOV=9 GAMMA=17 POWER_STEPS=3 EPSILON=1e-5 STRIDE=16 FIELDS=b", 0x6da328e8e18d874a},
		{"OP=knn", 0xbe137dc723ba1a78},
		{"OP=knn TUMBLING=true STRIDE=1024", 0xc9b3059b7e4ac65d},
		{"OP=knn WINDOW=77 K=7 EMBED=3 MIN_POINTS=70 INCLUDE_SELF=true FIELDS=a", 0x0f2d91e75cccfd85},
		{"OP=knn ZNORM=true", 0x757f9ba52dec5aa5},
		{"OP=knn ZNORM=false", 0xbe137dc723ba1a78},
		{"OP=knn SMOOTH=1", 0xbe137dc723ba1a78},
		{"OP=knn SMOOTH=64", 0x374b996e206f68c0},
		{"OP=lof", 0xf643b19c99828f1c},
		{"OP=lof WINDOW=64 K=10 EMBED=4 ZNORM=true MIN_POINTS=33 FLOOR=none THRESHOLD=off", 0xf402879e7d9cf1e4},
		{"OP=lof WINDOW=64 K=10 TUMBLING=true STRIDE=64 BINS=9 DECAY=0.98 MAX_BINS=100 ALPHA=0.5", 0x879c57641b00420a},
		{"OP=svdsst", 0xb4b7c6e8d68f496d},
		{"OP=svdsst WINDOW=40 RANK=12 GAMMA=3 NEGLIGIBLE=0.0032 HISTORY=99", 0x66e85254697ee7ab},
		{"OP=zscore", 0xb62b16b8ce74e3f7},
		{"OP=zscore WINDOW=16 STRIDE=4 FIELDS=b,a", 0xb6d53a0bed3b3c18},
	} {
		list := []string{"ODRADEK_VALUE_FIELDS=a,b", "ODRADEK_DETECTORS=x"}
		for _, s := range strings.Fields(tt.settings) {
			list = append(list, "ODRADEK_DETECTOR_X_"+s)
		}
		c, faults, _ := Parse(minimal(list...))
		if len(faults) > 0 {
			t.Fatal(tt.settings, faults)
		}
		ks, err := c.KeystateConfig()
		if err != nil {
			t.Fatal(tt.settings, err)
		}
		if got := ks.Detectors[0].Fingerprint; got != tt.want {
			t.Errorf("%s: fingerprint %#016x, want %#016x, of %s", tt.settings, got, tt.want, c.Detectors[0].canonical())
		}
	}
}
