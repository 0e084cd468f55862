package suggest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"odradek/cmd/internal/config/settingsfile"
	"odradek/schemas"
)

// Event times are expected from 2000 on, and up to two days after Kafka's timestamp, or this century if Kafka has none.
var (
	firstTime = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	lastTime  = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
)

// units are the units of numbers, as time_unit has them.
var units = []string{"s", "ms", "us", "ns"}

func expected(micros, timestamp int64) bool {
	last := lastTime
	if timestamp > 0 {
		last = timestamp*1000 + (48 * time.Hour).Microseconds()
	}
	return micros >= firstTime && micros <= last
}

// timeOf returns the time that a value means if it can be one of a record with Kafka's timestamp; unit is "" where the
// value itself decides.
func timeOf(l *schemas.Leaf, timestamp int64) (micros int64, unit string, ok bool) {
	return timeBy(l, timestamp, new(schemas.TimeText))
}

// timeBy is timeOf with a reader of texts.
func timeBy(l *schemas.Leaf, timestamp int64, texts *schemas.TimeText) (micros int64, unit string, ok bool) {
	switch l.Kind {
	case schemas.LeafTime:
		return l.Int, "", expected(l.Int, timestamp)
	case schemas.LeafText:
		if len(l.Text) < len("20060102150405") {
			return 0, "", false
		}
		t, fault := texts.Micros([]byte(l.Text))
		return t, "", fault == schemas.FaultNone && expected(t, timestamp)
	case schemas.LeafInt, schemas.LeafFloat:
		for _, unit := range units {
			if t, ok := inUnit(l.Kind, l.Int, l.Float, unit); ok && expected(t, timestamp) {
				return t, unit, true
			}
		}
	}
	return 0, "", false
}

// inUnit converts a number as the worker does.
func inUnit(kind schemas.LeafKind, i int64, f float64, unit string) (micros int64, ok bool) {
	clock := schemas.ClockIn(unit)
	if kind == schemas.LeafInt {
		return clock.Micros(i)
	}
	return clock.MicrosOf(f)
}

// moments are a field read as the event time.
type moments struct {
	field  *field
	unit   string // "" where its type or text decides
	kind   schemas.LeafKind
	micros []int64 // by point, schemas.NoTime where there is none
	good   int     // that can be event times
	rising float64 // share of pairs of points far from each other whose times rise
	delay  int64   // of Kafka's timestamp after the time, in the middle
	score  float64

	zone, layout string // of texts without an offset; "": none is needed, or they are given
	unsure       bool   // nothing tells the zone
}

// momentsOf reads a field as the event time; nil if it is none.
func (m *mapping) momentsOf(f *field) *moments {
	if f.timed {
		return f.moments
	}
	for _, by := range m.readers(f) {
		if f.moments = m.momentsBy(f, by); f.moments != nil || f.kinds(len(m.t.points))[schemas.LeafText] == 0 {
			break
		}
	}
	f.timed = true
	return f.moments
}

// momentsBy is momentsOf with a reader of texts.
func (m *mapping) momentsBy(f *field, by textReader) *moments {
	n := len(m.t.points)
	k := f.kinds(n)
	c := &moments{field: f, micros: make([]int64, n), zone: by.zone, layout: by.layout}
	for _, kind := range []schemas.LeafKind{schemas.LeafTime, schemas.LeafText, schemas.LeafInt, schemas.LeafFloat} {
		if k[kind] > k[c.kind] || c.kind == schemas.LeafNull && k[kind] > 0 {
			c.kind = kind
		}
	}
	if c.kind == schemas.LeafInt && k[schemas.LeafFloat] > 0 {
		c.kind = schemas.LeafFloat
	}
	votes := map[string]int{}
	var delays []int64
	for i := range n {
		cell, r := f.at(i), m.t.points[i].raw
		leaf := schemas.Leaf{Kind: cell.kind, Int: cell.int, Float: cell.float}
		if cell.kind == schemas.LeafText {
			leaf.Text = f.texts[cell.text]
		}
		var ok bool
		var unit string
		if c.micros[i], unit, ok = timeBy(&leaf, r.timestamp, by.texts); !ok {
			c.micros[i] = schemas.NoTime
			continue
		}
		c.good++
		votes[unit]++
		if r.timestamp > 0 {
			delays = append(delays, r.timestamp*1000-c.micros[i])
		}
	}
	if c.good < n*9/10 || c.good == 0 {
		return nil
	}
	for _, unit := range sortedKeys(votes) {
		if votes[unit] > votes[c.unit] || c.unit == "" && votes[""] == 0 {
			c.unit = unit
		}
	}
	if votes[c.unit] < c.good*95/100 {
		return nil
	}
	c.delay = median(delays)
	c.zoned(delays)
	up, down := 0, 0
	for _, run := range m.runs() {
		lag := max(1, len(run)/4)
		for i := lag; i < len(run); i++ {
			switch a, b := c.micros[run[i-lag]], c.micros[run[i]]; {
			case a == schemas.NoTime || b == schemas.NoTime:
			case b > a:
				up++
			case b < a:
				down++
			}
		}
	}
	if up+down > 0 {
		c.rising = float64(up) / float64(up+down)
	}
	if n >= 8 && c.rising < 0.85 {
		return nil // such as the date of an installation
	}
	return c
}

// runs returns the points of each partition, in their order.
func (m *mapping) runs() (list [][]int) {
	runOf := map[int]int{}
	for i := range m.t.points {
		p := m.t.points[i].partition
		at, ok := runOf[p]
		if !ok {
			at = len(list)
			runOf[p] = at
			list = append(list, nil)
		}
		list[at] = append(list[at], i)
	}
	return list
}

// chooseTime says which field has the event time.
func (m *mapping) chooseTime() error {
	var list []*moments
	for _, f := range m.t.fields {
		if c := m.momentsOf(f); c != nil {
			list = append(list, c)
		}
	}
	home, shared := m.home()
	for _, c := range list {
		c.score = float64(hint(c.field.path, timeWords, lateWords))
		if c.kind == schemas.LeafTime {
			c.score += 0.5
		}
		if m.readings != "" && c.field.item {
			c.score += 3
		}
		if own := parent(c.field.path); own == home || shared && (own == "" || strings.HasPrefix(home, own+".")) {
			c.score++
		}
		earlier := 0
		for _, o := range list {
			if o != c && c.delay > o.delay {
				earlier++
			}
		}
		if len(list) > 1 {
			c.score += 0.5 * float64(earlier) / float64(len(list)-1)
		}
	}
	slices.SortStableFunc(list, func(a, b *moments) int { return cmp.Compare(b.score, a.score) })
	for _, c := range list {
		if given, ok := m.s.given["time_field"]; ok && given.Value == c.field.path {
			list = slices.Insert(slices.DeleteFunc(list, func(o *moments) bool { return o == c }), 0, c)
			break
		}
	}
	if given, ok := m.s.given["time_field"]; ok && (len(list) == 0 || list[0].field.path != given.Value) {
		list = nil
	}
	if len(list) == 0 {
		m.settings = append(m.settings, settingsfile.Setting{Key: "time_field", Value: "@timestamp",
			Comment: "No field is a time that advances, so Kafka's timestamp of the record is the event time."})
		m.times = nil
	} else {
		m.putTime(list)
	}
	m.sortPoints()
	return nil
}

// sortPoints orders the points by segment and time.
func (m *mapping) sortPoints() {
	m.order = make([]int, len(m.t.points))
	for i := range m.order {
		m.order[i] = i
	}
	slices.SortStableFunc(m.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(m.t.points[a].segment, m.t.points[b].segment), cmp.Compare(m.timeAt(a), m.timeAt(b)))
	})
}

// timeAt returns the time of a point.
func (m *mapping) timeAt(i int) int64 {
	if m.times == nil || m.times[i] == schemas.NoTime {
		return m.t.points[i].raw.timestamp * 1000
	}
	return m.times[i]
}

// putTime writes the choice of the first of a list.
func (m *mapping) putTime(list []*moments) {
	c := list[0]
	m.times = c.micros
	first, last := int64(0), int64(0)
	ahead, furthest := 0, int64(0)
	var delays []int64
	for i, t := range c.micros {
		if t == schemas.NoTime {
			continue
		}
		if first == 0 || t < first {
			first = t
		}
		last = max(last, t)
		if ts := m.t.points[i].raw.timestamp * 1000; ts > 0 {
			delays = append(delays, ts-t)
			if by := t - ts; by > m.c.Given.Keys.MaxFuture.Microseconds() {
				ahead++
				furthest = max(furthest, by)
			}
		}
	}
	stamp := func(t int64) string { return time.UnixMicro(t).UTC().Format("2006-01-02T15:04:05Z") }
	what := map[schemas.LeafKind]string{schemas.LeafTime: "times by their type", schemas.LeafText: c.textual(),
		schemas.LeafInt: "whole numbers in " + c.unit, schemas.LeafFloat: "numbers with a fraction in " + c.unit}[c.kind]
	comment := fmt.Sprintf("%s of %s have %s here, of %s to %s.", count(c.good, ""), count(len(c.micros), m.noun()), what, stamp(first),
		stamp(last))
	if len(delays) > 0 {
		middle := median(delays)
		low, high := delays[len(delays)/20], delays[len(delays)-1-len(delays)/20]
		side := "after"
		if middle < 0 {
			middle, side = -middle, "before"
		}
		comment += fmt.Sprintf(" Kafka's timestamp is %s %s it in the middle (9 of 10 between %s and %s).", span(middle), side, span(low),
			span(high))
	}
	if c.good < len(c.micros) {
		comment += fmt.Sprintf(" %s have none.", share(len(c.micros)-c.good, len(c.micros)))
	}
	m.settings = append(m.settings, settingsfile.Setting{Key: "time_field", Value: c.field.path, Comment: comment})
	if len(list) > 1 {
		other := list[1]
		comment := fmt.Sprintf("It could also be %s, which is a time, too", other.field.path)
		if by := c.delay - other.delay; by != 0 {
			comment += fmt.Sprintf(", %s later in the middle", span(by))
		}
		if c.score-other.score < 0.75 {
			comment = "Not certain. " + comment
		}
		for _, o := range list[2:] {
			comment += ", or " + o.field.path
		}
		m.settings = append(m.settings, settingsfile.Setting{Key: "time_field", Value: other.field.path, Off: true, Comment: comment + "."})
	}
	m.putZone(c)
	if c.unit != "" {
		m.settings = append(m.settings, settingsfile.Setting{Key: "time_unit", Value: c.unit,
			Comment: fmt.Sprintf("In %s the numbers are times since 2000 and not after Kafka's; in no other unit.", c.unit)})
	}
	if ahead > 0 {
		m.s.head = append(m.s.head, fmt.Sprintf("%s of %s have an event time more than %v ahead of Kafka's timestamp, by up to %s: they "+
			"would be dead letters. Correct the producer's clock, or set max_future.", share(ahead, len(c.micros)), m.noun()+"s",
			m.c.Given.Keys.MaxFuture, span(furthest)))
	}
}

// textual says what the texts of the times are.
func (m *moments) textual() string {
	if m.zone != "" {
		return "texts without an offset"
	}
	return "texts in RFC 3339"
}

// noun returns what a point is.
func (m *mapping) noun() string {
	if m.readings != "" {
		return "reading"
	}
	return "record"
}

// home returns the path of the object that most numbers with a fraction are in; shared: each is in one of its own, and the path is of
// the object that all of these are in.
func (m *mapping) home() (path string, shared bool) {
	votes := map[string]int{}
	best, all, common := 0, 0, ""
	for _, f := range m.t.fields {
		if k := f.kinds(len(m.t.points)); k[schemas.LeafFloat] > 0 && m.momentsOf(f) == nil {
			p := parent(f.path)
			if all++; all == 1 {
				common = p
			}
			for common != "" && p != common && !strings.HasPrefix(p, common+".") {
				common = parent(common)
			}
			if votes[p]++; votes[p] > best {
				best, path = votes[p], p
			}
		}
	}
	if best == 1 && all > 1 {
		return common, true
	}
	return path, false
}
