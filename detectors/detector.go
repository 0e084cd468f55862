package detectors

import (
	"math"
	"slices"
)

// View gives the dimensions of a key's window for a detector: its number of rows, of which the
// last Fresh are to be scored.
type View struct {
	Dim   int // values a row
	Rows  int // rows in the window, the fresh ones included
	Fresh int // rows at the end that have no score yet, at least 1
}

// Detector is a method with its parameters: a stateless value that defines how much of a
// window the method reads and how its numbers are interpreted. The method's state between
// tasks is its carry, which the caller keeps.
type Detector interface {
	// Op names the batched function that computes the scores.
	Op() Op
	// Params are the op's parameters, the same for every task of the detector.
	// The caller must not change them.
	Params() Words
	// Window is the number of rows, the scored one included, that one score may
	// read at most. A task of n fresh rows reads at most Window()+n-1 rows.
	Window() int
	// Size returns the size of the outputs of a task on v. ok is false where v has too few
	// rows to score its first fresh row, or, of a Whole, any.
	Size(v View) (n Outputs, ok bool)
	// AppendFindings appends the findings of a finished task: each score with the rows that
	// it covers. Thresholds are applied elsewhere. Of several findings of a fresh row,
	// the one with the highest score is judged and published.
	AppendFindings(dst []Finding, r Rows) []Finding
}

// Outputs are the numbers of words that a task writes.
type Outputs struct {
	Scores int
	Carry  int // the input of the key's next task
	Detail int // further input of AppendFindings
}

// Whole is a Detector whose score is of a window as a whole, and belongs to its last row: all rows of the window may be
// fresh, so the first task is due with the Window()-th row, and one of n fresh rows reads the last max(n, Window()) rows.
type Whole interface {
	Detector
	Whole()
}

// TaskRows returns the number of rows that a task of a detector with that many fresh rows reads at most.
func TaskRows(d Detector, fresh int) int {
	if _, ok := d.(Whole); ok {
		return max(fresh, d.Window())
	}
	return d.Window() + fresh - 1
}

// Predictor is a Detector that expects a value of each reading before it comes.
type Predictor interface {
	Detector
	// Predict returns the value that was expected of a fresh row, and how far readings usually are from what is expected, as a standard
	// deviation; either is NaN where it is not known. r is a task after Execute, with one value a row beside the time.
	Predict(r Rows, fresh int) (expected, spread float64)
}

// Predicted returns what Predictor.Predict does of a reading, from the expected value less it and from its score, which is the distance in
// usual deviations.
func Predicted(reading, off, score float64) (expected, spread float64) {
	if score != score {
		return math.NaN(), math.NaN()
	}
	return reading + off, math.Abs(off) / score // NaN where both are 0
}

// Explainer is a Detector that can explain a score by the reading that deviates most from what the method expects.
type Explainer interface {
	Detector
	// Explain returns which of the rows that the score of the fresh-th fresh row of a finished task covers deviates most from
	// what the method expects, in the value with the largest share in the score. It sets expected to the row that the method
	// would have expected in its place, on the scale of X, and contribution to each value's share in the score; the shares
	// sum up to 1. Both have Dim numbers. Rows before since are known to be ordinary, and are in no location of more than one row.
	// It returns false where the method has no explanation.
	Explain(r Rows, fresh, since int, expected, contribution []float64) (p Location, ok bool)
}

// Locator is a Detector that says which reading a score is about, and expects no value in its place.
type Locator interface {
	Detector
	// Locate is Explain without the expected row.
	Locate(r Rows, fresh int, contribution []float64) (p Location, ok bool)
}

// Seasonal is a Detector that may find a period in a series, and then judges samples by it.
type Seasonal interface {
	Detector
	// InSeason reports whether each value of a series has a period in use, where a task has left this carry.
	InSeason(carry Words) bool
}

// Location is the rows that deviate, of those that a score covers. Rows count from 0 at the oldest row of X.
type Location struct {
	Row      int // that deviates most
	From, To int // the first and the last row that deviate at least half as much

	// Spread is how far readings usually are from what the method expects, in the value with the largest share, on the scale
	// of X: a deviation of one standard deviation. 0: it is not known.
	Spread float64

	// Newest is the value that Explain expects in place of the scored row if since is that row, in the value with the largest
	// share, on the scale of X. Without HasNewest it is not known.
	Newest    float64
	HasNewest bool
}

// LocationOf returns the location among successive rows, the first of which has the given number, from the squares of their
// deviations: of those from row since on. NaN is a deviation that is not known; without any that is, the location is the last row. The
// spread is by the median deviation of the rows outside of it.
func LocationOf(first, since int, squares []float64) Location {
	row := -1
	for i, v := range squares {
		if first+i >= since && v == v && (row < 0 || v > squares[row]) {
			row = i
		}
	}
	if row < 0 {
		return OneRow(first + len(squares) - 1)
	}
	p := Location{Row: row, From: row, To: row}
	for i, v := range squares {
		if first+i >= since && v >= squares[row]/4 {
			p.From, p.To = min(p.From, i), max(p.To, i)
		}
	}
	var others []float64
	for i, v := range squares {
		if (i < p.From || i > p.To) && v == v {
			others = append(others, v)
		}
	}
	if len(others) >= leastOthers {
		slices.Sort(others)
		p.Spread = 1.4826 * math.Sqrt(others[len(others)/2])
	}
	return Location{Row: first + row, From: first + p.From, To: first + p.To, Spread: p.Spread}
}

// leastOthers is the least number of rows whose median deviation is taken as usual.
const leastOthers = 5

// OneRow is the location of a score about one row.
func OneRow(row int) Location { return Location{Row: row, From: row, To: row} }

// mostScore is the limit of scores of zscore, ar and season. One as high does not say what the spread is.
const mostScore = 1e6

// OneReading is the location of a score about one row whose deviation, in the value with the largest share, is score times the spread.
func OneReading(row int, deviation, score float64) Location {
	p := OneRow(row)
	if s := math.Abs(deviation) / score; score < mostScore && s > 0 && s-s == 0 {
		p.Spread = s
	}
	return p
}

// SharesOf reads what an op has in its Detail for each value of a row: expected less actual, and the value's score, NaN where there is
// none; step is the number of words from one value to the next. It sets expected to the expected values, and contribution to the share
// of each score in their sum, which it returns; without a score above 0, contribution has no meaning.
func SharesOf(row []float64, detail []float32, step int, expected, contribution []float64) (sum float64) {
	for c := range contribution {
		off, score := float64(detail[step*c]), float64(detail[step*c+1])
		expected[c] = row[c] + off
		if score != score {
			score, expected[c] = 0, math.NaN()
		}
		contribution[c] = score
		sum += score
	}
	if sum > 0 {
		for c := range contribution {
			contribution[c] /= sum
		}
	}
	return sum
}

// Largest returns the index of the largest share, the first of equal ones; -1 where there is none.
func Largest(shares []float64) int {
	at := -1
	for i, s := range shares {
		if s == s && (at < 0 || s > shares[at]) {
			at = i
		}
	}
	return at
}

// Spanning is a Detector whose score is computed of more successive rows than it is about.
type Spanning interface {
	Detector
	// Span returns their number, the scored row included.
	Span() int
}

// Direct is a Detector whose tasks take less time than to copy what they read into a batch and to hand it over: their owner
// scores each one itself when it becomes due. Its op has no kernel.
type Direct interface {
	Detector
	// Direct returns the function that fills the outputs of a task as the op's CPU form does, to the bit; nil: an executor scores
	// the tasks. With inPlace, a task's Next may be the memory of its Carry, and Explain, Locate and Predict read neither of them.
	Direct() (fill func(r *Rows), inPlace bool)
}

// Incomplete is a Detector that takes rows with missing values, which are NaN in X.
type Incomplete interface {
	Detector
	Incomplete()
}

// Coincident is a Detector whose scores are of densities: they say little where more than a number of a window's points are equal.
type Coincident interface {
	Detector
	// Coincident returns that number, and the points of a window.
	Coincident() (most, window int)
}

// Summarizer is a Detector that reads a summary of the rows that have left its window.
type Summarizer interface {
	Detector
	// Summary returns the parameters of the summary that the caller keeps for each key, of rows
	// of dim values; nil for none. Rows join it when they are no longer among the last
	// Window()-1 ones; its virtual points are in a task's Bins (BinParams.Pack), on the scale
	// of X.
	Summary(dim int) *BinParams
}

// Sparing is a Detector of which only some tasks read the whole window.
type Sparing interface {
	Detector
	// Reads returns how many of the newest rows a task reads at most. A task that has only these rows
	// has the outputs of a task that has the whole window.
	Reads(t Position) int
}

// Position says where in its series a task is.
type Position struct {
	Count   int64 // number of the newest row in its series, from 1
	Fresh   int   // rows at the end that are to be scored
	Carried bool  // there is a carry
	// Before and Newest are the event times of the row before the first fresh one and of the newest. Only
	// a Timed has them.
	Before, Newest int64
}

// Timed is a Detector that reads event times: a row of X begins with its time, in microseconds since
// 1970 in UTC, before the values. Dim of its View, Task and Rows counts the time; expected rows and
// contributions do not have it. Its op's Elem is F64.
type Timed interface {
	Detector
	Timed()
}

// Modelled is a Detector whose tasks read a model. Their owner sets Task.Model to the
// Batch.Model of it, and packs rows relative to Origin, not to centers of their own.
type Modelled interface {
	Detector
	Model() *Model
	// Origin has the center of each value of a row; rows of another number of values do
	// not fit the model, and their scores are NaN. The caller must not change it.
	Origin() []float64
	// Cut returns the score above which a row is an outlier; 0 where the model has none.
	Cut() float64
	// Wide is Spec.Wide of tasks with the model.
	Wide() Wide
}

// Finding is one score and the rows that it covers: a sample (From == To), or an
// interval of samples. Rows count from 0 at the oldest row of the task's X.
type Finding struct {
	Fresh    int // which fresh row the score belongs to, 0 the oldest
	From, To int // first and last row that the score covers
	Score    float64

	// Not every method sets the following fields.

	Length int     // rows of the subsequence that was compared; 0: unknown
	Rank   int     // among the findings of the task, 1 the first; 0: unknown
	Region *Region // of a grid; nil: none
	// Expected is the row that the method would have expected in place of To, on the
	// scale of X, and Contribution the share that each value has in the score; the
	// shares sum up to 1. Dim numbers each, or nil.
	Expected, Contribution []float64
}

// Region is a box of cells of a grid: in each dimension those from From to To.
type Region struct {
	From, To []int
	Observed int64   // the count of its cells
	Expected float64 // count expected from their baselines
	Ratio    float64 // log-likelihood ratio
	P        float64 // probability of a ratio as high by chance; NaN: unknown
}

// Learner is a Detector that learns from a number of rows before it scores the first. Its score is NaN
// until then.
type Learner interface {
	Detector
	// Left returns how many rows are still scored as NaN, at the least, before the first score. carry is the carry of the last
	// task; nil: no row has been scored.
	Left(carry Words) int
}

// LeftOf is Learner.Left for a carry of one state of the given words for each value of a row: least less the most rows that one
// of them has learnt.
func LeftOf(carry Words, words, least int, learnt func(state []uint32) int) int {
	most := 0
	for ; len(carry) > 0; carry = carry[words:] {
		most = max(most, learnt(carry))
	}
	return max(0, least-most)
}

// MaxBlock is the largest block of a Blocker, in bytes.
const MaxBlock = 256 << 10

// Blocker is a Detector whose tasks have another result beside findings, such as a heatmap.
type Blocker interface {
	Detector
	// Block returns that result of a finished task as one block of at most MaxBlock
	// bytes, with its media type; nil for none. Callers pass it on unread.
	Block(r Rows) (mediaType string, block []byte)
}

// NoRow marks a missing row number in Detail, such as a missing neighbour's.
const NoRow = math.MaxUint32

// Must returns d, or panics with the error of the constructor. It is intended for constant parameters.
func Must(d Detector, err error) Detector {
	if err != nil {
		panic(err)
	}
	return d
}
