package main

import (
	"fmt"

	"odradek/detectors"
)

// discordShapes are those of op discords. The profile of a long series has the lengths of
// SCAMP's own benchmark; the windows are those of many keys.
var discordShapes = []opShape{
	opsProfile(1_000_000, 512, 512, 0.22),
	opsProfile(1_000_000, 512, 512, 0.015).again(),
	opsProfile(1_000_000, 512, 512, 0.015).of(walks).again(),
	opsProfile(10_000_000, 512, 512, 23).onlyAsked(),
	opsProfile(100_000, 512, 512, 0.004),
	opsProfile(100_000, 512, 512, 0).again(),
	opsProfile(35_040, 48, 672, 0.06),
	opsProfile(35_040, 48, 672, 0.06).of(recorded),
	opsProfile(35_040, 48, 672, 0).of(walks),
	opsProfile(35_040, 48, 672, 0).of(noise),
	opsDiscords(79, 1, 60e3),
	opsDiscords(79, 1, 60e3).of(walks),
	opsDiscords(79, 1, 60e3).of(noise),
	opsDiscords(184, 8, 60e3),
	opsDiscords(64, 1, 0),
}

// of is the shape with windows of another series: see wave.
func (s opShape) of(series string) opShape {
	s.series = series
	s.name += ", " + series
	return s
}

// again is the shape with the radius that a task of the same series has left.
func (s opShape) again() opShape {
	s.first = false
	s.name += ", with a radius"
	return s
}

// onlyAsked is the shape, measured only where -shapes names it.
func (s opShape) onlyAsked() opShape {
	s.asked = true
	return s
}

// opsProfile is the first discord of each of the lengths of one series, which takes the
// given seconds at most; 0: no target.
func opsProfile(n, least, most int, seconds float64) opShape {
	kernel := 0.0
	if seconds > 0 {
		kernel = float64(n) / seconds
	}
	return opShape{
		name: fmt.Sprintf("discords N=%d m=%d to %d", n, least, most), unit: "samples/s", dim: 1, fresh: n, tasks: 1,
		kernel: kernel, long: true, first: true,
		det: func() (detectors.Detector, error) {
			return detectors.NewDiscords(detectors.DiscordsParams{Window: n, Tumbling: true, MinLength: least, MaxLength: most})
		},
		floor: func() work { return pairWork(n, least, most, 1) },
	}
}

// opsDiscords is the first discord of each length, from 64 samples on, of a key's window.
func opsDiscords(most, step int, kernel float64) opShape {
	const n, least, tasks = 2048, 64, 8192
	return opShape{
		name: fmt.Sprintf("discords N=%d m=%d to %d by %d", n, least, most, step), unit: "keys/s", dim: 1, fresh: 1, tasks: tasks, kernel: kernel,
		det: func() (detectors.Detector, error) {
			return detectors.NewDiscords(detectors.DiscordsParams{Window: n, MinLength: least, MaxLength: most, Step: step})
		},
		floor: func() work { return pairWork(n, least, least, 1) }, // from one length to the next it is next to nothing
	}
}

// pairWork is that of all pairs of subsequences: two multiplications and additions and a
// product a pair, in float64, at half the rate of float32.
func pairWork(n, least, most, step int) work {
	pairs := 0.0
	for m := least; m <= most; m += step {
		left := float64(n - 2*m + 1)
		pairs += left * (left + 1) / 2
	}
	return work{"all pairs along diagonals, float64", 6 * pairs}
}
