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
		{"OP=ikasst", 0x9394f35cc5fd17ff},
		{"OP=ikasst WINDOW=100 RANK=4 KRYLOV=9 GAMMA=17 POWER_STEPS=3 EPSILON=1e-5 STRIDE=16 FIELDS=b", 0xf77e1460e07761e6},
		{"OP=knn", 0xe3571b655444e122},
		{"OP=knn TUMBLING=true STRIDE=1024", 0xcd2193fc7b4f1cd7},
		{"OP=knn WINDOW=77 K=7 EMBED=3 MIN_POINTS=70 INCLUDE_SELF=true FIELDS=a", 0x873e858587349a13},
		{"OP=knn ZNORM=true", 0x2feb8767b06a3bdc},
		{"OP=knn ZNORM=false", 0xe3571b655444e122},
		{"OP=knn SMOOTH=1", 0xe3571b655444e122},
		{"OP=knn SMOOTH=64", 0x93eb8144f4632e8e},
		{"OP=lof", 0xee7a43f8eb3b0460},
		{"OP=lof WINDOW=64 K=10 EMBED=4 ZNORM=true MIN_POINTS=33 FLOOR=none THRESHOLD=off", 0x045ff9c4c07c0140},
		{"OP=lof WINDOW=64 K=10 TUMBLING=true STRIDE=64 BINS=9 DECAY=0.98 MAX_BINS=100 ALPHA=0.5", 0x5007116669037016},
		{"OP=svdsst", 0xe2038232054db974},
		{"OP=svdsst WINDOW=40 RANK=12 GAMMA=3 NEGLIGIBLE=0.0032 HISTORY=99", 0x61674ae53ebb106e},
		{"OP=zscore", 0x145c09e7f30e3657},
		{"OP=zscore WINDOW=16 STRIDE=4 FIELDS=b,a", 0xa9ab3cd32a1885f8},
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
