package series

import (
	"hash/fnv"

	"odradek/detectors"
	"odradek/detectors/threshold"
	"odradek/processor/anomaly"
	"odradek/processor/state/rules"
)

// WindowConfig is a list of fields that detectors score together.
type WindowConfig struct {
	Columns []int // indices into Sample.Values; the values of a row, in order
	// Fingerprint identifies the settings that determine these rows. Stored rows
	// of another fingerprint are not used. No two windows have the same.
	Fingerprint uint64
	// Incomplete admits a row of which at least one value is there; those that are
	// missing are NaN. Without Hold only; the detectors must be detectors.Incomplete.
	Incomplete bool
	// Grid makes the rows cells of a grid, and Columns its X and Y; nil: rows are samples.
	Grid *Grid
}

// DetectorConfig is one detector on one window.
type DetectorConfig struct {
	Name     string // unique; finds its stored progress again
	Detector detectors.Detector
	Ensemble *Ensemble             // combines other detectors' scores; Detector is then nil, and Window and Stride mean nothing
	Window   int                   // index into Config.Windows
	Fields   []string              // names of the window's columns, shown with its anomalies; no part of the state
	Keys     func(key []byte) bool // the series that it reads; nil: all
	Patterns []string              // of Keys, none for all; a change of them is decided on, with the reading
	Stride   int                   // samples a task scores, at least 1
	// Until is the number of a series' samples after which the detector scores no more, but for the stride that it is in, and has no
	// state; 0: it never ends. A fingerprint's part. Not of a grid, an ensemble or a member of one that sums.
	Until int64
	// Fingerprint identifies the op, its parameters and the stride. Threshold, MaxP, Guard, Events
	// and Shadow are not in it: changed ones hold from the next live score on.
	Fingerprint uint64

	// Scale divides the fields of its rows by scales of their own (detectors.Scales); a fingerprint's part.
	// See Unscalable.
	Scale bool
	// Smooth has the mean of the last scores judged in place of each; a fingerprint's part.
	Smooth threshold.Smoothing

	// Threshold judges its scores; nil: none exceeds. Where Decluster is 0, it is the
	// rows from the first that a score is about (Steady) to its own, 1 at least; with Smooth, from the
	// first that any score of the mean is about.
	Threshold *threshold.Params
	// MaxP is the largest p-value of a region (detectors.Region) that can exceed; 0 and 1: any.
	MaxP   float64
	Guard  *rules.Guard    // that scores have to pass, too; nil: none. Not of an ensemble or a grid
	Events *anomaly.Policy // makes anomalies of those that exceed; nil: no events
	// Shadow marks its anomalies (anomaly.Anomaly.Shadow), which are in no group. Nothing else depends on it.
	Shadow bool
}

// Ensemble makes a detector one of the scores of others; see package ensemble.
type Ensemble struct {
	Members           []int // indices into Config.Detectors; none is an ensemble
	Memory, MinPoints int   // see ensemble.Params
	Max               bool  // see ensemble.Params
	Any               bool  // see ensemble.Params; where it makes events, its members make none
	// Align delays members so that the scores which are added have the same middle of the rows that they, or the means of Smooth, are
	// about: see ensemble.Params.Lags.
	Align bool
	// Weights are factors of the members' terms; nil: 1 each.
	Weights []float64
	// Gates are of Any, and OnlyWith the gate of each member, from 1 on, 0 for none; nil: no member has one.
	Gates    []Gate
	OnlyWith []int
}

// Gate says with which detector members of an ensemble have to agree: see ensemble.Params.Gates. It is open, too, while the detector has
// no season in use.
type Gate struct {
	Detector int // index into Config.Detectors: a detectors.Seasonal
	Above    float32
}

// Spaced is implemented by a Steady that scores one of Every fresh rows: the newest, and each Every-th before it.
type Spaced interface {
	Steady
	Every() int
}

// Steady is implemented by detectors with one finding for each fresh row, in order,
// with the row's score, about the rows from `from` to `to` before it, counted within
// the task's X. AppendFindings is then not called, and the times of older rows are
// not queued.
type Steady interface {
	Reach() (from, to int)
}

// Limits of a configuration; far above use, they keep sums from overflowing.
const (
	MaxDim  = 1 << 16
	MaxRows = 1 << 26
)

// NameHash stands for a detector's name in a head.
func NameHash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// SilenceName is the name in events of silence, where others have the detector's.
const SilenceName = "silence"
