package state

import (
	"fmt"
	"testing"

	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
)

// BenchmarkFoldAlerts is BenchmarkFold with a threshold and events, and with
// silence: what they add is the difference.
func BenchmarkFoldAlerts(b *testing.B) {
	for _, keys := range []int{1000, 100000} {
		for _, c := range []struct {
			name    string
			kind    threshold.Kind
			value   float64
			silence int64
		}{
			{"none", threshold.Off, 0, 0},
			{"silence", threshold.Off, 0, 600e6},
			{"fixed", threshold.Fixed, 900, 0},
			{"conformal", threshold.Conformal, 0.001, 600e6},
		} {
			b.Run(fmt.Sprintf("keys=%d/%s", keys, c.name), func(b *testing.B) {
				cfg := benchConfig(8, 1)
				if c.kind != threshold.Off {
					params := threshold.New(c.kind, c.value)
					cfg.Detectors[0].Threshold = &params
					cfg.Detectors[0].Events = &anomaly.Policy{OpenAfter: 2, CloseAfter: 3, Release: 0.9}
				}
				cfg.Silence = c.silence
				d := newDrive(cfg, keys)
				d.samples(keys*20, 10000)
				b.ReportAllocs()
				b.ResetTimer()
				defer cpu(b, 1)()
				d.samples(b.N, 10000)
			})
		}
	}
}
