package config

import (
	"slices"
	"strings"
)

// This file has the sets of detectors that a configuration may name instead of detectors of its own.

// Preset is a named set of detectors with complete settings.
type Preset struct {
	Name      string
	Help      string // a phrase
	Detectors []PresetDetector
	Many      []PresetDetector // in place of Detectors where a sample has more than MostSeveral values; nil: the same
}

// MostSeveral is the largest number of values for which the state of op joint, which grows with their square, is smaller than the window
// of near: 0.8 MB of 2 MB.
const MostSeveral = 256

// detectors returns the detectors for samples of so many values.
func (p *Preset) detectors(values int) []PresetDetector {
	if values > MostSeveral && p.Many != nil {
		return p.Many
	}
	return p.Detectors
}

// PresetDetector is a detector of a preset: its settings where a sample has one value, and where it has
// several. They are NAME=value, separated by spaces; "" leaves the detector out.
type PresetDetector struct{ Name, One, Several string }

// Presets are the values of ODRADEK_PRESET, the default first. docs/quality.md says what they find. Why the default preset has these
// detectors, with figures of worker score on NAB's 38 dev streams where nothing else is said:
//
//   - start judges from the 72nd sample on, until near has enough scores: of 134 short streams of NAB dev (a window after 350 or 600
//     samples) 121 of 148 windows are found in place of 101, at 85 false anomalies in place of 29. A margin of 2 has 65.7 in place
//     of 66.9, one of 1 has twice the rate in the first 256 scores of a lognormal series. A HISTORY of 512 costs three points.
//   - any makes one anomaly of what these four find: without band 69.6 with 65 windows and 173 false, in place of 67.5, 65 and 217.
//   - band, and gates of near and start: 71.0 with 67 and 190 in place of 69.6, 65 and 173. Of 40 known faults in 15 made series 40 are
//     found in place of 34, at 74 false anomalies in place of 170; of the 148 windows 125, at 100; of UCR's 43 short series 36,
//     at 391 false in place of 633. With a gate shape misses a quarter of the demo's spikes. Gates at 6 have 110 false of the made series,
//     at 9.9 two windows less. MIN_POINTS=64 has 158 false in short streams, 768 misses a fault; THRESHOLD=fixed:9.9 has 10 false more,
//     12 misses a fault; CLOSE_AFTER=100 has 70.2 with 216 false, and OPEN_AFTER=2 69.4.
//   - shape finds recurring faults that near misses: a quantile threshold of near finds nearly all of the demo's spikes, too, at 239 false
//     anomalies and 47.0 on NAB.
//     Distances between normalised shapes hardly vary in noise, so few exceed 1.5 times their quantile (33 false).
//   - OPEN_AFTER=16: an unusual shape has high scores as long as a part of it is in the subsequence. With 1 sample SMAP and MSL have
//     some 410 false anomalies, with 16 275. With 32 the demo has 40, with 16 one.
//   - flat compares run lengths with the series' own. A fixed number of samples is an anomaly without an end in a field that is
//     constant.
//   - past and both rank shapes by the last 20,000 samples; 8,192 rank 46 of UCR's 79 series first at the anomaly, 20,000 rank 53.
//     With EXACT_ABOVE=0.9 past takes a third of the time, and both ranks 51.
//   - Further detectors beside these add nothing: a smoothed z-score -0.3 to +0.7, smoothed ar 0, another knn -2 to -3, ar of single
//     readings -8 to -24.
var Presets = []Preset{
	{"default", "readings, sequences and shapes unlike earlier ones, or unusual for the time of day, a start for short series, and readings " +
		"that do not change", []PresetDetector{
		{"near", "OP=knn WINDOW=2048 K=27 EMBED=32 STRIDE=16 THRESHOLD=conformal:0.0015 HISTORY=2048 CLOSE_AFTER=100 ONLY_WITH=band:8",
			severalNear + "off"},
		{"joint", "", severalJoint},
		{"together", "", severalTogether},
		{"start", "OP=knn WINDOW=1024 K=5 EMBED=8 STRIDE=16 MIN_POINTS=32 UNTIL=2048 THRESHOLD=conformal:0.0008+1.5 WARMUP=32 " +
			"HISTORY=2048 CLOSE_AFTER=100 ONLY_WITH=band:8", severalStart},
		{"shape", "OP=discord WINDOW=1024 LENGTH=50 K=2 STRIDE=16 THRESHOLD=quantile:0.95*1.5 OPEN_AFTER=16 HISTORY=2048 CLOSE_AFTER=100", ""},
		{"flat", stuck, ""},
		{"band", "OP=band STRIDE=16 MIN_POINTS=512 THRESHOLD=fixed:10.6 CLOSE_AFTER=300", ""},
		{"past", past, ""},
		{"both", "OP=ensemble MEMBERS=near,past WEIGHTS=1,4 MIN_POINTS=16 THRESHOLD=conformal:0.0003 HISTORY=2048 CLOSE_AFTER=100", ""},
		{"any", "OP=ensemble COMBINE=any MEMBERS=near,start,shape,flat CLOSE_AFTER=100", ""},
	}, many},
	{"fast", "the same, compared with a quarter of the earlier samples in a third of the time", []PresetDetector{
		{"near", "OP=knn WINDOW=512 K=10 EMBED=32 STRIDE=16 THRESHOLD=conformal:0.0015 HISTORY=2048 CLOSE_AFTER=100",
			"OP=knn WINDOW=512 K=10 EMBED=2 STRIDE=16 THRESHOLD=conformal:0.002 HISTORY=2048 CLOSE_AFTER=16"},
		{"shape", "OP=discord WINDOW=256 LENGTH=50 STRIDE=16 THRESHOLD=quantile:0.95*1.5 OPEN_AFTER=16 HISTORY=2048 CLOSE_AFTER=100", ""},
		{"flat", stuck, ""},
	}, nil},
	{"sensitive", "lower thresholds, and single readings far from their prediction by those just before; at least twice the false anomalies",
		[]PresetDetector{
			{"near", "OP=knn WINDOW=2048 K=27 EMBED=32 STRIDE=16 THRESHOLD=conformal:0.002 HISTORY=2048 CLOSE_AFTER=100",
				"OP=knn WINDOW=1024 K=10 EMBED=4 STRIDE=8 THRESHOLD=conformal:0.004 HISTORY=2048 CLOSE_AFTER=16"},
			{"shape", "OP=discord WINDOW=1024 LENGTH=50 K=2 STRIDE=16 THRESHOLD=quantile:0.95*1.3 OPEN_AFTER=8 HISTORY=2048 CLOSE_AFTER=100", ""},
			{"flat", stuck, ""},
			{"past", past, ""},
			{"jump", "OP=ar ORDER=32 THRESHOLD=quantile:0.95*5 HISTORY=2048 CLOSE_AFTER=100",
				"OP=ar ORDER=32 THRESHOLD=quantile:0.95*5 HISTORY=2048 CLOSE_AFTER=100"},
		}, nil},
	{"vector", "the detectors that default has for samples of several values", []PresetDetector{
		{"near", severalNear + "off", severalNear + "off"},
		{"joint", severalJoint, severalJoint},
		{"together", severalTogether, severalTogether},
		{"start", severalStart, severalStart},
	}, many},
	{"change", "changes of level, also in series of about fifty samples", []PresetDetector{
		{"level", "OP=zscore WINDOW=32 THRESHOLD=fixed:3 OPEN_AFTER=2 WARMUP=16", "OP=zscore WINDOW=32 THRESHOLD=fixed:3 OPEN_AFTER=2 WARMUP=16"},
	}, nil},
}

// many are detectors of samples of more than MostSeveral values.
var many = []PresetDetector{{"near", "", severalNear + "conformal:0.0025 HISTORY=2048 CLOSE_AFTER=16"}}

// The settings of detectors of samples of several values. joint finds states that near calls usual once they are in its window, and
// needs no common unit of the values; near finds sequences unlike earlier ones. One threshold for the higher of both scores finds as much
// as a threshold for each, at fewer false anomalies: on ASD 28 and 23 where those find 28 and 32, on SMD 36 and 45 for 34 and 52.
//
// start judges from the 72nd sample on, together from some 340th. Of 216 faults in series of ASD and SMD dev that begin 120, 200 or 350
// samples before the fault 112 are found in place of 26, of 114 that begin 1,000 before 75 in place of 39; in 104 series of 500 healthy
// samples there are 35 false anomalies in place of 22. EMBED=2 with OPEN_AFTER=2 finds one deviating sample, too. start alone has 108 of
// the 216 and 13 false, with a margin of 2 119 and 28, of 4 91 and 7, with EMBED=1 K=3 and a margin of 1.5 95 and 12.
const (
	severalNear  = "OP=knn WINDOW=1024 K=10 EMBED=4 STRIDE=8 MIN_POINTS=64 THRESHOLD="
	severalJoint = "OP=joint STRIDE=8 THRESHOLD=off"
	severalStart = "OP=knn WINDOW=1024 K=2 EMBED=2 STRIDE=8 MIN_POINTS=32 UNTIL=2048 THRESHOLD=conformal:0.0008+3 WARMUP=32 " +
		"HISTORY=2048 OPEN_AFTER=2 CLOSE_AFTER=32"
	severalTogether = "OP=ensemble COMBINE=max MEMBERS=near,joint MIN_POINTS=16 THRESHOLD=conformal:0.0025 HISTORY=2048 WARMUP=256 " +
		"CLOSE_AFTER=32"
)

// stuck are the settings of a detector of readings that do not change for much longer than is usual
// for their series.
const stuck = "OP=flatline STRIDE=16 THRESHOLD=quantile:0.95*2 OPEN_AFTER=32 WARMUP=512 HISTORY=2048 CLOSE_AFTER=8"

// past are the settings of a detector of shapes of several lengths that are unlike all of the last 20,000 samples.
const past = "OP=discord WINDOW=20000 LENGTH=50 MAX_LENGTH=150 LENGTHS=4 EVERY=32 STRIDE=32 SMOOTH=3 " +
	"THRESHOLD=conformal:0.002 CLOSE_AFTER=8"

// PresetNamed returns a preset, nil for none of this name.
func PresetNamed(name string) *Preset {
	if i := slices.IndexFunc(Presets, func(p Preset) bool { return p.Name == name }); i >= 0 {
		return &Presets[i]
	}
	return nil
}

// PresetTexts returns what the presets are, and their names.
func PresetTexts() (help, names string) {
	var texts, list []string
	for i := range Presets {
		p := &Presets[i]
		list = append(list, p.Name)
		texts = append(texts, p.Name+": "+p.Help+".")
	}
	return strings.Join(texts, " "), strings.Join(list, "|")
}
