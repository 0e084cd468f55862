package why

import (
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// text returns a series key for people, as the anomalies topic has it.
func text(key []byte) string {
	if !utf8.Valid(key) {
		return "0x" + hex.EncodeToString(key)
	}
	return plain(string(key))
}

// plain replaces the control characters of a text, which a terminal would obey.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// number writes a number of at most 10 digits whole, as readings are, and another one in a few digits.
func number(n Number) string {
	v := float64(n)
	switch a := math.Abs(v); {
	case v != v:
		return "-"
	case v == math.Trunc(v) && a < 1e9:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case len(strings.TrimLeft(strings.NewReplacer("-", "", ".", "").Replace(strconv.FormatFloat(v, 'f', -1, 64)), "0")) <= 10 && a >= 1e-4:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case a >= 1e7 || a < 1e-4:
		return strconv.FormatFloat(v, 'e', 3, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// exact writes a score with all of its digits.
func exact(n Number) string {
	if !n.known() {
		return "-"
	}
	return strconv.FormatFloat(float64(n), 'g', -1, 32)
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.999999") }

func (inp *Input) place() string {
	switch {
	case inp.First == nil && inp.Last == nil && inp.To < 0:
		return fmt.Sprintf("number %d of the set", inp.Number)
	case inp.First == nil:
		return "begins before what was read, to " + moment(inp.Last.Time)
	case inp.Last == nil || inp.From == inp.To:
		return moment(inp.First.Time)
	}
	return moment(inp.First.Time) + " to " + moment(inp.Last.Time)
}

func (inp *Input) offsets() string {
	switch {
	case inp.Last == nil:
		return "-"
	case inp.First == nil:
		return fmt.Sprintf("to %d", inp.Last.Offset)
	case inp.From == inp.To:
		return strconv.FormatInt(inp.First.Offset, 10)
	}
	return fmt.Sprintf("%d to %d", inp.First.Offset, inp.Last.Offset)
}

// verdict describes how the recomputed score compares with the published one.
func (r *Report) verdict() string {
	switch r.Verdict {
	case Equal:
		return "equal to the published one, bit for bit"
	case Within:
		return "within the op's tolerance of the published one"
	case Differ:
		return "not the published one"
	}
	return "not recomputed"
}

// summary is a headline.
func (a *Anomaly) summary() string {
	return fmt.Sprintf("%s of series %s: %s, severity %d", a.Detector, a.Series, a.Band, a.Severity)
}

// state describes how the anomaly ended, if it did.
func (a *Anomaly) state() string {
	if a.Kind == "close" {
		return "closed, " + strings.ReplaceAll(a.Reason, "_", " ")
	}
	return "open, as far as its records say"
}

// facts are the lines about the anomaly and its score.
func (r *Report) facts() [][2]string {
	a := &r.Anomaly
	opened := "its first record is gone"
	if a.OpenedOffset >= 0 {
		opened = fmt.Sprintf("offset %d", a.OpenedOffset)
	}
	lines := [][2]string{
		{"anomaly", fmt.Sprintf("%s, revision %d, %s", a.ID, a.Revision, a.state())},
		{"what", a.summary()},
		{"summary", plain(a.Summary)},
		{"time", fmt.Sprintf("%s to %s, peak at %s, opened by the sample of %s", moment(a.Start), moment(a.End), moment(a.PeakTime), moment(a.OpenedAt))},
		{"source", fmt.Sprintf("%s/%d: opened at %s, last change at offset %d; samples over the threshold: %d", plain(a.Topic), a.Partition, opened,
			a.LastOffset, a.Samples)},
	}
	if a.Recurs != "" {
		lines = append(lines, [2]string{"recurs", plain(a.Recurs)})
	}
	if a.Escalated != nil {
		lines = append(lines, [2]string{"severe", fmt.Sprintf("%s since %s", a.Band, moment(*a.Escalated))})
	}
	if g := a.Region; g != nil {
		c := g.Corners
		lines = append(lines, [2]string{"region", fmt.Sprintf("columns %d to %d, rows %d to %d: x %s to %s, y %s to %s; %d observed, %s expected",
			g.Columns[0], g.Columns[1], g.Rows[0], g.Rows[1], number(c[0]), number(c[2]), number(c[1]), number(c[3]), g.Observed,
			number(g.Expected))})
	}
	if a.Settings != "" {
		lines = append(lines, [2]string{"detector", fmt.Sprintf("%s: %s", a.Detector, a.Settings)})
	}
	lines = append(lines, [2]string{"score", fmt.Sprintf("%s published; %s recomputed: %s", exact(a.PeakScore), exact(r.Score), r.verdict())})
	if a.Threshold.known() {
		line := exact(a.Threshold) + " then"
		if r.Threshold.known() {
			line += fmt.Sprintf("; %s recomputed", exact(r.Threshold))
		}
		if a.Rank > 0 {
			line += fmt.Sprintf("; about %s earlier scores is as high", oneIn(a.Rank))
		}
		lines = append(lines, [2]string{"threshold", line})
		if r.Origin != "" {
			lines = append(lines, [2]string{"", r.Origin})
		}
	}
	if r.Reproduced {
		lines = append(lines, [2]string{"", "the records that were read open this anomaly, with the same id"})
	}
	if r.Read.Records > 0 {
		lines = append(lines, [2]string{"read", fmt.Sprintf("offsets %d to %d, %d records of %s, %d samples of the series",
			r.Read.From, r.Read.Until-1, r.Read.Records, size(r.Read.Bytes), r.Read.Samples)})
	}
	for i, n := range r.Notes {
		name := ""
		if i == 0 {
			name = "note"
		}
		lines = append(lines, [2]string{name, plain(n)})
	}
	return lines
}

// oneIn says a rank: 0.001 is 1 in 1000.
func oneIn(rank Number) string {
	scores := 1 / float64(rank)
	for _, u := range []struct {
		least float64
		name  string
	}{{1e9, "billion"}, {1e6, "million"}} {
		if scores >= u.least {
			return fmt.Sprintf("1 in %.3g %s", scores/u.least, u.name)
		}
	}
	return fmt.Sprintf("1 in %.0f", scores)
}

func share(n Number) string {
	if !n.known() {
		return "-"
	}
	return strconv.FormatFloat(100*float64(n), 'g', 4, 64) + " %"
}

func size(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// table is a named table of an explanation.
type table struct {
	Title string
	Head  []string
	Rows  [][]string
}

// mostRows bounds the rows of a table for people; JSON has all.
const mostRows = 40

// tables returns an explanation as tables for people.
func (e *Explanation) tables() (all []table) {
	add := func(title string, head []string, rows [][]string) {
		if len(rows) > mostRows {
			title += fmt.Sprintf(" (%d of %d; -json has all)", mostRows, len(rows))
			rows = rows[:mostRows]
		}
		if len(rows) > 0 {
			all = append(all, table{title, head, rows})
		}
	}
	var rows [][]string
	for _, m := range e.Members {
		name := m.Detector
		if m.TurnedAway {
			name += " (turned away: ONLY_WITH)"
		}
		rows = append(rows, []string{name, number(m.Score), number(m.Term), share(m.Share)})
	}
	if e.any {
		add("members: the score is the highest of score / threshold", []string{"member", "score", "score / threshold", "share"}, rows)
	} else {
		what := "sum of the terms"
		if e.max {
			what = "highest term"
		}
		add("members: the score is the "+what+", log(score / mean of the scores before)", []string{"member", "score", "term", "share"}, rows)
	}
	rows = nil
	get := func(list []Number, i int) Number {
		if i < len(list) {
			return list[i]
		}
		return none
	}
	if len(e.Members) == 0 {
		for i, f := range e.Fields {
			if len(e.Actual) == 0 && len(e.Expected) == 0 && len(e.Contribution) == 0 {
				break
			}
			row := []string{f, number(get(e.Actual, i)), number(get(e.Expected, i)), share(get(e.Contribution, i))}
			if e.Units != nil {
				row = slices.Insert(row, 1, e.Units[i])
			}
			rows = append(rows, row)
		}
	}
	head := []string{"field", "measured", "expected", "share"}
	if e.Units != nil {
		head = slices.Insert(head, 1, "unit")
	}
	heading := "values of the sample"
	if e.Reading != nil {
		heading = "values of the sample that deviates most, " + moment(*e.Reading)
	}
	add(heading, head, rows)
	rows = nil
	for _, m := range e.Measures {
		rows = append(rows, []string{m.Name, m.Field, number(m.Value)})
	}
	add("measures", []string{"measure", "field", "value"}, rows)
	rows = nil
	for i := range e.Inputs {
		p := &e.Inputs[i]
		rows = append(rows, []string{p.Role, p.place(), p.offsets(), number(p.Distance)})
	}
	add("compared with", []string{"what", "time", "offset", "distance"}, rows)
	rows = nil
	for i, d := range e.Directions {
		counts := "no"
		if d.Counts {
			counts = "yes"
		}
		rows = append(rows, []string{strconv.Itoa(i + 1), share(d.Strength), share(d.Weight), counts})
	}
	add("directions of the past", []string{"direction", "of the past's energy", "of the present", "counts"}, rows)
	add("where the present differs most from the past", []string{"time", "offset", "share"}, e.topRows())
	rows = nil
	for _, r := range e.Regions {
		rows = append(rows, []string{fmt.Sprintf("%d to %d", r.Columns[0], r.Columns[1]), fmt.Sprintf("%d to %d", r.Rows[0], r.Rows[1]),
			strconv.FormatInt(r.Observed, 10), number(r.Expected), number(r.Ratio), number(r.P)})
	}
	add("regions of the grid", []string{"columns", "rows", "observed", "expected", "log-likelihood ratio", "p"}, rows)
	return all
}

// topRows are the samples with the largest shares.
func (e *Explanation) topRows() (rows [][]string) {
	order := make([]int, len(e.Rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case e.Rows[a] > e.Rows[b]:
			return -1
		case e.Rows[a] < e.Rows[b]:
			return 1
		}
		return 0
	})
	for _, i := range order[:min(5, len(order))] {
		if k := e.RowsFrom + i; k >= 0 && k < len(e.Window) {
			rows = append(rows, []string{moment(e.Window[k].Time), strconv.FormatInt(e.Window[k].Offset, 10), share(e.Rows[i])})
		}
	}
	return rows
}

// title is the headline of an explanation.
func (e *Explanation) title() string {
	scored := "the sample"
	if e.Cells != nil && len(e.Window) == 0 {
		scored = "the grid's window until the record"
	}
	line := fmt.Sprintf("%s (%s): score %s of %s at offset %d, %s", e.Detector, e.Op, number(e.Score), scored, e.Sample.Offset,
		moment(e.Sample.Time))
	if e.Judged.known() && e.Judged != e.Score {
		line += fmt.Sprintf("; judged by the mean of the last, %s", number(e.Judged))
	}
	return line
}

// about describes the window of an explanation.
func (e *Explanation) about() string {
	if len(e.Window) == 0 {
		return ""
	}
	first, last := &e.Window[0], &e.Window[len(e.Window)-1]
	line := fmt.Sprintf("window: %d samples, offsets %d to %d, %s to %s", len(e.Window), first.Offset, last.Offset, moment(first.Time),
		moment(last.Time))
	if i, j := e.Scored[0], e.Scored[1]; i >= 0 && j < len(e.Window) && i <= j {
		if line += fmt.Sprintf("; the score is about %d of them, %s", j-i+1, moment(e.Window[i].Time)); i < j {
			line += " to " + moment(e.Window[j].Time)
		}
	}
	return line
}

// lines describes a silence.
func (s *Silence) lines() []string {
	last, next, usual := "was not read", "was not read", ""
	if s.Last != nil {
		last = fmt.Sprintf("%s, offset %d", moment(s.Last.Time), s.Last.Offset)
	}
	if s.Next != nil {
		next = fmt.Sprintf("%s, offset %d", moment(s.Next.Time), s.Next.Offset)
	}
	if s.Usual > 0 {
		usual = fmt.Sprintf("; its samples are %v apart (median)", s.Usual)
	}
	opened := "a sample that was not read"
	if !s.OpenedBy.Time.IsZero() {
		opened = fmt.Sprintf("the sample at offset %d", s.OpenedBy.Offset)
	}
	return []string{
		fmt.Sprintf("the series is silent when its last sample is %v behind the partition's watermark (ODRADEK_SILENCE)%s", s.Limit, usual),
		"sample before: " + last,
		fmt.Sprintf("silent at watermark %s, to which %s moved it", moment(s.Watermark), opened),
		"sample after: " + next,
	}
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, l := range r.facts() {
		fmt.Fprintf(tw, "%s\t%s\n", l[0], l[1])
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("why: %w", err)
	}
	if r.Silence != nil {
		fmt.Fprintln(w)
		for _, l := range r.Silence.lines() {
			fmt.Fprintln(w, l)
		}
	}
	if r.Explanation != nil {
		r.Explanation.write(w)
	}
	return nil
}

func (e *Explanation) write(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n", e.title())
	if about := e.about(); about != "" {
		fmt.Fprintln(w, about)
	}
	for _, t := range e.tables() {
		fmt.Fprintf(w, "  %s\n", t.Title)
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintf(tw, "    %s\n", strings.Join(t.Head, "\t"))
		for _, row := range t.Rows {
			fmt.Fprintf(tw, "    %s\n", plainCells(row))
		}
		tw.Flush()
	}
	for i := range e.Members {
		if member := e.Members[i].Of; member != nil {
			member.write(w)
		}
	}
}

func plainCells(row []string) string {
	cells := make([]string, len(row))
	for i, c := range row {
		cells[i] = plain(c)
	}
	return strings.Join(cells, "\t")
}
