package detectors

import "odradek/detectors/bins"

// View is the shape of what one key can offer a detector at one instant: how
// many rows of the window are there, of which the last Fresh are to be scored.
type View struct {
	Dim   int // values a row
	Rows  int // rows in the window, the fresh ones included
	Fresh int // rows at the end that have no score yet, at least 1
}

// Detector is a method with its parameters: a stateless value that says how
// much of a window the method reads and what its numbers mean. What it
// remembers between tasks is its carry, which the caller keeps.
type Detector interface {
	// Op names the batched function that computes the scores.
	Op() Op
	// Params are the op's parameters, the same for every task of the detector.
	// The caller must not change them.
	Params() Words
	// Window is the number of rows, the scored one included, that one score may
	// read at most. A task of n fresh rows reads at most Window()+n-1 rows.
	Window() int
	// Size tells what a task on v leaves. ok is false where v has too little
	// history to score its first fresh row.
	Size(v View) (n Outputs, ok bool)
	// AppendFindings appends what a finished task found: which rows each score
	// speaks of. Thresholds come later and elsewhere. Of several findings of a fresh row,
	// the one with the highest score is judged and published.
	AppendFindings(dst []Finding, r Rows) []Finding
}

// Outputs are the numbers of words that a task leaves.
type Outputs struct {
	Scores int
	Carry  int // what the key's next task begins with
	Detail int // what findings are read from besides the scores
}

// Explainer is a Detector that knows what it expected of a row.
type Explainer interface {
	Detector
	// Explain says of the fresh-th fresh row of a finished task which row the
	// method would have expected, on the scale of X, and which share each value has
	// in the score; the shares sum up to 1. Both have Dim numbers. False: it cannot
	// say.
	Explain(r Rows, fresh int, expected, contribution []float64) bool
}

// Incomplete is a Detector that takes rows of which some values are missing: these are
// NaN in X.
type Incomplete interface {
	Detector
	Incomplete()
}

// Summarizer is a Detector that wants to know what has left its window.
type Summarizer interface {
	Detector
	// Summary is the summary to keep for each key, of rows of dim values; nil for
	// none. Rows join it when they are no longer among the last Window()-1 ones;
	// its virtual points are in a task's Bins (bins.Params.Pack), on the scale of X.
	Summary(dim int) *bins.Params
}

// Finding is one score and the rows it speaks of: a sample (From == To), or an
// interval of samples. Rows count from 0 at the oldest row of the task's X.
type Finding struct {
	Fresh    int // which fresh row the score belongs to, 0 the oldest
	From, To int // first and last row the score speaks of
	Score    float64

	// What follows is there where the method has it.

	Length int     // rows of the subsequence that was compared; 0: not said
	Rank   int     // among the findings of the task, 1 the first; 0: not said
	Region *Region // of a grid; nil: none
	// Expected is the row that the method would have expected in place of To, on the
	// scale of X, and Contribution the share that each value has in the score; the
	// shares sum up to 1. Dim numbers each, or nil.
	Expected, Contribution []float64
}

// Region is a box of cells of a grid: in each dimension those from From to To.
type Region struct{ From, To []int }

// MaxBlock is the largest block of a Blocker, in bytes.
const MaxBlock = 256 << 10

// Blocker is a Detector that has more to say of a task than findings: a heatmap, a
// grid.
type Blocker interface {
	Detector
	// Block returns what a finished task found as one block of bytes, with its media
	// type; nil for none. It has MaxBlock bytes at most. Whoever gets it passes it on
	// and does not look into it.
	Block(r Rows) (mediaType string, block []byte)
}
