package quality

import (
	"cmp"
	"slices"
)

// Confusion counts samples.
type Confusion struct{ TP, FP, FN, TN int }

// Add counts one sample.
func (c *Confusion) Add(detected, anomalous bool) {
	switch {
	case detected && anomalous:
		c.TP++
	case detected:
		c.FP++
	case anomalous:
		c.FN++
	default:
		c.TN++
	}
}

// Precision returns the share of the detected samples that are anomalous; 0 without any.
func (c Confusion) Precision() float64 { return ratio(c.TP, c.TP+c.FP) }

// Recall returns the share of the anomalous samples that are detected; 0 without any.
func (c Confusion) Recall() float64 { return ratio(c.TP, c.TP+c.FN) }

// F1 returns the harmonic mean of the two.
func (c Confusion) F1() float64 { return ratio(2*c.TP, 2*c.TP+c.FP+c.FN) }

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// Adjust marks every sample of a labelled run as detected if one of them is: the
// point adjustment of Xu et al. 2018, which papers on SMD, SMAP, MSL and ASD use.
// It favours long anomalies: a random detector does well by it (Kim et al. 2022).
func Adjust(detected, labels []bool) []bool {
	out := slices.Clone(detected)
	for _, s := range Runs(labels) {
		if slices.Contains(detected[s.From:s.To+1], true) {
			for i := s.From; i <= s.To; i++ {
				out[i] = true
			}
		}
	}
	return out
}

// Runs returns the runs of true.
func Runs(labels []bool) []Span {
	var runs []Span
	for i, l := range labels {
		switch {
		case !l:
		case i > 0 && labels[i-1]:
			runs[len(runs)-1].To = i
		default:
			runs = append(runs, Span{i, i})
		}
	}
	return runs
}

// Rank measures how well scores rank anomalous samples above the others.
type Rank struct {
	AUC float64 // area under the receiver operating curve: P(anomalous > ordinary) + P(equal)/2
	AP  float64 // average precision: sum over distinct thresholds of (recall - recall before) * precision
}

// RankOf compares scores, sample by sample, with labels. ok is false unless there
// are samples of both kinds.
func RankOf(scores []float64, labels []bool) (r Rank, ok bool) {
	order := make([]int, len(scores))
	pos := 0
	for i := range order {
		order[i] = i
		if labels[i] {
			pos++
		}
	}
	neg := len(scores) - pos
	if pos == 0 || neg == 0 {
		return Rank{}, false
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	tp, fp := 0, 0
	for i := 0; i < len(order); {
		t, f := 0, 0
		for s := scores[order[i]]; i < len(order) && scores[order[i]] == s; i++ {
			if labels[order[i]] {
				t++
			} else {
				f++
			}
		}
		r.AUC += float64(f) * (float64(tp) + float64(t)/2)
		tp, fp = tp+t, fp+f
		r.AP += float64(t) / float64(pos) * float64(tp) / float64(tp+fp)
	}
	r.AUC /= float64(pos) * float64(neg)
	return r, true
}
