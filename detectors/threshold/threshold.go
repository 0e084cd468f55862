// Package threshold says which scores of a key are too high, from the key's own
// history of scores.
package threshold

// Kind is a way to find the bound.
type Kind uint8

// The kinds.
const (
	Off       Kind = iota
	Fixed          // Value is the bound
	Mean           // Value times the mean of the history
	Quantile       // the Value-quantile of the history
	MAD            // the median plus Value scaled median absolute deviations
	Conformal      // Value is the false-alarm rate: the score's upper-tail rank must not be above it
)

// Rule is a kind with its parameters, the same for all keys of a detector.
type Rule struct {
	Kind    Kind
	Value   float64
	History int // scores kept of a key
	Warmup  int // scores of a key before any can exceed
}

// Verdict is what a rule says of one score.
type Verdict struct {
	Threshold float32 // the bound when the score was judged
	Exceeds   bool
	Tail      float32 // upper-tail rank of the score in the history, in (0, 1]
	Severity  uint8   // 0 to 100, from the rank
}
