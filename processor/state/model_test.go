package state

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"odradek/detectors"
	"odradek/detectors/scan"
	"odradek/detectors/seedtest"
	"odradek/processor/anomaly"
	"odradek/processor/state/changelog"
	"odradek/processor/state/rules"
	"odradek/processor/state/series"
)

// model is the package in its plainest form: every row of every key is kept, the
// past is searched, nothing is packed, undone or stored. It shares only Config
// and the fake detector's arithmetic with the package.
type model struct {
	cfg    *Config
	turn   int64 // the offset of the newest sample
	max    int64
	keys   []*modelKey
	held   []Sample
	rows   []flat
	events []flatEvent
	count  Counts
	early  int64
	// intervals are those that were closed, with samples and without.
	intervals [2]int64

	suspects     []modelSuspect
	refused      []int64
	severity     int                   // of the members of an ensemble of any that exceed
	memberScores []anomaly.MemberScore // likewise, what they say
	carries      *anomaly.MemberScore  // what the member says that carries a sum; nil: none says anything
	in           anomaly.Input         // of the last score that was judged, as far as it was explained
}

type modelSuspect struct {
	Sample
	votes, agree int
}

// offer takes a sample of the log: the suspects first.
func (m *model) offer(sm Sample) {
	m.turn = sm.Offset
	all := append(slices.Clone(m.suspects), modelSuspect{Sample: sm})
	for i := range all[:len(all)-1] {
		all[i].votes++
		if sm.Time >= all[i].Time-m.cfg.Reading.MaxJump {
			all[i].agree++
		}
	}
	top, taken := m.max, map[int64]bool{}
	var line []Sample
	for again := true; again; {
		again = false
		for _, u := range all {
			near := m.cfg.Reading.MaxJump == 0 || top != NoTime && u.Time <= top+m.cfg.Reading.MaxJump
			if !taken[u.Offset] && (u.agree >= 2 || near) {
				taken[u.Offset], again = true, true
				line, top = append(line, u.Sample), max(top, u.Time)
			}
		}
	}
	m.suspects = nil
	for _, u := range all {
		switch {
		case taken[u.Offset]:
		case u.votes-u.agree >= 2:
			m.count[Rejected]++
			m.refused = append(m.refused, u.Offset)
		default:
			m.suspects = append(m.suspects, u)
		}
	}
	slices.SortFunc(line, func(a, b Sample) int { return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Offset, b.Offset)) })
	for _, taken := range line {
		m.sample(taken, sm.Offset)
	}
	m.overdue(sm.Offset)
}

// older compares keys by their last turn.
func (k *modelKey) older(o *modelKey) int {
	return cmp.Or(cmp.Compare(k.offset, o.offset), bytes.Compare(k.name, o.name))
}

type modelKey struct {
	name         []byte
	last, offset int64
	any          bool
	wins         []modelWin
	fresh        [][]modelRow // by detector
	carry        []detectors.Words
	history      [][]float32
	scores       [][]float32 // all, by detector
	line, scored [][]modelSaid
	past, judged map[[2]int][]float32 // by ensemble and member
	passed       map[[2]int][2]int64  // the same: time and offset of the last row
	runs         map[[2]int]int       // of ratios above 1
	overdue      map[[2]int][]flat    // such ratios, too late for their samples
	open         map[[2]int]int       // by ensemble and gate: samples for which it stays open
	memberScores map[int][]anomaly.MemberScore
	summary      [][]float64
	left         []int // rows in it
	events       []anomaly.State
	silent       *anomaly.Anomaly
	behind       int64    // of the newest sample that was held, to the partition's newest
	samples      []Sample // in the order in which they were folded
	interval     modelInterval
}

// modelInterval is the open interval of a key, or the end of the last one.
type modelInterval struct {
	begun, open bool
	start       int64
	samples     []Sample // as they enter it
	empty       int      // intervals in a row
}

type modelRow struct {
	time, offset int64
	imputed      bool
	v            []float64
}

type modelWin struct {
	rows []modelRow

	// Of a grid: the samples of its open stride, empty without one; and of those before.
	open, past []Sample
}

func (m *model) wm() int64 { return m.max - m.cfg.Reading.Lateness }

func (m *model) key(name []byte) *modelKey {
	for _, k := range m.keys {
		if bytes.Equal(k.name, name) {
			return k
		}
	}
	return nil
}

func (m *model) looks(name []byte) (d []int) {
	for i := range m.cfg.Detectors {
		if m.cfg.Detectors[i].Ensemble == nil && m.reads(i, name) {
			d = append(d, i)
		}
	}
	return d
}

func (m *model) reads(i int, name []byte) bool {
	d := &m.cfg.Detectors[i]
	if d.Ensemble != nil {
		for _, member := range d.Ensemble.Members {
			if !m.reads(member, name) {
				return false
			}
		}
		for _, g := range d.Ensemble.Gates {
			if !m.reads(g.Detector, name) {
				return false
			}
		}
	}
	return d.Keys == nil || d.Keys(name)
}

// modelSaid is what the members of an ensemble say of a sample; nil: nothing yet.
type modelSaid struct {
	time, offset int64
	rows         map[int]flat // by member; of gate g by -1-g
	past         map[int]bool
}

// said is a row of a detector. The ensembles score the samples that all members have got past.
func (m *model) said(k *modelKey, i int, row flat) {
	m.rows = append(m.rows, row)
	m.toEnsembles(k, i, row)
}

// toEnsembles gives ensembles a row of the i-th detector.
func (m *model) toEnsembles(k *modelKey, i int, row flat) {
	in := m.in // before an ensemble's score is judged
	for e := range m.cfg.Detectors {
		d := &m.cfg.Detectors[e]
		if d.Ensemble == nil || !m.reads(e, k.name) {
			continue
		}
		if slices.Contains(d.Ensemble.Members, i) {
			m.toEnsemble(k, e, i, row, in)
		}
		for g, gate := range d.Ensemble.Gates {
			if said := row; gate.Detector == i {
				if !m.cfg.Detectors[i].Detector.(*fake).InSeason(k.carry[i]) {
					said.judged = math.Float32bits(float32(math.NaN()))
				}
				m.line(k, e, -1-g, said)
			}
		}
	}
}

// toEnsemble gives ensemble e a row of its member i.
func (m *model) toEnsemble(k *modelKey, e, i int, row flat, in anomaly.Input) {
	d := &m.cfg.Detectors[e]
	own := row
	row = m.delayed(k, e, i, row)
	if d.Ensemble.Any {
		said := anomaly.MemberScore{Member: m.cfg.Detectors[i].Name, Time: row.time, Offset: row.offset, Until: row.till,
			Score: math.Float32frombits(row.judged), Threshold: math.Float32frombits(row.threshold)}
		row = m.counted(k, [2]int{e, i}, row)
		if m.cfg.Detectors[i].Events != nil {
			said.Expected, said.Actual, said.Contribution, said.Deviation = in.Expected, in.Actual, in.Contribution, in.Deviation
		}
		if said.Ratio = math.Float32frombits(row.judged); said.Ratio > 1 {
			k.memberScores[e] = append(k.memberScores[e], said)
		}
	}
	sums := d.Events != nil && d.Threshold != nil && !d.Ensemble.Any
	if score := math.Float32frombits(own.judged); sums && score == score && in.Deviation != nil {
		if r := m.reach(k, e, i, &own); r > 0 && 1.05*r > float64(d.Threshold.Least(k.history[e])) {
			k.memberScores[e] = append(k.memberScores[e], anomaly.MemberScore{Member: m.cfg.Detectors[i].Name, Time: own.time, Offset: own.offset,
				Until: own.till,
				Score: score, Expected: in.Expected, Actual: in.Actual, Contribution: in.Contribution, Deviation: in.Deviation})
		}
	}
	k.passed[[2]int{e, i}] = [2]int64{own.time, own.offset}
	m.line(k, e, i, row)
}

// line has ensemble e take a row of its member i, or of gate -1-i, and score the samples that can be.
func (m *model) line(k *modelKey, e, i int, row flat) {
	d := &m.cfg.Detectors[e]
	line := k.line[e]
	if !slices.ContainsFunc(line, func(s modelSaid) bool { return s.offset == row.offset && s.time == row.time }) {
		line = append(line, modelSaid{row.time, row.offset, map[int]flat{}, map[int]bool{}})
	}
	slices.SortFunc(line, func(a, b modelSaid) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.offset, b.offset)) })
	for _, s := range line {
		s.past[i] = s.past[i] || s.time < row.time || s.time == row.time && s.offset <= row.offset
		if s.offset == row.offset && s.time == row.time {
			s.rows[i] = row
		}
	}
	// A new sample is one that those have got past that have got past a later one.
	for n := len(line) - 2; n >= 0; n-- {
		for j := range line[n+1].past {
			line[n].past[j] = line[n].past[j] || line[n+1].past[j]
		}
	}
	span := 1
	for _, j := range heardBy(d.Ensemble) {
		span = max(span, m.cfg.Detectors[j].Stride)
	}
	ids := slices.Clone(d.Ensemble.Members)
	for g := range d.Ensemble.Gates {
		ids = append(ids, -1-g)
	}
	scored := k.scored[e]
	for len(line) > 0 {
		first := line[0]
		late := len(scored) > 0 && slices.ContainsFunc(scored, func(s modelSaid) bool {
			return s.time > first.time || s.time == first.time && s.offset >= first.offset
		})
		all := !slices.ContainsFunc(ids, func(j int) bool { return !first.past[j] })
		if !late && !all && len(line) <= span {
			break
		}
		line = line[1:]
		if !late {
			scored = append(scored, first)
		}
		m.combine(k, e, first, late)
	}
	k.line[e], k.scored[e] = line, scored
}

// reach is what ensemble.Params.Reach returns of a row of the i-th detector.
func (m *model) reach(k *modelKey, e, i int, row *flat) float64 {
	d := m.cfg.Detectors[e].Ensemble
	own := m.term(k, e, i, math.Float32frombits(row.judged))
	if d.Max || own <= 0 {
		return own
	}
	span := 1
	for _, j := range d.Members {
		span = max(span, m.cfg.Detectors[j].Stride)
	}
	sum := own
	for _, j := range d.Members {
		var scores []float32
		for _, s := range k.line[e] {
			if r, ok := s.rows[j]; ok {
				scores = append(scores, math.Float32frombits(r.judged))
			}
		}
		at, began := k.passed[[2]int{e, j}]
		passed := began && (at[0] > row.time || at[0] == row.time && at[1] >= row.offset)
		lag, all := m.lag(e, j), k.judged[[2]int{e, j}]
		switch {
		case j == i:
			continue
		case m.lag(e, i) > 0 || !passed && (lag == 0 || lag < span):
			sum += own
			continue
		case !passed:
			all = all[max(0, len(all)-lag):]
			scores = append(scores, all[:min(span, len(all))]...)
		}
		scores = slices.DeleteFunc(scores, func(s float32) bool { return s != s })
		if len(scores) > 0 {
			sum += m.term(k, e, j, slices.Max(scores))
		}
	}
	return sum
}

// delayed returns what ensemble e combines where its member i has said a row: with Align the score of an earlier one of the member's.
func (m *model) delayed(k *modelKey, e, i int, row flat) flat {
	lag := m.lag(e, i)
	if lag == 0 {
		return row
	}
	all := append(k.judged[[2]int{e, i}], math.Float32frombits(row.judged))
	k.judged[[2]int{e, i}] = all
	row.judged, row.about, row.till = math.Float32bits(float32(math.NaN())), math.MaxInt64, math.MinInt64
	if len(all) > lag {
		row.judged = math.Float32bits(all[len(all)-1-lag])
	}
	return row
}

// term is a member's term in a sum, by the scores that are in its mean.
func (m *model) term(k *modelKey, e, j int, score float32) float64 {
	mean := 0.0
	for n, s := range k.past[[2]int{e, j}] {
		mean += (float64(s) - mean) / float64(min(n+1, m.cfg.Detectors[e].Ensemble.Memory))
	}
	ratio := 1.0
	if score = max(0, min(math.MaxFloat32, score)); mean > 0 {
		ratio = math.Max(0.1, math.Min(1e6, float64(score)/mean))
	} else if score > 0 {
		ratio = 1e6
	}
	return math.Log(ratio)
}

// carrier returns what the member says whose term in a sum is the largest of those that say anything of the scores that it was computed
// from, and takes what they have said of samples up to this one.
func (m *model) carrier(k *modelKey, e int, said modelSaid, terms []float64, about int64) (carrier *anomaly.MemberScore) {
	d, most := &m.cfg.Detectors[e], 0.0
	var rest []anomaly.MemberScore
	for _, s := range k.memberScores[e] {
		now := s.Time < said.time || s.Time == said.time && s.Offset <= said.offset
		lagged := false
		for n, j := range d.Ensemble.Members {
			if m.cfg.Detectors[j].Name != s.Member {
				continue
			}
			lagged = m.lag(e, j) > 0
			row, there := said.rows[j]
			if now && there && math.Float32frombits(row.judged) == s.Score && terms[n] > 0 && terms[n] >= most {
				one := s
				carrier, most = &one, terms[n]
			}
		}
		if !now || lagged && s.Until >= about {
			rest = append(rest, s)
		}
	}
	k.memberScores[e] = rest
	return carrier
}

// lag returns the number of scores by which a member of an ensemble is delayed.
func (m *model) lag(e, i int) int {
	d, most := m.cfg.Detectors[e].Ensemble, 0
	middle := func(j int) int { return max(1, int(m.cfg.Detectors[j].Smooth)) - 1 } // fakes say nothing of their reach
	for _, j := range d.Members {
		most = max(most, middle(j))
	}
	if !d.Align {
		return 0
	}
	return (most - middle(i)) / 2
}

// combine scores a sample by the definition in package ensemble.
func (m *model) combine(k *modelKey, e int, said modelSaid, late bool) {
	d := &m.cfg.Detectors[e]
	if d.Ensemble.Any {
		m.highest(k, e, said, late)
		return
	}
	missing := math.Float32bits(float32(math.NaN()))
	out := flat{string(k.name), int32(e), RowScored, missing, said.offset, said.time, math.MaxInt64, math.MinInt64, false, 0, missing, missing,
		0, 0}
	sum, scored, imputed, short := 0.0, false, false, 0
	about, till := int64(math.MaxInt64), int64(math.MinInt64)
	var terms []float64
	for _, j := range d.Ensemble.Members {
		past := k.past[[2]int{e, j}]
		few := len(past) < d.Ensemble.MinPoints
		if few {
			short++
		}
		row, there := said.rows[j]
		imputed = imputed || there && row.state == RowImputed
		score := math.Float32frombits(row.judged)
		if !there || score != score {
			terms = append(terms, 0)
			continue
		}
		score = max(0, min(math.MaxFloat32, score))
		if few && d.Ensemble.Max {
			terms = append(terms, 0)
			about, till = min(about, row.about), max(till, row.till)
			k.past[[2]int{e, j}] = append(past, score)
			continue
		}
		terms = append(terms, m.term(k, e, j, score))
		if t := terms[len(terms)-1]; !d.Ensemble.Max || !scored {
			sum += t
		} else {
			sum = math.Max(sum, t)
		}
		scored = true
		about, till = min(about, row.about), max(till, row.till)
		k.past[[2]int{e, j}] = append(past, score)
	}
	if late {
		return
	}
	if short == len(d.Ensemble.Members) || short > 0 && !d.Ensemble.Max {
		out.state = RowWarmingUp
	}
	if about > till {
		about, till = said.time, said.time
	}
	carrier := m.carrier(k, e, said, terms, about)
	if out.about, out.till = about, till; out.state == RowWarmingUp {
		m.rows = append(m.rows, out)
		return
	}
	if imputed {
		out.state = RowImputed
	}
	if scored {
		out.score = math.Float32bits(float32(sum))
		var shares []float64
		if sum = 0; slices.Max(terms) > 0 {
			for _, t := range terms {
				sum += math.Max(0, t)
			}
			for _, t := range terms {
				shares = append(shares, math.Max(0, t)/sum)
			}
		}
		m.carries = carrier
		out = m.judged(k, e, out, nil, func(in *anomaly.Input) { in.Contribution = shares })
		m.carries = nil
	}
	m.rows = append(m.rows, out)
}

// replaced reports whether an ensemble of any makes a detector's events of a key.
func (m *model) replaced(k *modelKey, i int) bool {
	for e := range m.cfg.Detectors {
		d := &m.cfg.Detectors[e]
		if d.Ensemble != nil && d.Ensemble.Any && d.Events != nil && !d.Shadow && slices.Contains(d.Ensemble.Members, i) && m.reads(e, k.name) {
			return true
		}
	}
	return false
}

// counted returns a member's row with its ratio in place of its score, and its severity if the ratio is above 1.
func (m *model) counted(k *modelKey, pair [2]int, row flat) flat {
	score, bound := float64(math.Float32frombits(row.judged)), float64(math.Float32frombits(row.threshold))
	ratio := math.NaN()
	switch {
	case math.IsInf(bound, 0) || row.exceeds != (score > bound): // warming up, or turned away
	case bound > 0:
		ratio = score / bound
	case bound < 0:
		ratio = 1 + (score-bound)/-bound
	case bound == 0 && score == 0:
		ratio = 1
	case bound == 0 && score != 0:
		ratio = max(0, 1e6*score/math.Abs(score))
	}
	ratio = max(0, min(1e6, ratio))
	if severity := row.severity; row.exceeds && ratio == ratio {
		ratio = max(ratio, 1+1.0/(1<<23))
		row.severity = severity
		k.runs[pair]++
		d := &m.cfg.Detectors[pair[1]]
		if d.Events != nil && k.runs[pair] < d.Events.OpenAfter {
			ratio, row.severity = 1, 0
		}
	} else if row.severity = 0; ratio == ratio {
		ratio = min(ratio, 1)
		k.runs[pair] = 0
	}
	row.judged = math.Float32bits(float32(ratio))
	return row
}

// highest scores a sample by the definition of any in package ensemble.
func (m *model) highest(k *modelKey, e int, said modelSaid, late bool) {
	missing := math.Float32bits(float32(math.NaN()))
	out := flat{string(k.name), int32(e), RowWarmingUp, missing, said.offset, said.time, said.time, said.time, false, 0, missing, missing,
		0, 0}
	ensemble := m.cfg.Detectors[e].Ensemble
	members := ensemble.Members
	shut := map[int]bool{} // gates, from 1 on
	for g, gate := range ensemble.Gates {
		pair := [2]int{e, g}
		row, there := said.rows[-1-g]
		score := math.Float32frombits(row.judged)
		if there && score > gate.Above {
			k.open[pair] = 48
		}
		if late {
			continue
		}
		shut[g+1] = there && score == score && k.open[pair] == 0
		k.open[pair] = max(0, k.open[pair]-1)
	}
	gated := func(n int) bool { return ensemble.OnlyWith != nil && shut[ensemble.OnlyWith[n]] }
	var some, above []flat
	ratios, imputed := make([]float64, len(members)), false
	for _, j := range members {
		pair := [2]int{e, j}
		row, there := said.rows[j]
		imputed = imputed || there && row.state == RowImputed
		ratio := math.Float32frombits(row.judged)
		if !there || ratio != ratio {
			continue
		}
		k.past[pair] = append(k.past[pair], ratio)
		if late && ratio > 1 {
			k.overdue[pair] = append(k.overdue[pair], row)
		}
		if some = append(some, row); ratio > 1 {
			above = append(above, row)
		}
	}
	if late {
		return
	}
	var memberScores []anomaly.MemberScore
	k.memberScores[e] = slices.DeleteFunc(k.memberScores[e], func(s anomaly.MemberScore) bool {
		now := s.Time < said.time || s.Time == said.time && s.Offset <= said.offset
		by := slices.IndexFunc(members, func(j int) bool { return m.cfg.Detectors[j].Name == s.Member })
		if now && !gated(by) {
			memberScores = append(memberScores, s)
		}
		return now
	})
	if len(above) > 0 {
		some = above
	}
	for i, row := range some {
		if i == 0 {
			out.about, out.till = row.about, row.till
		}
		out.about, out.till = min(out.about, row.about), max(out.till, row.till)
	}
	best, severity := math.NaN(), -1
	for n, j := range members {
		pair := [2]int{e, j}
		rows := k.overdue[pair]
		for _, row := range rows {
			out.about = min(out.about, row.about)
		}
		delete(k.overdue, pair)
		if row, there := said.rows[j]; there {
			rows = append(rows, row)
		}
		for _, row := range rows {
			ratio := float64(math.Float32frombits(row.judged))
			if ratio != ratio {
				continue
			}
			if gated(n) {
				ratio = math.Min(ratio, 1)
			}
			ratios[n] = max(ratios[n], ratio)
			if !(best > ratio) {
				best = ratio
			}
			if ratio > 1 {
				severity = max(severity, int(row.severity))
			}
		}
		if len(k.past[pair]) > 0 {
			out.state = RowScored
		}
	}
	if imputed && out.state == RowScored {
		out.state = RowImputed
	}
	if best == best {
		out.score = math.Float32bits(float32(best))
		sum := 0.0
		for _, r := range ratios {
			sum += math.Log(max(1, r))
		}
		shares := make([]float64, len(members))
		for n, r := range ratios {
			shares[n] = math.Log(max(1, r)) / sum
		}
		if sum == 0 {
			clear(shares)
			if shares[slices.Index(ratios, best)] = 1; best == 0 {
				shares = nil
			}
		}
		m.severity, m.memberScores = severity, memberScores
		out = m.judged(k, e, out, nil, func(in *anomaly.Input) {
			if memberScores == nil {
				in.Contribution = shares
			}
		})
		m.severity, m.memberScores = -1, nil
	}
	m.rows = append(m.rows, out)
}

// overdue releases what has waited for too many offsets.
func (m *model) overdue(offset int64) {
	for m.cfg.Reading.MaxHeld > 0 {
		byOffset := slices.Clone(m.held)
		slices.SortFunc(byOffset, func(a, b Sample) int { return cmp.Compare(a.Offset, b.Offset) })
		if len(byOffset) == 0 || byOffset[0].Offset > offset-int64(m.cfg.Reading.MaxHeld) {
			return
		}
		first := byOffset[0]
		m.sort()
		m.held = slices.DeleteFunc(m.held, func(h Sample) bool {
			goes := bytes.Equal(h.Key, first.Key) && h.Time <= first.Time
			if goes {
				m.early++
				m.row(h)
			}
			return goes
		})
	}
}

// sample takes a sample in its turn.
func (m *model) sample(sm Sample, turn int64) {
	filtered := len(m.looks(sm.Key)) == 0 && m.cfg.Silence == 0
	late := !filtered && m.cfg.Reading.Lateness > 0 && m.max != NoTime && sm.Time < m.wm()
	if k := m.key(sm.Key); m.cfg.Reading.BySeries {
		late = !filtered && m.cfg.Reading.Lateness > 0 && k != nil && sm.Time < m.newest(k)-m.cfg.Reading.Lateness
	}
	old := m.max
	if sm.Time > m.max {
		m.max = sm.Time
	}
	k := m.key(sm.Key)
	switch same := func(o Sample) bool { return bytes.Equal(o.Key, sm.Key) && o.Time == sm.Time }; {
	case filtered:
	case late:
	case k != nil && k.any && sm.Time < k.last, m.cfg.Reading.Lateness == 0 && m.closed(sm.Key, sm.Time, old):
		late = true
	case m.cfg.Reading.DropDuplicates && (k != nil && k.any && sm.Time == k.last || slices.ContainsFunc(m.held, same)):
		m.count[Duplicate]++
		return
	}
	if late {
		m.count[Late]++
		return
	}
	m.release()
	var expired []*modelKey
	if m.cfg.TTL > 0 && old != NoTime {
		step := float64(max(1, m.cfg.TTL/8))
		if math.Floor(float64(m.wm())/step) != math.Floor(float64(old-m.cfg.Reading.Lateness)/step) {
			m.keys = slices.DeleteFunc(m.keys, func(k *modelKey) bool {
				gone := m.newest(k) < m.wm()-m.cfg.TTL && k.offset < turn
				if gone {
					expired = append(expired, k)
					held := len(m.held)
					m.held = slices.DeleteFunc(m.held, func(h Sample) bool { return bytes.Equal(h.Key, k.name) })
					m.count[Evicted] += int64(held - len(m.held))
				}
				return gone
			})
		}
	}
	slices.SortFunc(expired, (*modelKey).older)
	for _, k := range expired {
		m.forget(k) // by series, it may hold samples far behind the watermark
		m.end(k, anomaly.Expired, turn)
	}
	if m.cfg.Silence > 0 && m.max > old && old != NoTime {
		m.silences(turn)
	}
	if filtered {
		m.count[Filtered]++
		return
	}
	if k = m.key(sm.Key); k == nil {
		for m.cfg.MaxKeys > 0 && len(m.keys) >= m.cfg.MaxKeys {
			i := 0
			for j := range m.keys {
				if m.keys[j].older(m.keys[i]) < 0 {
					i = j
				}
			}
			if m.keys[i].offset == turn {
				break
			}
			m.forget(m.keys[i])
			m.end(m.keys[i], anomaly.Evicted, turn)
			m.keys = slices.Delete(m.keys, i, i+1)
		}
		n := len(m.cfg.Detectors)
		k = &modelKey{name: sm.Key, passed: map[[2]int][2]int64{},
			wins: make([]modelWin, len(m.cfg.Windows)), fresh: make([][]modelRow, n), carry: make([]detectors.Words, n),
			history: make([][]float32, n), scores: make([][]float32, n),
			line: make([][]modelSaid, n), scored: make([][]modelSaid, n), past: map[[2]int][]float32{}, judged: map[[2]int][]float32{},
			memberScores: map[int][]anomaly.MemberScore{}, runs: map[[2]int]int{}, overdue: map[[2]int][]flat{}, open: map[[2]int]int{},
			summary: make([][]float64, n), left: make([]int, n), events: make([]anomaly.State, n)}
		m.keys = append(m.keys, k)
	}
	waits := m.cfg.Reading.Lateness > 0 && !(k.any && sm.Time == k.last)
	if !waits {
		m.closeBefore(k, sm.Time)
	}
	k.offset = turn
	if k.silent != nil && sm.Time >= m.wm()-m.cfg.Silence {
		m.sound(k, anomaly.Recovered, sm.Time, sm.Offset)
	}
	if waits {
		if sm.Time >= m.newest(k) {
			if k.behind = 0; m.cfg.Reading.BySeries {
				k.behind = m.max - sm.Time
			}
		}
		m.held = append(m.held, sm)
		m.release()
		return
	}
	m.row(sm)
}

// forget drops the held samples of a key that is evicted.
func (m *model) forget(k *modelKey) {
	m.held = slices.DeleteFunc(m.held, func(h Sample) bool {
		gone := bytes.Equal(h.Key, k.name)
		if gone {
			m.count[Evicted]++
		}
		return gone
	})
}

func (m *model) sort() {
	slices.SortFunc(m.held, func(a, b Sample) int { return cmp.Or(cmp.Compare(m.due(a), m.due(b)), cmp.Compare(a.Offset, b.Offset)) })
}

// due returns the watermark that releases a held sample.
func (m *model) due(sm Sample) int64 { return sm.Time + m.key(sm.Key).behind }

func (m *model) release() {
	m.sort()
	for {
		at := int64(math.MaxInt64)
		if len(m.held) > 0 {
			at = m.due(m.held[0])
		}
		if m.closeFirst(min(at, m.wm())) || m.cfg.Reading.Lateness > 0 && !m.cfg.Reading.BySeries && m.closeFirstInterval(min(at, m.wm())) {
			continue
		}
		if at > m.wm() || len(m.held) == 0 {
			break
		}
		sm := m.held[0]
		m.held = m.held[1:]
		m.row(sm)
	}
}

func (m *model) row(sm Sample) {
	k := m.key(sm.Key)
	k.last, k.any = sm.Time, true
	k.samples = append(k.samples, sm)
	sm.Values = m.transformed(k)
	if m.cfg.Reading.Every > 0 && len(m.looks(sm.Key)) > 0 {
		m.count[m.aggregate(k, sm)]++
		return
	}
	m.count[m.enter(k, sm)]++
}

// enter has a sample enter the windows.
func (m *model) enter(k *modelKey, sm Sample) Outcome {
	looks := m.looks(sm.Key)
	if len(looks) == 0 {
		return Filtered
	}
	need := make([]int, len(m.cfg.Windows))
	for _, i := range looks {
		d := &m.cfg.Detectors[i]
		f := d.Detector.(*fake)
		need[d.Window] = max(need[d.Window], f.window+d.Stride-1)
	}
	in := make([]bool, len(m.cfg.Windows))
	for wi := range k.wins {
		w := &k.wins[wi]
		if need[wi] == 0 {
			continue
		}
		if g := m.cfg.Windows[wi].Grid; g != nil {
			in[wi] = cellOf(g, sm) >= 0
			continue
		}
		r := modelRow{time: sm.Time, offset: sm.Offset}
		for j, c := range m.cfg.Windows[wi].Columns {
			v := sm.Values[c]
			if math.IsNaN(v) {
				r.imputed = true
				if len(w.rows) > 0 {
					v = w.rows[len(w.rows)-1].v[j]
				}
			}
			r.v = append(r.v, v)
		}
		if r.imputed && m.cfg.Windows[wi].Incomplete && !m.cfg.Reading.Hold {
			r.imputed, r.v = false, nil
			there := false
			for _, c := range m.cfg.Windows[wi].Columns {
				r.v = append(r.v, sm.Values[c])
				there = there || !math.IsNaN(sm.Values[c])
			}
			if !there {
				continue
			}
		}
		if r.imputed && (!m.cfg.Reading.Hold || len(w.rows) == 0) {
			continue
		}
		in[wi] = true
		w.rows = append(w.rows, r)
	}
	out := Missing
	for wi := range k.wins { // rows come window by window
		if !in[wi] {
			continue
		}
		if out == Missing {
			out = WarmingUp
		}
		if g := m.cfg.Windows[wi].Grid; g != nil {
			w := &k.wins[wi]
			if end := endOf(g, w.open); len(w.open) > 0 && sm.Time >= end { // released early
				m.close(k, wi)
			}
			if w.open = append(w.open, sm); len(startsBefore(g, w)) >= g.Learn {
				out = Scored
			}
			continue
		}
		for _, i := range looks {
			d := &m.cfg.Detectors[i]
			f := d.Detector.(*fake)
			if d.Window != wi {
				continue
			}
			w := &k.wins[wi]
			n := len(w.rows)
			empty := flat{string(k.name), int32(i), RowWarmingUp, math.Float32bits(float32(math.NaN())), sm.Offset, sm.Time, sm.Time,
				sm.Time, false, 0, math.Float32bits(float32(math.NaN())), math.Float32bits(float32(math.NaN())), 0, int32(f.least - n)}
			if d.Until > 0 && int64(n) > d.Until && len(k.fresh[i]) == 0 {
				m.toEnsembles(k, i, empty)
				continue
			}
			if n < f.least {
				m.said(k, i, empty)
				continue
			}
			out = Scored
			k.fresh[i] = append(k.fresh[i], w.rows[n-1])
			if len(k.fresh[i]) == d.Stride {
				m.task(k, i, w)
				if k.fresh[i] = nil; d.Until > 0 && int64(n) >= d.Until {
					m.ended(k, i, sm)
				}
			}
		}
	}
	return out
}

// intervalStart returns the start of the interval that a time is in.
func (m *model) intervalStart(time int64) int64 {
	return int64(math.Floor(float64(time)/float64(m.cfg.Reading.Every))) * m.cfg.Reading.Every
}

// aggregate adds a sample to the open interval of its key.
func (m *model) aggregate(k *modelKey, sm Sample) Outcome {
	m.closeBefore(k, sm.Time)
	v := &k.interval
	if v.begun && sm.Time < v.start {
		return Late
	}
	if start := m.intervalStart(sm.Time); !v.open {
		if v.begun {
			m.intervals[1] += (start - v.start) / m.cfg.Reading.Every
		}
		*v = modelInterval{begun: true, open: true, start: start}
	}
	v.samples = append(v.samples, sm)
	if slices.ContainsFunc(sm.Values, func(v float64) bool { return !math.IsNaN(v) }) {
		return Aggregated
	}
	return Missing
}

// closeBefore closes the intervals of a key that end at a time or before.
func (m *model) closeBefore(k *modelKey, time int64) {
	for m.cfg.Reading.Every > 0 && k.interval.open && m.intervalStart(time) > k.interval.start {
		m.closeInterval(k)
	}
}

// closeFirstInterval closes the interval that ends first, at that time or before; false: there is none.
func (m *model) closeFirstInterval(until int64) bool {
	var first *modelKey
	for _, k := range m.keys {
		if k.interval.open && (first == nil ||
			cmp.Or(cmp.Compare(k.interval.start, first.interval.start), bytes.Compare(k.name, first.name)) < 0) {
			first = k
		}
	}
	if first == nil || first.interval.start+m.cfg.Reading.Every > until {
		return false
	}
	m.closeInterval(first)
	return true
}

// closeInterval closes the open interval of a key.
func (m *model) closeInterval(k *modelKey) {
	v := &k.interval
	sm := Sample{Key: k.name, Time: v.start, Offset: m.turn}
	for c := range m.cfg.Dim {
		name := "mean"
		for _, entry := range m.cfg.Reading.Aggregates {
			if aggregate, is := strings.CutPrefix(entry, fmt.Sprintf("f%d=", c)); is {
				name = aggregate
			}
		}
		var values []float64
		for _, s := range v.samples {
			if !math.IsNaN(s.Values[c]) {
				values = append(values, s.Values[c])
			}
		}
		sm.Values = append(sm.Values, aggregateOf(name, values, m.cfg.Reading.EmptyZero))
	}
	if v.empty++; len(v.samples) > 0 {
		m.intervals[0]++
		v.empty = 0
	} else {
		m.intervals[1]++
	}
	v.start += m.cfg.Reading.Every
	v.open, v.samples = (m.cfg.Reading.EmptyZero || m.cfg.Reading.Hold) && v.empty < series.MostEmpty, nil
	m.enter(k, sm)
}

// aggregateOf returns what values become.
func aggregateOf(name string, values []float64, zero bool) float64 {
	sum, mean, squares := 0.0, 0.0, 0.0
	for i, v := range values {
		sum += v
		d := v - mean
		mean += d / float64(i+1)
		squares += d * (v - mean)
	}
	n := len(values)
	if n == 0 && (!zero || name != "count" && name != "sum") {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	switch name {
	case "mean":
		return sum / float64(n)
	case "sum":
		return sum
	case "count":
		return float64(n)
	case "min":
		return sorted[0]
	case "max":
		return sorted[n-1]
	case "last":
		return values[n-1]
	case "range":
		return sorted[n-1] - sorted[0]
	case "stddev":
		if n > 1 {
			return math.Sqrt(squares / float64(n-1))
		}
	case "median":
		return (sorted[(n-1)/2] + sorted[n/2]) / 2
	case "p95":
		return sorted[int(math.Ceil(0.95*float64(n)))-1]
	}
	return math.NaN()
}

// transformed returns the values of a key's last sample as they enter windows: from all of its samples.
func (m *model) transformed(k *modelKey) (out []float64) {
	before, sm := k.samples[:len(k.samples)-1], k.samples[len(k.samples)-1]
	for c, v := range sm.Values {
		i := slices.IndexFunc(m.cfg.Reading.Transforms, func(entry string) bool { return strings.HasPrefix(entry, fmt.Sprintf("f%d=", c)) })
		if i < 0 {
			out = append(out, v)
			continue
		}
		last, at := math.NaN(), int64(0)
		for _, b := range before {
			if !math.IsNaN(b.Values[c]) {
				last, at = b.Values[c], b.Time
			}
		}
		switch _, name, _ := strings.Cut(m.cfg.Reading.Transforms[i], "="); name {
		case "rate":
			if v -= last; v < 0 || at == sm.Time {
				v = math.NaN()
			}
			v /= float64(sm.Time-at) / 1e6
		case "difference":
			v -= last
		case "log":
			if v = math.Log(v); math.IsInf(v, 0) {
				v = math.NaN()
			}
		case "abs":
			v = math.Abs(v)
		}
		out = append(out, v)
	}
	return out
}

// cellOf returns the cell that a sample is in; -1: none.
func cellOf(g *series.Grid, sm Sample) int {
	x, y := sm.Values[g.X], sm.Values[g.Y]
	if !(x >= g.Box[0] && x < g.Box[2] && y >= g.Box[1] && y < g.Box[3]) {
		return -1
	}
	return int((x-g.Box[0])/(g.Box[2]-g.Box[0])*float64(g.Columns)) + g.Columns*int((y-g.Box[1])/(g.Box[3]-g.Box[1])*float64(g.Rows))
}

// strideOf returns how long a stride of a grid is.
func strideOf(g *series.Grid) int64 { return cmp.Or(g.Stride, g.Span) }

// startsBefore are the starts of the strides with samples before the window that ends with the open stride of a grid.
func startsBefore(g *series.Grid, w *modelWin) map[int64]bool {
	starts := map[int64]bool{}
	for _, sm := range w.past {
		if end := endOf(g, []Sample{sm}); end <= endOf(g, w.open)-g.Span {
			starts[end] = true
		}
	}
	return starts
}

// endOf returns the end of the stride that samples are in.
func endOf(g *series.Grid, open []Sample) int64 {
	if len(open) == 0 {
		return math.MaxInt64
	}
	return (int64(math.Floor(float64(open[0].Time)/float64(strideOf(g)))) + 1) * strideOf(g)
}

// closed reports whether a grid of a key takes no sample of that time any more.
func (m *model) closed(name []byte, time, watermark int64) bool {
	return slices.ContainsFunc(m.looks(name), func(i int) bool {
		g := m.cfg.Windows[m.cfg.Detectors[i].Window].Grid
		return g != nil && watermark != NoTime && endOf(g, []Sample{{Time: time}}) <= watermark
	})
}

// closeFirst closes a window of a grid that ends first, at that time or before; false: there is none.
func (m *model) closeFirst(until int64) bool {
	byName := slices.Clone(m.keys)
	slices.SortFunc(byName, func(a, b *modelKey) int { return bytes.Compare(a.name, b.name) })
	var first *modelKey
	which, end := 0, int64(math.MaxInt64)
	for _, k := range byName {
		for wi := range k.wins {
			if g := m.cfg.Windows[wi].Grid; g != nil && endOf(g, k.wins[wi].open) < end {
				first, which, end = k, wi, endOf(g, k.wins[wi].open)
			}
		}
	}
	if first == nil || end > until {
		return false
	}
	m.close(first, which)
	return true
}

// close closes the window of a key's grid: a task of each detector, and the next one's past.
func (m *model) close(k *modelKey, wi int) {
	w, g := &k.wins[wi], m.cfg.Windows[wi].Grid
	end, last := endOf(g, w.open), w.open[len(w.open)-1]
	for _, i := range m.looks(k.name) {
		d := &m.cfg.Detectors[i]
		if d.Ensemble != nil || d.Window != wi {
			continue
		}
		row := flat{string(k.name), int32(i), RowScored, math.Float32bits(float32(math.NaN())), last.Offset, end - 1, end - g.Span, end - 1,
			false, 0, math.Float32bits(float32(math.NaN())), math.Float32bits(float32(math.NaN())), 0, 0}
		if len(startsBefore(g, w)) < g.Learn {
			row.state, row.about = RowWarmingUp, end-1
			row.remaining = int32(max(1, g.Learn-len(startsBefore(g, &modelWin{past: w.past}))))
			m.rows = append(m.rows, row)
			continue
		}
		b := &detectors.Batch{}
		t := detectors.Task{Op: scan.Op, Dim: 2, Fresh: 1}
		t.Params = b.Put(d.Detector.Params())
		var dst []int64
		t.X, dst = b.GrowI64(2 * g.Cells())
		for cell := range g.Cells() {
			dst[2*cell+1] = 1
		}
		for _, sm := range slices.Concat(w.past, w.open) {
			if sm.Time >= end-g.Span {
				dst[2*cellOf(g, sm)]++
			} else if g.Learn > 0 {
				dst[2*cellOf(g, sm)+1]++
			}
		}
		b.GrowOutputs(&t, detectors.Outputs{Scores: 1})
		b.Tasks = append(b.Tasks, t)
		execute(b)
		row.score = math.Float32bits(b.Rows(0).Scores[0])
		m.rows = append(m.rows, m.judged(k, i, row, nil, func(*anomaly.Input) {}))
	}
	w.past, w.open = append(w.past, w.open...), nil
}

// centered returns the rows that the last of all of a key's rows is centred on, as one of
// a full window: those that all full windows of its run have; nil: there are none.
func centered(all []modelRow, full, dim int) []modelRow {
	if len(all) < full {
		return nil
	}
	run := 1
	for 2*run <= full/2 && run < 128 {
		run *= 2
	}
	first := len(all) // the number of the run's first row, from 1
	for first%run > 0 {
		first--
	}
	common := all[first+run-1-full : first] // of the windows that end at first to first+run-1
	for c := range dim {
		if !slices.ContainsFunc(common, func(r modelRow) bool { return !math.IsNaN(r.v[c]) }) {
			return nil
		}
	}
	return common
}

// middleOf returns the center of a column of rows.
func middleOf(rows []modelRow, c int) float64 {
	three := []float64{rows[0].v[c], rows[len(rows)/2].v[c], rows[len(rows)-1].v[c]}
	sorted := slices.Clone(three)
	slices.Sort(sorted) // NaN first
	if !math.IsNaN(sorted[0]) {
		return sorted[1]
	}
	for r := range rows {
		three = append(three, rows[r].v[c])
	}
	if i := slices.IndexFunc(three, func(v float64) bool { return v == v }); i >= 0 {
		return three[i]
	}
	return 0
}

// scaleOf returns the range of a column.
func scaleOf(rows []modelRow, c int) float64 {
	var all []float64
	for _, r := range rows {
		all = append(all, r.v[c])
	}
	if s := slices.Max(all) - slices.Min(all); s > 0 {
		return s
	}
	return 1
}

func (m *model) task(k *modelKey, i int, w *modelWin) {
	d := &m.cfg.Detectors[i]
	f := d.Detector.(*fake)
	x := w.rows[max(0, len(w.rows)-(f.window+d.Stride-1)):]
	dim := len(m.cfg.Windows[d.Window].Columns)
	b := &detectors.Batch{}
	b.GrowF32(3) // arenas are not empty
	t := detectors.Task{Op: f.Op(), Dim: uint32(dim), Fresh: uint32(d.Stride)}
	var dst []float32
	t.Params = b.Put(f.Params())
	t.X, dst = b.GrowF32(len(x) * dim)
	around := centered(w.rows, f.window+d.Stride-1, dim)
	if around == nil {
		around = x
	}
	centers := make([]float64, dim)
	scales := make([]float64, dim)
	for c := range dim {
		centers[c], scales[c] = middleOf(around, c), 1
		if d.Scale {
			scales[c] = scaleOf(around, c)
		}
		for r := range x {
			dst[r*dim+c] = float32((x[r].v[c] - centers[c]) / scales[c])
		}
	}
	if p := f.Summary(dim); p != nil {
		for ; k.left[i] < len(w.rows)-(f.window-1); k.left[i]++ {
			k.summary[i] = p.Add(k.summary[i], w.rows[k.left[i]].v)
		}
		t.Bins, dst = b.GrowF32(p.Count(k.summary[i]) * (dim + 1))
		p.Pack(dst, k.summary[i], centers)
	}
	t.Carry = b.Put(k.carry[i])
	size, _ := f.Size(detectors.View{Dim: dim, Rows: len(x), Fresh: d.Stride})
	b.GrowOutputs(&t, size)
	b.Tasks = append(b.Tasks, t)
	execute(b)
	rows := b.Rows(0)
	k.carry[i] = slices.Clone(rows.Next)
	finds := f.AppendFindings(nil, rows)
	for j, r := range k.fresh[i] {
		row := flat{string(k.name), int32(i), RowScored, math.Float32bits(float32(math.NaN())), r.offset, r.time, r.time, r.time, false, 0,
			math.Float32bits(float32(math.NaN())), math.Float32bits(float32(math.NaN())), 0, 0}
		if r.imputed {
			row.state = RowImputed
		}
		var best *detectors.Finding // of the sample: a score is known by sample and detector
		for n := range finds {
			if f := &finds[n]; f.Fresh == j && (best == nil || f.Score > best.Score) {
				best = f
			}
		}
		if best != nil && m.gapIn(x, best.From, best.To) {
			best, row.state, row.remaining = nil, RowWarmingUp, 1
			k.scores[i] = nil // the mean of the last scores begins anew
		}
		if best != nil {
			row.score, row.about, row.till = math.Float32bits(float32(best.Score)), x[best.From].time, x[best.To].time
			row = m.judged(k, i, row, r.v, func(in *anomaly.Input) {
				at := rows.Len() - rows.Fresh + j
				for c := range rows.Dim {
					if f.id%2 == 0 {
						in.Expected = append(in.Expected, float64(rows.X[max(0, at-1)*rows.Dim+c])*scales[c]+centers[c])
						in.Actual = append(in.Actual, r.v[c])
						in.Contribution = append(in.Contribution, 1/float64(rows.Dim))
						in.Deviation = &anomaly.Deviation{From: r.time, At: r.time}
					}
				}
			})
		}
		m.said(k, i, row)
	}
}

// gapIn reports whether there is a gap among the rows from and to of a task's.
func (m *model) gapIn(x []modelRow, from, to int) bool {
	var all []int64
	for i := max(1, len(x)-usualRows); i < len(x); i++ {
		all = append(all, x[i].time-x[i-1].time)
	}
	slices.Sort(all)
	for i := from + 1; i <= to; i++ {
		d := x[i].time - x[i-1].time
		switch most := m.cfg.Reading.MaxGap; {
		case most > 0 && d > most:
			return true
		case most == rules.OwnGap && len(all) >= leastUsual && d > gapTimes*all[len(all)-1-max(1, len(all)/100)]:
			return true
		}
	}
	return false
}

// meanOf returns the bits of the mean of the last n scores, or of NaN while there are fewer.
func meanOf(scores []float32, n int) uint32 {
	if n = max(n, 1); n == 1 {
		return math.Float32bits(scores[len(scores)-1])
	}
	if len(scores) < n {
		return math.Float32bits(float32(math.NaN()))
	}
	sum := 0.0
	for _, s := range scores[len(scores)-n:] {
		sum += math.Max(-math.MaxFloat32, math.Min(math.MaxFloat32, float64(s)))
	}
	return math.Float32bits(float32(sum / float64(n)))
}

// judged returns a row as it was judged, and what becomes of the key's anomaly. values are the sample's, as the
// detector's window has them.
func (m *model) judged(k *modelKey, i int, row flat, values []float64, explain func(*anomaly.Input)) flat {
	d := &m.cfg.Detectors[i]
	k.scores[i] = append(k.scores[i], math.Float32frombits(row.score))
	row.judged = meanOf(k.scores[i], int(d.Smooth))
	var in anomaly.Input
	explain(&in)
	m.in = in
	if score := math.Float32frombits(row.judged); d.Threshold == nil || score != score {
		return row
	}
	if k.history[i] == nil {
		k.history[i] = make([]float32, d.Threshold.Size())
	}
	score := math.Float32frombits(row.judged)
	params := *d.Threshold
	if params.Decluster == 0 {
		params.Decluster = max(1, int(d.Smooth)) // fakes say nothing of their reach
		if d.Ensemble != nil {
			reach := 1
			for _, j := range d.Ensemble.Members {
				reach = max(reach, int(m.cfg.Detectors[j].Smooth))
			}
			params.Decluster += reach - 1
		}
	}
	v := params.JudgeAt(k.history[i], score, row.time, true)
	if d.Ensemble != nil && d.Ensemble.Any && v.Exceeds && m.severity >= 0 {
		v.Severity = uint8(m.severity)
	}
	turned := false
	if g := d.Guard; g != nil && v.Exceeds {
		turned = !g.Open(func(i int) float64 { return values[i] }) || !g.Admits(in.Expected, in.Actual, in.Contribution)
	}
	if turned {
		v.Exceeds, v.Severity = false, 0
	}
	row.exceeds, row.severity, row.threshold = v.Exceeds, v.Severity, math.Float32bits(v.Threshold)
	if d.Events == nil || m.replaced(k, i) {
		return row
	}
	in = anomaly.Input{
		Deviation: in.Deviation, Located: d.Ensemble == nil || !d.Ensemble.Any, Ordinary: turned, Shadow: d.Shadow,
		Expected: in.Expected, Actual: in.Actual, Contribution: in.Contribution,
		Time: row.time, Offset: row.offset, About: row.about, Until: row.till, Score: score, Threshold: v.Threshold,
		Rank: v.Tail, Exceeds: v.Exceeds, Severity: v.Severity, Detector: d.Name, Key: k.name, Members: m.memberScores,
	}
	left, _ := k.events[i].Leave(&in, true)
	if left.Anomaly.Revision > 0 {
		m.tell(k, int32(i), d.Name, left)
	}
	if !k.events[i].Peak(score) && (d.Guard == nil || !d.Guard.Deviates()) {
		in.Deviation = nil // it is not asked for
	}
	if m.carries != nil && v.Exceeds && k.events[i].Peak(score) {
		in.Carry(m.carries)
	}
	if c, ok := k.events[i].Step(d.Events, &in, true); ok {
		if d.Shadow && c.Kind == anomaly.Open {
			k.events[i].SetGroup(nil)
		} else if g := m.group(k, c.Anomaly.ID, c.Time); g != nil && c.Kind == anomaly.Open {
			k.events[i].SetGroup(g)
			c.Anomaly.Group = g
		}
		if fault := m.fault(k, d.Shadow, left.Anomaly.ID); c.Kind == anomaly.Open && fault != nil {
			k.events[i].SetFault(*fault)
			c.Anomaly.Fault = *fault
		}
		m.tell(k, int32(i), d.Name, c)
	}
	return row
}

// group returns the group of an anomaly that opens: the last to begin, within the window, of those that the keys of the
// group remember.
func (m *model) group(k *modelKey, id [16]byte, time int64) *anomaly.Group {
	if m.cfg.Grouping == nil {
		return nil
	}
	name := m.cfg.Grouping.By(k.name)
	if name == nil {
		return nil
	}
	var last *anomaly.Group
	see := func(g *anomaly.Group) {
		if g != nil && max(g.Since-time, time-g.Since) <= m.cfg.Grouping.Window && (last == nil || g.Since > last.Since ||
			g.Since == last.Since && bytes.Compare(g.ID[:], last.ID[:]) > 0) {
			last = g
		}
	}
	for _, other := range m.keys {
		if !bytes.Equal(m.cfg.Grouping.By(other.name), name) {
			continue
		}
		for i := range other.events {
			see(other.events[i].Group())
		}
		if other.silent != nil {
			see(other.silent.Group)
		}
	}
	if last != nil {
		return last
	}
	return &anomaly.Group{ID: id, Since: time}
}

// fault returns the fault of an anomaly that opens, from all events of the key's anomalies of that mode so far: the fault of one that
// has not closed, or is left, closed by the same score; nil: its own.
func (m *model) fault(k *modelKey, shadow bool, left [16]byte) (fault *[16]byte) {
	open := map[[16]byte][16]byte{}
	for _, e := range m.events {
		d := changelog.Decoder{B: []byte(e.anomaly)}
		a := anomaly.DecodeAnomaly(&d)
		switch {
		case e.key != string(k.name) || e.det == SilenceDetector || a.Shadow != shadow:
		case e.kind == anomaly.Open:
			open[a.ID] = a.Fault
		case e.kind == anomaly.Close && a.ID != left:
			delete(open, a.ID)
		}
	}
	for _, f := range open {
		if fault != nil && *fault != f {
			panic("open anomalies of one series have two faults")
		}
		fault = &f
	}
	return fault
}

func (m *model) tell(k *modelKey, det int32, name string, c anomaly.Change) {
	m.events = append(m.events, flatEvent{string(k.name), name, det, c.Kind, c.Reason, c.Time, c.Offset, string(c.Anomaly.Append(nil)), 0})
}

// ended is the end of a detector of a key, with a sample.
func (m *model) ended(k *modelKey, i int, sm Sample) {
	if c, ok := k.events[i].End(anomaly.DetectorRemoved, sm.Time, sm.Offset); ok {
		m.tell(k, int32(i), m.cfg.Detectors[i].Name, c)
	}
	k.history[i] = nil
}

// end is the end of a key.
func (m *model) end(k *modelKey, reason anomaly.Reason, offset int64) {
	for wi := range m.cfg.Windows {
		for _, i := range m.looks(k.name) {
			if m.cfg.Detectors[i].Window != wi {
				continue
			}
			if c, ok := k.events[i].End(reason, m.wm(), offset); ok {
				m.tell(k, int32(i), m.cfg.Detectors[i].Name, c)
			}
		}
	}
	for i := range m.cfg.Detectors {
		if m.cfg.Detectors[i].Ensemble == nil || !m.reads(i, k.name) {
			continue
		}
		if c, ok := k.events[i].End(reason, m.wm(), offset); ok {
			m.tell(k, int32(i), m.cfg.Detectors[i].Name, c)
		}
	}
	if k.silent != nil {
		m.sound(k, reason, m.wm(), offset)
	}
}

// newest returns the time of a key's newest sample.
func (m *model) newest(k *modelKey) int64 {
	last := int64(math.MinInt64)
	if k.any {
		last = k.last
	}
	for _, h := range m.held {
		if bytes.Equal(h.Key, k.name) {
			last = max(last, h.Time)
		}
	}
	return last
}

// silences opens those that are due.
func (m *model) silences(offset int64) {
	byOffset := slices.Clone(m.keys)
	slices.SortFunc(byOffset, (*modelKey).older)
	for _, k := range byOffset {
		from := m.newest(k)
		if k.silent != nil || from >= m.wm()-m.cfg.Silence {
			continue
		}
		k.silent = &anomaly.Anomaly{ID: anomaly.ID("silence", k.name, nil, m.wm(), offset), Start: from, OpenedAt: m.wm(),
			Threshold: float32(float64(m.cfg.Silence) / 1e6)}
		k.silent.Group, k.silent.Fault = m.group(k, k.silent.ID, m.wm()), k.silent.ID
		if fault := m.fault(k, false, [16]byte{}); fault != nil {
			k.silent.Fault = *fault
		}
		m.silence(k, anomaly.Change{Kind: anomaly.Open, Time: m.wm(), Offset: offset})
	}
}

// sound ends a silence.
func (m *model) sound(k *modelKey, reason anomaly.Reason, time, offset int64) {
	m.silence(k, anomaly.Change{Kind: anomaly.Close, Reason: reason, Time: time, Offset: offset})
	k.silent = nil
}

func (m *model) silence(k *modelKey, c anomaly.Change) {
	a := k.silent
	a.Revision++
	a.End, a.PeakTime = c.Time, c.Time
	a.PeakScore = float32(float64(c.Time-a.Start) / 1e6)
	a.Severity = 50
	for times := int64(2); c.Time-a.Start >= times*m.cfg.Silence && a.Severity < 100; times *= 2 {
		a.Severity = min(100, a.Severity+17)
	}
	c.Anomaly = *a
	m.tell(k, SilenceDetector, series.SilenceName, c)
}

// TestModel compares the undisturbed fold with the model.
func TestModel(t *testing.T) {
	r := seedtest.New(t)
	rejected, changes, silent, kinds, reasons, joined, early, aggregated := 0, 0, 0, [3]int{}, [5]int{}, 0, int64(0), int64(0)
	for range 60 {
		w := newWorld(t, r, 100+r.IntN(900))
		m := &model{cfg: w.cfg, max: NoTime}
		for _, sm := range w.log {
			m.offer(sm)
		}
		for i := range w.rows {
			w.rows[i].behind = 0 // that is a matter of the fold, and of no consequence to it
			if w.cfg.Detectors[w.rows[i].det].Ensemble != nil {
				w.rows[i].remaining = 0 // see checkRemaining, and package ensemble
			}
		}
		for i := range w.events {
			w.events[i].behind = 0
		}
		compareRows(t, w.rows, m.rows)
		compareEvents(t, w.events, m.events)
		changes += len(w.events)
		for _, c := range w.events {
			kinds[c.kind]++
			reasons[c.reason]++
			if a := decodedAnomaly(t, c.anomaly); c.kind == anomaly.Open && a.Fault != a.ID {
				joined++
			}
			if c.det == SilenceDetector {
				silent++
			}
		}
		if w.count != m.count || w.held != len(m.held)+len(m.suspects) || w.early != m.early || w.intervals != m.intervals {
			t.Fatalf("counts %v, %d held, %d early and %v intervals, the model has %v, %d, %d and %v", w.count, w.held, w.early, w.intervals,
				m.count, len(m.held)+len(m.suspects), m.early, m.intervals)
		}
		aggregated += w.count[Aggregated]
		early += m.early
		var refused []int64
		for _, u := range w.refused {
			refused = append(refused, u.Offset)
		}
		if !slices.Equal(refused, m.refused) {
			t.Fatalf("suspects %v are refused, the model has %v", refused, m.refused)
		}
		rejected += len(refused)
	}
	t.Logf("%d suspects rejected, %d changes of anomalies, %d of silences; by kind %v, by reason %v; %d join a fault; "+
		"%d samples released early, %d aggregated",
		rejected, changes, silent, kinds, reasons, joined, early, aggregated)
	if early == 0 || aggregated == 0 {
		t.Error("no sample was released early, or none aggregated: the test tests too little")
	}
}
