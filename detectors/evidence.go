package detectors

// Describer is a Detector that says what a score was computed from. People read it when they ask why; no score,
// threshold or anomaly depends on it, so it may take a thousand times as long as the score.
type Describer interface {
	Detector
	// Describe returns the evidence of the score of the fresh-th fresh row of a finished task.
	Describe(r Rows, fresh int) Evidence
}

// Evidence is what a score was computed from, in the terms of its method. Rows count from 0 at the oldest row
// of the task's X; those before it are negative. Distances and values are on the scale of X.
type Evidence struct {
	From, To int      // the rows that were scored: a sample, a point of several, a subsequence
	Location Location // of these, the rows that deviate from what was expected, as Explainer.Explain or Locator.Locate has it
	Inputs   []Input  // other rows that the score was computed from, the nearest first
	Measures []Measure
	// Directions are the past's directions that a change score compares the present with, the largest first.
	Directions []Direction
	Regions    []Region // of a grid, the highest ratio first
	// Rows are the shares of the rows from RowsFrom on in the score; nil: unknown. They sum up to 1.
	Rows     []float64
	RowsFrom int
	// Fields are the shares of the values of a row in the score; nil: unknown. They sum up to 1.
	Fields []float64
}

// Input is a run of successive rows that a score was computed from.
type Input struct {
	Role     string  // what it is to the score: see the roles
	From, To int     // both Outside: it is none of the task's rows
	Number   int     // of an input that is none of the task's rows, in its set
	Distance float64 // from the scored rows; NaN: there is none
}

// Outside is From and To of an input that is none of the task's rows.
const Outside = -1 << 62

// The roles of an Input.
const (
	Neighbour = "neighbour" // one of the nearest
	Baseline  = "baseline"  // what the scored rows are compared with as a whole
	Past      = "past"      // the earlier of two trajectories
	Present   = "present"   // the later one
	Run       = "run"       // rows without a change
	Reference = "reference" // a neighbour in a reference set or a model
	Summary   = "summary"   // a neighbour among the bins of a summary
)

// Measure is a number that a score was computed from.
type Measure struct {
	Name  string // with its unit, unless that is the field's
	Field int    // the value of a row that it is of; AllFields: of the row as a whole
	Value float64
}

// AllFields is the Field of a Measure of a row as a whole.
const AllFields = -1

// Direction is a direction of the past of a change score.
type Direction struct {
	Strength float64 // its share in the past's energy
	Weight   float64 // the square of the present's component along it
	Counts   bool    // it is among those that explain the present
}

// Row returns the number of the fresh-th fresh row.
func (r *Rows) Row(fresh int) int { return r.Len() - r.Fresh + fresh }

// Value returns a value of X.
func (r *Rows) Value(row, column int) float64 {
	switch i := row*r.Dim + column; {
	case r.X != nil:
		return float64(r.X[i])
	case r.X64 != nil:
		return r.X64[i]
	default:
		return float64(r.XI[i])
	}
}

// Until returns the task as it would be if the fresh-th fresh row were its last: with fewer rows, the same
// carry, and outputs of its own, which are not computed.
func (r *Rows) Until(fresh int) Rows {
	t := *r
	t.Fresh = fresh + 1
	n := (r.Row(fresh) + 1) * r.Dim
	t.X, t.X64, t.XI = t.X[:min(n, len(t.X))], t.X64[:min(n, len(t.X64))], t.XI[:min(n, len(t.XI))]
	t.Scores, t.Next, t.Detail = make([]float32, t.Fresh), make(Words, len(r.Next)), nil
	return t
}

// OneHot returns shares of n fields: 1 for field i, 0 for the others.
func OneHot(n, i int) []float64 {
	shares := make([]float64, n)
	shares[i] = 1
	return shares
}
