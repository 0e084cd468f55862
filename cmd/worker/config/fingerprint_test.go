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
		{"OP=flatline", 0x9e045124262e696f},
		{"OP=flatline AFTER=9 TOLERANCE=0.25 WINDOW=7", 0xbb8a5e489783fed0},
		{"OP=ikasst", 0x21e56ae5617c894a},
		{"OP=ikasst WINDOW=100 RANK=4 KRYLOV=9 GAMMA=17 POWER_STEPS=3 EPSILON=1e-5 STRIDE=16 FIELDS=b", 0x5cfa3263ef506a19},
		{"OP=knn", 0xfab265d7a88d0bf9},
		{"OP=knn TUMBLING=true STRIDE=1024", 0xa05bd384709a1d14},
		{"OP=knn WINDOW=77 K=7 EMBED=3 MIN_POINTS=70 INCLUDE_SELF=true FIELDS=a", 0x878339e3dd1a3a2c},
		{"OP=lof", 0x58e5dab137839574},
		{"OP=lof WINDOW=64 K=10 EMBED=4 ZNORM=true MIN_POINTS=33 STRICT=true THRESHOLD=off", 0x122662ab02eb56e9},
		{"OP=lof WINDOW=64 K=10 TUMBLING=true STRIDE=64 BINS=9 DECAY=0.98 MAX_BINS=100 ALPHA=0.5", 0x5290f825dfa0c482},
		{"OP=svdsst", 0xb4b7c6e8d68f496d},
		{"OP=svdsst WINDOW=40 RANK=12 GAMMA=3 NEGLIGIBLE=0.0032 HISTORY=99", 0x66e85254697ee7ab},
		{"OP=zscore", 0x145c0ae7f30e380a},
		{"OP=zscore WINDOW=16 STRIDE=4 FIELDS=b,a", 0xa9ab3fd32a188b11},
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
