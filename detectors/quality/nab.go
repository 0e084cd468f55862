package quality

import (
	"cmp"
	"math"
	"slices"
)

// Span is a run of samples, both ends included.
type Span struct{ From, To int }

// Profile weighs a detector's hits, misses and false alarms.
type Profile struct {
	Name       string
	TP, FP, FN float64
}

// Profiles are the three application profiles of the Numenta Anomaly Benchmark.
var Profiles = []Profile{
	{"standard", 1, 0.11, 1},
	{"reward_low_FP", 1, 0.22, 1},
	{"reward_low_FN", 1, 0.11, 2},
}

// Probation returns how many samples at the start of a series of n are not scored: 15 %,
// 750 at most.
func Probation(n int) int { return int(min(math.Floor(0.15*float64(n)), 750)) }

// scaledSigmoid returns the worth of a detection at a position relative to a window:
// -1 is its left edge, 0 its right edge, above 0 is after the window.
func scaledSigmoid(y float64) float64 {
	if y >= 3 {
		return -1
	}
	return 2/(1+math.Exp(5*y)) - 1
}

// Scored is one series with a detector's scores.
type Scored struct {
	Scores  []float64 // one a sample, higher is more anomalous; Never for a sample that is no detection
	Windows []Span    // of its anomalies, in order, apart
}

// Never is a score below every threshold.
var Never = math.Inf(-1)

// NABResult is the score of a detector on a corpus.
type NABResult struct {
	Score     float64 // 100: every window found at once and nothing else; 0: nothing found
	Raw       float64 // before it is normalised
	Threshold float64 // +Inf: nothing detected
	Windows   int     // scored ones
	Found     int     // of them
	False     int     // detections outside of windows, in samples
}

// nabPoint is one sample: its score, the worth of its detection, its window.
type nabPoint struct {
	score, worth float64
	window       int // -1: outside
}

// points applies the scoring rules of the benchmark (Lavin & Ahmad 2015, as in its
// sweeper of version 1.1): in a window the scaled sigmoid of the position,
// where the first sample of the window is at -1 and the last at -1/width, divided by
// its largest value; after a window the sigmoid of the distance in window lengths
// (less one sample); before the first window -1.
func points(p Profile, s Scored, window int, dst []nabPoint) []nabPoint {
	first := scaledSigmoid(-1)
	probation := Probation(len(s.Scores))
	next := 0
	for i, score := range s.Scores {
		for next < len(s.Windows) && i > s.Windows[next].To {
			next++
		}
		pt := nabPoint{score: score, window: -1}
		switch {
		case next < len(s.Windows) && i >= s.Windows[next].From:
			w := s.Windows[next]
			pt.worth = p.TP * scaledSigmoid(-float64(w.To-i+1)/float64(w.To-w.From+1)) / first
			pt.window = window + next
		case next == 0:
			pt.worth = -p.FP
		default:
			w := s.Windows[next-1]
			pt.worth = p.FP * scaledSigmoid(float64(i-w.To)/float64(w.To-w.From))
		}
		if i >= probation {
			dst = append(dst, pt)
		}
	}
	return dst
}

// NAB scores a corpus under a profile with the best single threshold for all its
// series, as in the benchmark. A detection is a score at or above it.
func NAB(p Profile, corpus []Scored) NABResult { return sweep(p, corpus, nil) }

// NABAt is NAB with a given threshold.
func NABAt(p Profile, corpus []Scored, threshold float64) NABResult {
	return sweep(p, corpus, &threshold)
}

func sweep(p Profile, corpus []Scored, at *float64) NABResult {
	var pts []nabPoint
	windows := 0
	for _, s := range corpus {
		pts = points(p, s, windows, pts)
		windows += len(s.Windows)
	}
	slices.SortFunc(pts, func(a, b nabPoint) int { return cmp.Compare(b.score, a.score) })
	worth := make([]float64, windows)
	scored := make([]bool, windows)
	res := NABResult{Threshold: math.Inf(1)}
	for _, pt := range pts {
		if pt.window >= 0 && !scored[pt.window] {
			scored[pt.window] = true
			worth[pt.window] = -p.FN
			res.Windows++
		}
	}
	base := -p.FN * float64(res.Windows)
	now := res
	now.Raw = base
	res = now
	for i := 0; i < len(pts) && pts[i].score > Never; {
		threshold := pts[i].score
		if at != nil && threshold < *at {
			break
		}
		for ; i < len(pts) && pts[i].score == threshold; i++ {
			pt := pts[i]
			if pt.window < 0 {
				now.Raw += pt.worth
				now.False++
				continue
			}
			if worth[pt.window] == -p.FN {
				now.Found++
			}
			if pt.worth > worth[pt.window] {
				now.Raw += pt.worth - worth[pt.window]
				worth[pt.window] = pt.worth
			}
		}
		now.Threshold = threshold
		if at != nil || now.Raw > res.Raw {
			res = now
		}
	}
	if perfect := p.TP * float64(res.Windows); perfect > base {
		res.Score = 100 * (res.Raw - base) / (perfect - base)
	}
	return res
}
