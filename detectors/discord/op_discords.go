package discord

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"odradek/detectors"
)

// This file is op discords: the top discords of a window, of every length. The method is
// package detectors/discord.

// OpTop finds the subsequences of a window that are least like any other of it, for every length of a
// range.
const OpTop detectors.Op = 6

// precisions are the words of 64 and 32 bits.
var precisions = []string{"float64", "float32"}

var topSpec = detectors.Spec{
	Name: "discords", Elem: detectors.F64,
	Finds: "shape unlike the rest of the last {window} readings",
	Help: "Finds the strangest stretches of a window, of any length in a range, with their beginning and end. " +
		"It searches whole windows. The score of a discord, a subsequence unlike all others, is its distance " +
		"to the most similar one, comparable between lengths; its last sample has the score, other samples " +
		"have none.",
	Params: []detectors.Param{
		{Name: detectors.WindowParam, Type: detectors.Int, Default: 2048, Min: 4, Max: MaxTopWindow,
			Help: "Samples to search, at least 2*MAX_LENGTH.", Example: "4096"},
		{Name: detectors.TumblingParam, Type: detectors.Bool, Default: false,
			Help: "Search windows one after the other, with STRIDE=WINDOW."},
		{Name: "MIN_LENGTH", Type: detectors.Int, Default: 32, Min: 3, Max: MaxTopLength, Word: 1,
			Help: "Samples of the shortest subsequences.", Example: "24"},
		{Name: "MAX_LENGTH", Type: detectors.Int, Default: 128, Min: 3, Max: MaxTopLength, Word: 2,
			Help: "Samples of the longest subsequences.", Example: "96"},
		{Name: "LENGTH_STEP", Type: detectors.Int, Default: 16, Min: 1, Max: MaxTopLength, Word: 3,
			Help: "Samples from one length to the next; at most 1024 lengths.", Example: "8"},
		{Name: "TOP", Type: detectors.Int, Default: 1, Min: 1, Max: MaxTop, Word: 4,
			Help: "Discords of each length, without overlaps.", Example: "3"},
		{Name: "K", Type: detectors.Int, Default: 1, Min: 1, Max: MaxK, Word: 5,
			Help: "Neighbours whose distances are summed; finds also an anomaly that is in the window K times.", Example: "2"},
		{Name: "EXCLUSION", Type: detectors.Int, Default: 1, Min: 1, Max: 64, Word: 6,
			Help: "Compared subsequences begin at least 1/EXCLUSION of their length apart: 1 as in the papers, 4 as in " +
				"SCAMP.", Example: "4", Expert: true},
		{Name: "EXCLUDE_FLAT", Type: detectors.Bool, Default: false, Word: 7,
			Help: "Compare constant subsequences only with each other; otherwise their normalised distance to others is " +
				"1."},
		{Name: "ROWS", Type: detectors.Int, Word: 8}, // the window, 0 with TUMBLING: all of X
		{Name: "PRECISION", Type: detectors.Choice, Default: precisions[0], Choices: precisions, Stateless: true,
			Help: "Numbers to compare in. float32 finds the same discords, faster on CPUs with AVX2; K above 1 always " +
				"takes float64."},
		{Name: "PRECISION", Type: detectors.Int, Word: 9}, // in a task the bits, 64 or 32
		{Name: "RADIUS", Type: detectors.Text, Default: radiusOff, Values: "off, auto, or a distance above 0", Example: "auto",
			Help: "Instead of the TOP, find all subsequences at least this far from their nearest neighbour (range discords); auto: by " +
				"MERLIN's rule for each length, until TOP are found. A task keeps the 65536 farthest."},
	},
	Defaults: []detectors.Default{
		{Name: "STRIDE", Value: func(v detectors.Values) string {
			if v.Bool(detectors.TumblingParam) {
				return strconv.Itoa(v.Int(detectors.WindowParam))
			}
			return strconv.Itoa(max(1, v.Int(detectors.WindowParam)/8))
		}, Words: "WINDOW/8, or WINDOW if TUMBLING"},
	},
	New: func(v detectors.Values) (detectors.Detector, error) {
		text, _ := v["RADIUS"].(string)
		radius, err := ParseRadius(text)
		if err != nil {
			return nil, fmt.Errorf("discord: discords: RADIUS %w", err)
		}
		return NewTop(TopParams{Radius: radius, Window: v.Int(detectors.WindowParam), Tumbling: v.Bool(detectors.TumblingParam),
			MinLength: v.Int("MIN_LENGTH"),
			MaxLength: v.Int("MAX_LENGTH"), Step: v.Int("LENGTH_STEP"), Top: v.Int("TOP"), K: v.Int("K"), Exclusion: v.Int("EXCLUSION"),
			ExcludeFlat: v.Bool("EXCLUDE_FLAT"), Precision: 64 >> v.Choice("PRECISION", precisions)})
	},
	Score: scoreTop, CPU: topCPU, Cost: topCost, Compare: compareTop, Cases: topCases,
}

func init() { detectors.Register(OpTop, &topSpec) }

// Limits of the op.
const (
	MaxTopWindow = 1 << 24
	MaxTopLength = 1 << 19
	MaxTop       = 32
	MaxK         = 64
	MaxLengths   = 1 << 10
	MaxRanged    = 1 << 16 // range discords that a task keeps
)

// radiusOff is the setting RADIUS without range discords.
const radiusOff = "off"

// ParseRadius reads a radius: a distance above 0, or auto; off is 0.
func ParseRadius(text string) (float64, error) {
	switch text {
	case "", radiusOff:
		return 0, nil
	case "auto":
		return Auto, nil
	}
	r, err := strconv.ParseFloat(text, 64)
	if err != nil || !(r > 0) || math.IsInf(r, 1) {
		return 0, fmt.Errorf("is %q: use off, auto, or a distance above 0", text)
	}
	return r, nil
}

// TopParams are the parameters of the op; 0 means the default.
type TopParams struct {
	Window      int     // rows that are searched, no default
	Tumbling    bool    // see New
	MinLength   int     // rows of the shortest subsequences, at least 3
	MaxLength   int     // rows of the longest, at most half of the window; default MinLength
	Step        int     // from one length to the next, default 1
	Top         int     // discords of each length, default 1
	K           int     // neighbours, default 1
	Exclusion   int     // of m: subsequences less than m/Exclusion apart are not compared, default 1; discords never overlap
	ExcludeFlat bool    // subsequences of equal values are compared with each other alone
	Precision   int     // bits of the numbers in which all pairs are compared, 64 or 32, default 64; the discords are the same
	Radius      float64 // find range discords, see RangeQuery; 0: the Top ones
}

// The parameters of a task, int32 each.
const (
	paramMin = iota
	paramMax
	paramStep
	paramTop
	topParamK
	paramExclusion
	paramExcludeFlat
	paramRows
	paramPrecision
	paramCount
	paramRadius = paramCount // a float64, of range discords only
)

// A discord takes discordWords words of a task's Detail: the distance, a float64, and the
// first rows of the subsequence and of its nearest neighbour, counted from the oldest of
// the task's X. There are Top of them for each length, the first discord first; the least
// length first; of rows of several values, the lengths of the first value first. Where there
// is none, the distance is NaN and the places are detectors.NoRow.
const discordWords = 4

// remembered times Top is the number of reported discords that are remembered for each length.
const remembered = 4

type topDetector struct {
	params detectors.Words
	p      TopParams
	set    settings
}

// settings are the parameters of a task.
type settings struct {
	lengths                   Lengths
	top, k, divisor           int
	excludeFlat, single       bool
	rows                      int     // 0: all of X
	count                     int     // of lengths
	remembered, carry, detail int     // words a length: the reported ones, the carry, the detail
	radius                    float64 // 0: no range discords
	kept                      int     // discords a length in the detail
}

func settingsOf(params detectors.Words) settings {
	at := func(i int) int { return int(int32(params[i])) }
	s := settings{lengths: Lengths{Min: at(paramMin), Max: at(paramMax), Step: at(paramStep)},
		top: at(paramTop), k: at(topParamK), divisor: at(paramExclusion), excludeFlat: at(paramExcludeFlat) != 0, rows: at(paramRows),
		single: at(paramPrecision) == 32}
	s.count = (s.lengths.Max-s.lengths.Min)/s.lengths.Step + 1
	if s.rows > 0 {
		s.remembered = remembered * s.top
	}
	if len(params) > paramRadius {
		s.radius, s.remembered = params.Float64(paramRadius), 0
	}
	s.carry, s.detail, s.kept = 2+s.remembered, discordWords*s.top, s.top
	return s
}

// settingsFor returns the parameters of a task with its detail.
func settingsFor(r *detectors.Rows) settings {
	s := settingsOf(r.Params)
	if s.radius != 0 {
		s.detail = len(r.Detail) / (r.Dim * s.count)
		s.kept = s.detail/discordWords - 1
	}
	return s
}

// ranged returns the query of range discords.
func (s *settings) ranged() *RangeQuery {
	return &RangeQuery{Lengths: s.lengths, Radius: s.radius, Top: s.top, Most: s.kept, Options: s.options}
}

// words returns the words of a discord in the detail.
func (s *settings) words(detail detectors.Words, length, rank int) detectors.Words {
	at := length*s.detail + rank*discordWords
	if s.radius != 0 {
		at += discordWords
	}
	return detail[at:][:discordWords]
}

// options returns the options for subsequences of length m.
func (s *settings) options(m int) Options {
	return Options{Exclusion: max(1, m/s.divisor), K: s.k, ExcludeFlat: s.excludeFlat, Single: s.single}
}

// NewTop returns the detector of the op: the first Top discords of each of the
// lengths from MinLength to MaxLength, see package discord, in the last Window rows of
// each task, searched together. Each value of a row has its own.
//
// A Tumbling detector searches the rows of a task, all of them fresh: with a stride of
// Window, which the caller has to set, windows do not overlap.
//
// A finding is a discord that has not been reported, the first ones of all lengths: its
// rows, its length, its rank among the discords of the length, and its score, the normalised
// distance (discord.Normalised), from 0 to 2. It belongs to its newest row, or to the oldest
// fresh one if that is newer. A discord overlaps those that were reported before, of
// the same length and in rows that are still searched, or is a new one; of each length the
// last 4*Top are remembered. The score of a fresh row is the largest of its findings', NaN
// without one: normalised distances are comparable between lengths. So a sample has one
// score, since consumers identify a score by its sample and detector; the discords of all
// lengths are in the block.
//
// The carry has for each length, the first value's lengths first, the distance of the last
// discord, a float64 (NaN where there are fewer than Top), a good search radius for the
// next window, and without Tumbling 4*Top ages of reported discords: the number of rows
// from a discord's first to the newest of X, oldest reported first; 0 for none.
//
// With a Radius the discords are range discords, as many as a length has; of more than MaxRanged in a task, each length
// keeps its farthest. A finding is one that ends in a fresh row, or in any row of a key's first task: each sample ends
// subsequences when it is fresh, so no report need be remembered. The carry has for each length its radius.
//
// The error names every fault of the parameters.
func NewTop(p TopParams) (detectors.Detector, error) {
	p.MaxLength, p.Step, p.Top = max(p.MaxLength, 0), max(p.Step, 0), max(p.Top, 0)
	if p.MaxLength == 0 {
		p.MaxLength = p.MinLength
	}
	for _, v := range []*int{&p.Step, &p.Top, &p.K, &p.Exclusion} {
		if *v == 0 {
			*v = 1
		}
	}
	if p.Precision == 0 {
		p.Precision = 64
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if p.Window < 4 || p.Window > MaxTopWindow {
		fault("window is %d rows, use 4 to %d", p.Window, MaxTopWindow)
	}
	if p.MinLength < 3 {
		fault("the least length is %d, use 3 or more: two values have no shape", p.MinLength)
	}
	switch {
	case p.MaxLength < p.MinLength:
		fault("the largest length %d is below the least, %d", p.MaxLength, p.MinLength)
	case 2*p.MaxLength > p.Window:
		fault("subsequences of %d rows have no neighbour in windows of %d: use lengths up to %d, or a larger window",
			p.MaxLength, p.Window, p.Window/2)
	}
	if n := (p.MaxLength - p.MinLength) / max(1, p.Step); n >= MaxLengths {
		fault("%d lengths, use at most %d: a larger step, or a smaller range", n+1, MaxLengths)
	}
	if p.Step < 1 {
		fault("the step of lengths is %d, use 1 or more", p.Step)
	}
	if p.Top < 1 || p.Top > MaxTop {
		fault("%d discords of a length, use 1 to %d", p.Top, MaxTop)
	}
	if p.K < 1 || p.K > MaxK {
		fault("k is %d, use 1 to %d", p.K, MaxK)
	}
	if p.Exclusion < 1 || p.Exclusion > 64 {
		fault("exclusion is 1/%d of a length, use 1/1 to 1/64", p.Exclusion)
	}
	if p.Precision != 32 && p.Precision != 64 {
		fault("the precision is %d bits, use 32 or 64", p.Precision)
	}
	if most := 2 * math.Sqrt(float64(p.MaxLength)) * float64(p.K); p.Radius != Auto && !(p.Radius >= 0 && p.Radius <= most) {
		fault("the radius is %v, use a distance up to %.4g: none is larger", p.Radius, most)
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("discord: discords: %w", errors.Join(faults...))
	}
	d := &topDetector{params: make(detectors.Words, paramCount), p: p}
	flat, rows := 0, p.Window
	if p.ExcludeFlat {
		flat = 1
	}
	if p.Tumbling {
		rows = 0
	}
	for i, v := range []int{p.MinLength, p.MaxLength, p.Step, p.Top, p.K, p.Exclusion, flat, rows, p.Precision} {
		d.params[i] = uint32(v)
	}
	if p.Radius != 0 {
		d.params = append(d.params, 0, 0)
		d.params.SetFloat64(paramRadius, p.Radius)
	}
	d.set = settingsOf(d.params)
	return d, nil
}

func (d *topDetector) Op() detectors.Op        { return OpTop }
func (d *topDetector) Params() detectors.Words { return d.params }

func (d *topDetector) Window() int {
	if d.p.Tumbling {
		return 1
	}
	return d.p.Window
}

func (d *topDetector) Size(v detectors.View) (n detectors.Outputs, ok bool) {
	if v.Fresh < 1 || v.Rows-v.Fresh+1 < d.Window() {
		return detectors.Outputs{}, false
	}
	series, detail := v.Dim*d.set.count, d.set.detail
	if d.set.radius != 0 {
		n := v.Rows
		if d.set.rows > 0 {
			n = min(n, d.set.rows)
		}
		detail = discordWords * (1 + max(1, min(n, MaxRanged/series)))
	}
	return detectors.Outputs{Scores: v.Fresh, Carry: series * d.set.carry, Detail: series * detail}, true
}

func (d *topDetector) AppendFindings(dst []detectors.Finding, r detectors.Rows) []detectors.Finding {
	s := settingsFor(&r)
	s.found(&r, func(f detectors.Finding, _ int) { dst = append(dst, f) })
	return dst
}

// Explain expects the shape of the nearest neighbour, at the level and the scale of the rows that fit it. A discord is of one value.
func (d *topDetector) Explain(r detectors.Rows, fresh, since int, expected, contribution []float64) (detectors.Location, bool) {
	e := d.describe(&r, fresh, since, expected)
	copy(contribution, e.Fields)
	return e.Location, e.Fields != nil
}

// Describe returns the discord that is the fresh row's score, and its nearest neighbour.
func (d *topDetector) Describe(r detectors.Rows, fresh int) detectors.Evidence {
	return d.describe(&r, fresh, 0, make([]float64, r.Dim))
}

// describe is Describe, and sets expected to the row that was expected in place of the one that deviates most.
func (d *topDetector) describe(r *detectors.Rows, fresh, since int, expected []float64) detectors.Evidence {
	e := detectors.Evidence{From: r.Row(fresh), To: r.Row(fresh), Location: detectors.OneRow(r.Row(fresh))}
	best := math.Inf(-1)
	s := settingsFor(r)
	s.found(r, func(f detectors.Finding, length int) {
		if f.Fresh != fresh || f.Score <= best {
			return
		}
		best = f.Score
		w := s.words(r.Detail, length, f.Rank-1)
		e.From, e.To = f.From, f.To
		e.Inputs = []detectors.Input{{Role: detectors.Neighbour, From: int(w[3]), To: int(w[3]) + f.Length - 1, Distance: w.Float64(0)}}
		e.Measures = []detectors.Measure{{Name: "samples of the discord", Field: detectors.AllFields, Value: float64(f.Length)},
			{Name: "rank among the discords of its length", Field: detectors.AllFields, Value: float64(f.Rank)}}
		if s.radius != 0 {
			count, radius := s.header(r.Detail, length)
			e.Measures = append(e.Measures, detectors.Measure{Name: "radius", Field: detectors.AllFields, Value: radius},
				detectors.Measure{Name: "range discords of its length in the window", Field: detectors.AllFields, Value: float64(count)},
				detectors.Measure{Name: "farthest of them that are kept", Field: detectors.AllFields, Value: float64(min(count, s.kept))})
		}
		e.Fields = detectors.OneHot(r.Dim, length/s.count)
	})
	if e.Fields == nil {
		return e
	}
	column := func(c int) []float64 {
		x := make([]float64, r.Len())
		for i := range x {
			x[i] = r.X64[i*r.Dim+c]
		}
		return x
	}
	off := Expect(expected, e.Fields, column, e.To-e.From+1, e.Inputs[0].From, e.From, since)
	e.Location = detectors.LocationOf(e.From, since, off)
	return e
}

// Incomplete marks the detector as one that leaves out subsequences with a missing value.
func (d *topDetector) Incomplete() {}

// Block returns the heatmap of the discords of a task, reported ones included, of all
// values of a row. See discord.Heatmap.
func (d *topDetector) Block(r detectors.Rows) (mediaType string, block []byte) {
	const head = 1 << 10
	s := settingsFor(&r)
	n := r.Len() - s.searched(&r)
	if n < 2*s.lengths.Min {
		return "", nil
	}
	h := NewHeatmap(n, s.lengths, detectors.MaxBlock-head)
	empty := true
	s.each(&r, func(_, _ int, d Discord) {
		d.At -= s.searched(&r)
		if s.radius != 0 { // each place has its own
			h.Add(d.At, d.Length, Normalised(d.Distance, d.Length, s.k))
		} else {
			h.AddDiscord(d, s.k)
		}
		empty = false
	})
	if empty {
		return "", nil
	}
	block, _ = h.AppendBinary(make([]byte, 0, head+len(h.Cells)))
	return MediaType, block
}

// MediaType is the media type of the op's blocks: a discord.Heatmap as bytes.
const MediaType = "application/vnd.odradek.heatmap"

// searched returns the first row of X that is searched; the last one is X's.
func (s *settings) searched(r *detectors.Rows) (from int) {
	if s.rows > 0 {
		return max(0, r.Len()-s.rows)
	}
	return 0
}

// found calls f for each discord in the task's Detail that has not been reported, with the
// number of its length among the lengths of all values.
func (s *settings) found(r *detectors.Rows, f func(f detectors.Finding, length int)) {
	n, first := r.Len(), r.Len()-r.Fresh
	s.each(r, func(i, rank int, d Discord) {
		last := d.At + d.Length - 1
		if s.radius != 0 && len(r.Carry) > 0 && last < first || s.radius == 0 && s.reported(r, i, n-d.At, d.Length) {
			return
		}
		f(detectors.Finding{Fresh: max(0, last-first), From: d.At, To: last,
			Score: float64(float32(Normalised(d.Distance, d.Length, s.k))), Length: d.Length, Rank: rank + 1}, i)
	})
}

// each calls f for each discord in the task's Detail, with the number of its length among
// the lengths of all values and its rank, 0 the first. Rows count from the oldest of X.
func (s *settings) each(r *detectors.Rows, f func(i, rank int, d Discord)) {
	for i := range r.Dim * s.count {
		for rank := range s.kept {
			w := s.words(r.Detail, i, rank)
			if w[2] == detectors.NoRow {
				break
			}
			f(i, rank, Discord{At: int(w[2]), Length: s.lengths.Min + i%s.count*s.lengths.Step, Distance: w.Float64(0)})
		}
	}
}

// ages returns the ages of the carry of a length.
func (s *settings) ages(carry detectors.Words, length int) detectors.Words {
	if len(carry) == 0 {
		return nil
	}
	return carry[length*s.carry+2:][:s.remembered]
}

// reported reports whether a subsequence that begins age rows before the end of X overlaps
// one that has been reported.
func (s *settings) reported(r *detectors.Rows, length, age, m int) bool {
	return slices.ContainsFunc(s.ages(r.Carry, length), func(then uint32) bool {
		now := int(then) + r.Fresh
		return then > 0 && now-age < m && age-now < m
	})
}

// setOutputs sets the task's scores and its carry from its Detail.
func (s *settings) setOutputs(r *detectors.Rows) {
	for i := range r.Scores {
		r.Scores[i] = float32(math.NaN())
	}
	if s.radius != 0 {
		s.found(r, func(f detectors.Finding, _ int) {
			if score := float32(f.Score); !(score <= r.Scores[f.Fresh]) {
				r.Scores[f.Fresh] = score
			}
		})
		for i := range r.Dim * s.count {
			copy(r.Next[i*s.carry:][:2], r.Detail[i*s.detail+2:])
		}
		return
	}
	searched := r.Len() - s.searched(r)
	ages := make([][]uint32, r.Dim*s.count)
	for i := range ages {
		for _, age := range s.ages(r.Carry, i) {
			if age > 0 && int(age)+r.Fresh <= searched {
				ages[i] = append(ages[i], age+uint32(r.Fresh))
			}
		}
	}
	s.found(r, func(f detectors.Finding, length int) {
		if score := float32(f.Score); !(score <= r.Scores[f.Fresh]) {
			r.Scores[f.Fresh] = score
		}
		ages[length] = append(ages[length], uint32(r.Len()-f.From))
	})
	clear(r.Next)
	for i := range ages {
		last := r.Detail[i*s.detail+(s.top-1)*discordWords:]
		copy(r.Next[i*s.carry:], last[:2])
		if s.remembered > 0 {
			copy(r.Next[i*s.carry+2:][:s.remembered], ages[i][max(0, len(ages[i])-s.remembered):])
		}
	}
}

// write writes the discords of a length, found in the rows of X from `from` on, to the Detail.
func (s *settings) write(r *detectors.Rows, length, from int, found []Discord) {
	for rank := range s.kept {
		w := s.words(r.Detail, length, rank)
		if rank >= len(found) {
			w.SetInt64(0, int64(noDistance))
			w[2], w[3] = detectors.NoRow, detectors.NoRow
			continue
		}
		w.SetFloat64(0, found[rank].Distance)
		w[2], w[3] = uint32(from+found[rank].At), uint32(from+found[rank].Nearest)
	}
}

// header reads the first discordWords words of a length's range discords: their number, which may be more than are kept, a 0, and
// the radius, a float64, NaN without one.
func (s *settings) header(detail detectors.Words, length int) (count int, radius float64) {
	w := detail[length*s.detail:]
	return int(w[0]), w.Float64(2)
}

// writeRanged writes the range discords of a length, found in the rows of X from `from` on, to the Detail.
func (s *settings) writeRanged(r *detectors.Rows, length, from int, found Ranged) {
	w := r.Detail[length*s.detail:]
	w[0], w[1] = uint32(found.Count), 0
	w.SetInt64(2, int64(noDistance))
	if found.Radius == found.Radius {
		w.SetFloat64(2, found.Radius)
	}
	s.write(r, length, from, found.Found)
}

// noDistance is the distance's bits for a missing discord.
const noDistance = 0x7ff8_0000_0000_0000

// column copies the searched values of column c.
func (s *settings) column(r *detectors.Rows, c int) (x []float64, from int) {
	from = s.searched(r)
	for i := from; i < r.Len(); i++ {
		x = append(x, r.X64[i*r.Dim+c])
	}
	return x, from
}

func scoreTop(r detectors.Rows) {
	s := settingsFor(&r)
	for c := range r.Dim {
		x, from := s.column(&r, c)
		if s.radius != 0 {
			i := c * s.count
			DefineRanges(x, s.ranged(), func(found Ranged) bool {
				s.writeRanged(&r, i, from, found)
				i++
				return true
			})
			continue
		}
		for i, m := range s.lengths.All() {
			s.write(&r, c*s.count+i, from, Define(x, m, s.options(m)).Top(m, s.top))
		}
	}
	s.setOutputs(&r)
}

func topCPU(ctx context.Context, r *detectors.Rows, parallel detectors.Parallel) {
	s := settingsFor(r)
	if topCost(r) < detectors.LongTask {
		parallel = detectors.Sequential
	}
	for c := range r.Dim {
		x, from := s.column(r, c)
		if s.radius != 0 {
			i := c * s.count
			Ranges(x, s.ranged(), parallel, func(found Ranged) bool {
				if ctx.Err() == nil {
					s.writeRanged(r, i, from, found)
				}
				i++
				return ctx.Err() == nil
			})
			if ctx.Err() != nil {
				return
			}
			continue
		}
		found := MERLIN(x, s.lengths, s.top, s.options, parallel)
		if ctx.Err() != nil {
			return
		}
		for i := range found {
			s.write(r, c*s.count+i, from, found[i])
		}
	}
	s.setOutputs(r)
}

func topCost(r *detectors.Rows) int {
	s := settingsOf(r.Params)
	n := r.Len() - s.searched(r)
	pairs := n * n / 2
	if s.k > 1 {
		pairs *= 8
	}
	lengths := s.count
	if s.k == 1 {
		lengths = 1 + s.count/16 // bounds find the others
	}
	return 1000 + r.Dim*(lengths*pairs+100*s.count*n)
}

// compareTop requires the definition's distance at each rank. It accepts any of several
// discords at about the same distance; discords of later ranks may then differ too, and must
// have the distance that the definition's profile has for them.
func compareTop(r *detectors.Rows, got, want detectors.Result) error {
	own := *r
	own.Detail = want.Detail
	s := settingsFor(&own)
	if len(got.Detail) != len(want.Detail) {
		return fmt.Errorf("discord: %d words of discords where the definition gives %d", len(got.Detail), len(want.Detail))
	}
	if len(got.Scores) != len(want.Scores) || len(got.Next) != len(want.Next) {
		return fmt.Errorf("discord: %d scores and a carry of %d words where the definition gives %d and %d", len(got.Scores), len(got.Next),
			len(want.Scores), len(want.Next))
	}
	var faults []error
	if s.radius != 0 {
		faults = s.compareRanged(r, got.Detail, want.Detail)
	}
	for i := 0; s.radius == 0 && i < r.Dim*s.count; i++ {
		m := s.lengths.Min + i%s.count*s.lengths.Step
		var profile *Profile // the definition's, once a discord is another
		for rank := range s.top {
			g, w := got.Detail[i*s.detail+rank*discordWords:], want.Detail[i*s.detail+rank*discordWords:]
			a, b := g.Float64(0), w.Float64(0)
			switch {
			case g[2] == w[2] && (g[2] == detectors.NoRow || near(a, b, m, s.k)):
				continue
			case profile == nil && (g[2] == detectors.NoRow || w[2] == detectors.NoRow || !near(a, b, m, s.k)):
				faults = append(faults, fmt.Errorf("discord: discord %d of length %d is %d at %v, the definition has %d at %v",
					rank+1, m, int32(g[2]), a, int32(w[2]), b))
			}
			if g[2] == detectors.NoRow {
				continue
			}
			x, from := s.column(r, i/s.count)
			if profile == nil {
				p := Define(x, m, s.options(m))
				profile = &p
			}
			if at := int(g[2]) - from; at < 0 || at >= len(profile.Distance) || !near(a, profile.Distance[at], m, s.k) {
				faults = append(faults, fmt.Errorf("discord: discord %d of length %d, %d at %v, is none", rank+1, m, int32(g[2]), a))
			}
		}
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	// Everything that follows from the discords is compared to the bit.
	own.Detail, own.Scores, own.Next = got.Detail, make([]float32, len(got.Scores)), make(detectors.Words, len(got.Next))
	s.setOutputs(&own)
	if !slices.Equal(own.Next, got.Next) {
		faults = append(faults, errors.New("discord: the carry does not follow from the discords"))
	}
	return errors.Join(append(faults, detectors.CompareScores(got.Scores, own.Scores, 0, 1e-6))...)
}

// FoundTop returns what a finished task has found of the first value of its rows, by length: the range discords, or the first ones with
// a NaN as radius.
func FoundTop(r *detectors.Rows) []Ranged {
	s := settingsFor(r)
	list := make([]Ranged, s.count)
	for i := range list {
		list[i] = s.read(r.Detail, i, 0)
	}
	return list
}

// read returns what the detail has of a length, with places from a row on.
func (s *settings) read(detail detectors.Words, length, from int) Ranged {
	m := s.lengths.Min + length%s.count*s.lengths.Step
	found := Ranged{Length: m, Radius: math.NaN()}
	for rank := range s.kept {
		w := s.words(detail, length, rank)
		if w[2] == detectors.NoRow {
			break
		}
		found.Found = append(found.Found, Discord{At: int(w[2]) - from, Length: m, Distance: w.Float64(0), Nearest: int(w[3]) - from})
	}
	found.Count = len(found.Found)
	if s.radius != 0 {
		found.Count, found.Radius = s.header(detail, length)
	}
	return found
}

// compareRanged compares the range discords of all lengths.
func (s *settings) compareRanged(r *detectors.Rows, got, want detectors.Words) (faults []error) {
	for i := range r.Dim * s.count {
		m := s.lengths.Min + i%s.count*s.lengths.Step
		x, from := s.column(r, i/s.count)
		define := func() Profile { return Define(x, m, s.options(m)) }
		if err := compareRanged(s.read(got, i, from), s.read(want, i, from), s.k, define); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

// compareRanged requires the definition's range discords with its distances. It accepts others of those at about the radius,
// or at about the distance of the last that is kept.
func compareRanged(got, want Ranged, k int, define func() Profile) error {
	m := want.Length
	none, noneWanted := math.IsNaN(got.Radius), math.IsNaN(want.Radius)
	if got.Length != m || none != noneWanted || !none && !near(got.Radius, want.Radius, m, k) {
		return fmt.Errorf("discord: the radius of length %d is %v, the definition has %v of %d", got.Length, got.Radius, want.Radius, m)
	}
	for i, d := range got.Found {
		if i > 0 && !(d.Distance <= got.Found[i-1].Distance) {
			return fmt.Errorf("discord: range discord %d of length %d is farther than the one before", i+1, m)
		}
	}
	differ, alike := false, len(got.Found) == len(want.Found) && got.Count == want.Count
	for i := 0; alike && i < len(got.Found); i++ {
		g, w := got.Found[i], want.Found[i]
		differ = differ || g.At != w.At || !near(g.Distance, w.Distance, m, k)
	}
	if alike && !differ {
		return nil
	}
	p, open := define(), 0
	for _, d := range p.Distance {
		if near(d, want.Radius, m, k) {
			open++
		}
	}
	if max(got.Count-want.Count, want.Count-got.Count) > open {
		return fmt.Errorf("discord: %d range discords of length %d, the definition has %d", got.Count, m, want.Count)
	}
	if kept := min(got.Count, len(want.Found)); len(got.Found) < kept {
		return fmt.Errorf("discord: %d range discords of length %d are listed, the definition lists %d", len(got.Found), m, kept)
	}
	least := want.Radius
	if n := len(want.Found); n > 0 && want.Count > n {
		least = want.Found[n-1].Distance
	}
	for _, pair := range [][2][]Discord{{got.Found, want.Found}, {want.Found, got.Found}} {
		has := map[int]bool{}
		for _, d := range pair[1] {
			has[d.At] = true
		}
		for _, d := range pair[0] {
			if d.At < 0 || d.At >= len(p.Distance) || !near(d.Distance, p.Distance[d.At], m, k) || !has[d.At] && !near(d.Distance, least, m, k) {
				return fmt.Errorf("discord: range discord %d of length %d at %v is in one result, and not in the other", d.At, m, d.Distance)
			}
		}
	}
	return nil
}

// near compares distances by 1e-6, and distances of subsequences that are nearly the
// same, whose roots would enlarge a rounding, as correlations.
func near(a, b float64, m, k int) bool {
	return math.Abs(a-b) <= 1e-6*float64(k) || math.Abs(Normalised(a, m, k)-Normalised(b, m, k)) <= 1e-9
}

func topCases(rng *rand.Rand) []detectors.Case {
	var cases []detectors.Case
	add := func(p TopParams, dim, extra int, fresh []int, values ...detectors.Signal) *detectors.Case {
		cases = append(cases, detectors.NewCase(fmt.Sprintf("%+v", p), detectors.Must(NewTop(p)), dim, extra, fresh, values...))
		return &cases[len(cases)-1]
	}
	flip := func() bool { return rng.IntN(2) == 0 }
	bits := func() int { return 32 << rng.IntN(2) }
	for _, s := range detectors.Signals(rng) {
		add(TopParams{Window: 90, MinLength: 3 + rng.IntN(4), MaxLength: 8 + rng.IntN(12), Step: 1 + rng.IntN(3), Top: 1 + rng.IntN(3),
			ExcludeFlat: flip(), Precision: bits()}, 1, rng.IntN(3), []int{1, 20, 90}, s)
		add(TopParams{Window: 100, Tumbling: true, MinLength: 10, MaxLength: 50, Step: 1 + rng.IntN(20), Top: 2,
			Exclusion: 1 + rng.IntN(4), K: 1 + rng.IntN(3), Precision: bits()}, 1, 0, []int{100, 7, 130}, s)
	}
	s := detectors.Signals(rng)
	rng.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
	add(TopParams{Window: 80, MinLength: 6, MaxLength: 9, Top: 2}, 3, 1, []int{9, 1}, s...)
	// The smallest; lengths up to half of a window; a window of one period; a discord twice.
	add(TopParams{Window: 6, MinLength: 3, Tumbling: true}, 1, 0, []int{6, 1, 5, 7}, detectors.Signals(rng)[0])
	add(TopParams{Window: 64, MinLength: 30, MaxLength: 32, Top: 3}, 1, 0, []int{16, 16}, detectors.Signals(rng)[1])
	add(TopParams{Window: 60, MinLength: 20, MaxLength: 30, Step: 10, Top: 2}, 1, 0, []int{30},
		detectors.Signal{Name: "one period", At: func(i, _ int) float64 { return math.Sin(float64(i) * 2 * math.Pi / 60) }})
	for _, k := range []int{1, 2} {
		add(TopParams{Window: 200, MinLength: 12, MaxLength: 20, Step: 4, Top: 3, K: k}, 1, 0, []int{100},
			detectors.Signal{Name: "a discord twice", At: func(i, _ int) float64 {
				if i%140 >= 40 && i%140 < 44 {
					return 3
				}
				return math.Sin(float64(i)*0.7) + 1e-3*rng.NormFloat64()
			}})
	}
	for _, precision := range []int{64, 32} {
		add(TopParams{Window: 160, MinLength: 12, MaxLength: 24, Step: 4, Top: 2, Precision: precision}, 1, 0, []int{40},
			detectors.Signal{Name: "a step by 1e9", At: func(i, n int) float64 {
				if i > n/2 {
					return 1e9 + 100*rng.NormFloat64()
				}
				return rng.NormFloat64()
			}})
	}
	for _, s := range detectors.Signals(rng) { // range discords, of a radius that some distances reach
		p := TopParams{Window: 90, MinLength: 4 + rng.IntN(4), MaxLength: 9 + rng.IntN(12), Step: 1 + rng.IntN(3), Top: 1 + rng.IntN(2),
			K: 1 + rng.IntN(4)/3, ExcludeFlat: flip(), Precision: bits(), Radius: 0.1 + 3.9*rng.Float64()}
		if flip() {
			p.Radius = Auto
		}
		add(p, 1, rng.IntN(3), []int{1, 20, 90}, s).CPU = true
	}
	// In windows that kernels take, of signals without jumps that are large against the rest, with which diagonals lose digits.
	even := detectors.Signals(rng)
	even = slices.DeleteFunc(even, func(s detectors.Signal) bool {
		return !slices.Contains([]string{"noise", "walk", "tones", "step", "level", "constant", "tied", "square", "one not a number"}, s.Name)
	})
	rng.Shuffle(len(even), func(i, j int) { even[i], even[j] = even[j], even[i] })
	for i, s := range even[:4] {
		p := TopParams{Window: 512 + rng.IntN(40), MinLength: 8 + rng.IntN(20), Top: 1 + rng.IntN(2), ExcludeFlat: flip(), Precision: bits(),
			Radius: Auto}
		p.MaxLength = p.MinLength + rng.IntN(4)
		if i%2 == 0 {
			p.Radius = (0.1 + 0.6*rng.Float64()) * math.Sqrt(2*float64(p.MinLength))
		}
		add(p, 1, rng.IntN(3), []int{1, 20}, s)
	}
	add(TopParams{Window: 100, MinLength: 40, MaxLength: 50, Radius: Auto, Tumbling: true}, 2, 0, []int{100, 120}, s...).CPU = true
	add(TopParams{Window: 512, MinLength: 32, MaxLength: 64, Step: 8}, 1, 0, []int{64}, detectors.Signals(rng)[0]).Bench = true
	return cases
}

// TopShapes are profiles of long series, of the lengths of SCAMP's own benchmark and
// of a meter's year, and windows of many keys.
func TopShapes() []detectors.Shape {
	profile := func(n, least, most int) detectors.Shape {
		return detectors.Shape{
			Name: fmt.Sprintf("N=%d m=%d to %d", n, least, most), Unit: "samples/s", Dim: 1, Fresh: n, Tasks: 1,
			Values: detectors.Values{detectors.WindowParam: n, detectors.TumblingParam: true, "MIN_LENGTH": least, "MAX_LENGTH": most,
				"LENGTH_STEP": 1},
		}
	}
	single := func(s detectors.Shape) detectors.Shape {
		s.Name += ", float32"
		s.Values["PRECISION"] = precisions[1]
		return s
	}
	windows := func(most, step int) detectors.Shape {
		const n, least = 2048, 64
		return detectors.Shape{
			Name: fmt.Sprintf("N=%d m=%d to %d by %d", n, least, most, step), Unit: "keys/s", Dim: 1, Fresh: 1, Tasks: 1 << 13,
			Values: detectors.Values{detectors.WindowParam: n, "MIN_LENGTH": least, "MAX_LENGTH": most, "LENGTH_STEP": step},
		}
	}
	return []detectors.Shape{
		profile(1_000_000, 512, 512), profile(10_000_000, 512, 512), profile(100_000, 512, 512), profile(35_040, 48, 672),
		single(profile(1_000_000, 512, 512)), single(profile(100_000, 512, 512)), single(profile(35_040, 48, 672)),
		windows(79, 1), windows(184, 8), windows(64, 1),
	}
}
