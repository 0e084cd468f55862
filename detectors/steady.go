package detectors

// Steady is the part of a Detector with one score for each fresh row, about rows at a fixed distance
// before it. A method embeds it, and adds its other outputs to Size.
type Steady struct {
	Least    int // rows of a score, including the scored one
	From, To int // the first and the last row that a score is about, counted back from the scored one
}

// Reach returns From and To.
func (s *Steady) Reach() (from, to int) { return s.From, s.To }

// Size returns a score for each fresh row, if there are enough rows for the first.
func (s *Steady) Size(v View) (n Outputs, ok bool) {
	if v.Fresh < 1 || v.Rows-v.Fresh+1 < s.Least {
		return Outputs{}, false
	}
	return Outputs{Scores: v.Fresh}, true
}

// AppendFindings appends each score.
func (s *Steady) AppendFindings(dst []Finding, r Rows) []Finding {
	first := r.Len() - r.Fresh
	for i, score := range r.Scores {
		at := first + i
		dst = append(dst, Finding{Fresh: i, From: at - s.From, To: at - s.To, Score: float64(score)})
	}
	return dst
}
