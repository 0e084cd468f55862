package suggest

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/config/settingsfile"
	"odradek/schemas"
)

// role is what a field of numbers is.
type role uint8

const (
	moves       role = iota // a value
	constantIn              // the same all the time, or in each series
	counter                 // only grows
	rate                    // only grows, at rates that differ: its increase is a value
	identifier              // another in nearly each record
	enumeration             // few whole numbers, or true and false
	otherTime               // a time
	seldom                  // nearly never there
)

var roleTexts = map[role]string{constantIn: "does not change", counter: "only grows", identifier: "is another in each record, like an id",
	enumeration: "has few whole values", otherTime: "is a time", seldom: "is hardly ever there"}

// numeric is a field of numbers and what it is.
type numeric struct {
	field    *field
	role     role
	n        int // points that have it
	distinct int
	scale    float64   // the middle half of its values, in width; of a rate, of its increases per second
	absent   []float64 // numbers that stand for no reading
	text     string
}

const (
	fewValues  = 8  // whole numbers that may be an enumeration
	manySeries = 64 // series that a field is judged by
	wideFrom   = 4  // values of a record from which each is a series of its own
)

// moves reports whether the field is a value, or its increase is.
func (n *numeric) moves() bool { return n.role == moves || n.role == rate }

// numerics says what each field of numbers is.
func (m *mapping) numerics() (list []*numeric) {
	n := len(m.t.points)
	for _, f := range m.t.fields {
		k := f.kinds(n)
		numbers := k[schemas.LeafInt] + k[schemas.LeafFloat] + k[schemas.LeafBool]
		if numbers == 0 {
			continue
		}
		c := &numeric{field: f, n: numbers}
		list = append(list, c)
		switch {
		case m.momentsOf(f) != nil || m.seldomTime(f) || m.besideTime(f):
			c.role = otherTime
		case numbers < max(2, n/100):
			c.role = seldom
		default:
			m.judge(c, 2*k[schemas.LeafBool] > numbers) // else they are items of another type between numbers
		}
		c.text = roleTexts[c.role]
		if c.role == enumeration {
			c.text = fmt.Sprintf("has %s", count(c.distinct, "whole value"))
			if 2*k[schemas.LeafBool] > numbers {
				c.text = "is true or false"
			}
		}
	}
	return list
}

// seldomTime reports whether the numbers of a field are times, though they do not advance with the records or are not in most of
// them, such as the time of the last service. A number of seconds may as well be a value; it is a time only by its name.
func (m *mapping) seldomTime(f *field) bool {
	votes := map[string]int{}
	n := 0
	named := hint(f.path, timeWords, nil) > 0 || hint(f.path, lateWords, nil) > 0
	for i := range m.t.points {
		cell := f.at(i)
		if !cell.number() {
			continue
		}
		n++
		leaf := schemas.Leaf{Kind: cell.kind, Int: cell.int, Float: cell.float}
		if _, unit, ok := timeOf(&leaf, m.t.points[i].raw.timestamp); ok && (named || unit != "s") {
			votes[unit]++
		}
	}
	for _, k := range votes {
		if k >= n*95/100 {
			return true
		}
	}
	return false
}

// besideTime reports whether a field is beside the event time in an object of its own, such as its nanoseconds.
func (m *mapping) besideTime(f *field) bool {
	home := parent(f.path)
	return home != "" && home == parent(m.chosen("time_field")) && hint(home, words("time timestamp ts date datetime"), nil) > 0
}

// chosen returns the setting of a key that was chosen; "": there is none.
func (m *mapping) chosen(key string) string {
	for _, set := range m.settings {
		if set.Key == key && !set.Off {
			return set.Value
		}
	}
	return ""
}

// copied returns the object that has a field of the series key, where the object of a field has the same ones: of a row before its
// change and after it, one is read.
func (m *mapping) copied(f *field) (object string) {
	own := parent(f.path)
	for _, path := range strings.Split(m.chosen("key_field"), "+") {
		home := parent(path)
		if home != own && home != "" && parent(home) == parent(own) && m.t.index[own+strings.TrimPrefix(path, home)] != nil &&
			m.t.index[home+strings.TrimPrefix(f.path, own)] != nil {
			return home
		}
	}
	return ""
}

// judge tells values from counters, identifiers and the like, by how the field changes within series.
func (m *mapping) judge(c *numeric, boolean bool) {
	type place struct {
		last    float64
		at      int64
		n       int
		changed int
	}
	bySeries := map[int32]*place{}
	values := map[float64]int{}
	counts := func(x *cell) bool { return x.number() || boolean && x.kind == schemas.LeafBool }
	for _, i := range m.order {
		if cell := c.field.at(i); counts(cell) {
			values[cell.float]++
		}
	}
	c.absent = placeholders(values)
	for _, v := range c.absent {
		delete(values, v)
	}
	whole, moved := true, steps{}
	var rates []float64
	for _, i := range m.order {
		cell := c.field.at(i)
		v := cell.float
		if values[v] == 0 || !counts(cell) {
			continue
		}
		whole = whole && v == math.Trunc(v)
		p := bySeries[m.series[i]]
		if p == nil {
			p = &place{last: v}
			bySeries[m.series[i]] = p
		}
		at := m.timeAt(i)
		if p.n++; p.n > 1 {
			moved.add(p.last, v)
			if v != p.last {
				p.changed++
			}
			if v >= p.last && at > p.at {
				rates = append(rates, (v-p.last)/(float64(at-p.at)/1e6))
			}
		}
		p.last, p.at = v, at
	}
	c.distinct = len(values)
	changing := 0
	for _, p := range bySeries {
		if p.changed > 0 {
			changing++
		}
	}
	sorted := sortedKeys(values)
	c.scale = sorted[len(sorted)*3/4] - sorted[len(sorted)/4]
	idName := hint(c.field.path, words("id uuid seq sequence offset lsn xmin no nr number serial version"), nil) > 0
	switch {
	case c.distinct == 1 || moved.pairs > 0 && changing == 0:
		c.role = constantIn
	case boolean || whole && c.distinct <= fewValues && c.n >= 10*c.distinct:
		c.role = enumeration
	case moved.onlyUp():
		c.role = counter
		slices.Sort(rates)
		quarter := len(rates) / 4
		width := rates[len(rates)-1-quarter] - rates[quarter]
		if !idName && width > unsteady*rates[len(rates)/2] && (len(bySeries) < 2 || !rises(c.field, len(m.t.points))) {
			c.role, c.scale = rate, width
		}
	case whole && c.n >= 20 && c.distinct > c.n*9/10 && (idName || c.scale > 1e6*float64(c.n)):
		c.role = identifier
	default:
		c.role = moves
	}
}

// steps counts the pairs of numbers of series, one behind the other, and of these how many rise and how many fall.
type steps struct{ pairs, up, down int }

func (s *steps) add(last, v float64) {
	s.pairs++
	switch {
	case v > last:
		s.up++
	case v < last:
		s.down++
	}
}

// onlyUp reports whether the numbers are a counter's.
func (s *steps) onlyUp() bool {
	return s.up > s.pairs/5 && (s.pairs >= 20 && s.down == 0 || s.pairs >= 200 && s.down <= s.pairs/500)
}

// unsteady is the least width of the middle half of a counter's increases per second, in medians: a clock's is less.
const unsteady = 0.05

// placeholders returns the numbers that stand for no reading, of the numbers of values: of the usual ones those that are there more than
// once, further from all other values than these are from each other.
func placeholders(values map[float64]int) (list []float64) {
	low, high := math.Inf(1), math.Inf(-1)
	for v := range values {
		if !placeholder(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	for _, v := range sortedKeys(values) {
		if placeholder(v) && values[v] > 1 && max(low-v, v-high) > high-low && high > low {
			list = append(list, v)
		}
	}
	return list
}

// placeholder reports whether programs write a number for a reading that they do not have: only nines, or the largest or smallest
// number of a register of 16 or 32 bits, also in tenths and hundredths.
func placeholder(v float64) bool {
	for _, unit := range []float64{1, 10, 100} {
		switch x := math.Round(v * unit); {
		case x/unit != v:
		case x == math.MaxUint16, x == math.MaxInt16, x == math.MinInt16, x == math.MaxInt32, x == math.MinInt32, x == math.MaxUint32:
			return true
		case unit == 1 && math.Abs(x) >= 999 && strings.Trim(strconv.FormatFloat(math.Abs(x), 'f', -1, 64), "9") == "":
			return true
		}
	}
	return false
}

// chooseValues says which fields are the values.
func (m *mapping) chooseValues() error {
	all := m.numerics()
	var moving []*numeric
	var left, slashed []string
	seen := map[string]bool{}
	for _, c := range all {
		switch {
		case c.moves() && m.readings != "" && !c.field.item:
			left = append(left, c.field.path+" (of the record, not of a reading)")
		case c.moves() && m.copied(c.field) != "":
			left = append(left, fmt.Sprintf("%s (%s has it, too)", c.field.path, m.copied(c.field)))
		case c.moves() && strings.Contains(c.field.path, "/"):
			slashed = append(slashed, c.field.path)
			moving = append(moving, c)
		case c.moves():
			moving = append(moving, c)
		default:
			left = append(left, c.field.path+" ("+c.text+")")
		}
	}
	if len(moving) == 0 {
		if m.countEvents(all) {
			m.putOnlyIf("", "", true)
			return m.putRekey()
		}
		return m.givenValues(left)
	}
	var paths []string
	for _, c := range moving {
		m.ranges = append(m.ranges, c.scale)
		if !seen[c.field.whole] {
			seen[c.field.whole] = true
			paths = append(paths, c.field.whole)
		}
	}
	complete := 0
	for i := range m.t.points {
		if !slices.ContainsFunc(moving, func(c *numeric) bool { return !c.field.at(i).number() }) {
			complete++
		}
	}
	n := len(m.t.points)
	comment := fmt.Sprintf("%d of %s of numbers %s", len(moving), count(len(all), "field"),
		map[bool]string{true: "moves", false: "move"}[len(moving) == 1])
	if len(left) > 0 {
		comment += "; left out: " + strings.Join(left[:min(12, len(left))], ", ")
		if len(left) > 12 {
			comment += fmt.Sprintf(" and %d more", len(left)-12)
		}
	}
	comment += "."
	wide := len(moving) >= wideFrom || len(moving) > 1 && complete < n*9/10
	_, givenValues := m.s.given["value_fields"]
	_, givenSeries := m.s.given["series_fields"]
	if givenValues || len(slashed) > 0 || m.hasArrays(moving) {
		wide = false
	}
	wide = wide || givenSeries
	together := settingsfile.Setting{Key: "value_fields", Value: strings.Join(paths, ","), List: true}
	each := settingsfile.Setting{Key: "series_fields", Value: strings.Join(paths, ","), List: true}
	present := fmt.Sprintf("%s of %s have all of them.", share(complete, n), count(n, m.noun()))
	if len(moving) == 1 && complete < n {
		present = fmt.Sprintf("%s of %s have it; the others count as missing.", share(complete, n), count(n, m.noun()))
	}
	if len(moving) == 1 && !givenValues && !givenSeries && m.putCounters(moving[0]) {
		m.putOnlyIf(m.quality())
		return m.putRekey()
	}
	switch {
	case wide && !givenSeries && comeAndGo(moving, n) && m.wildcard(moving) != "":
		field := m.wildcard(moving)
		path, _, _ := strings.Cut(field, ".*")
		each.Off, each.Comment = true, "Or those alone that move:"
		m.sensors, m.width = len(moving), 1
		m.settings = append(m.settings, settingsfile.Setting{Key: "series_fields", Value: field, List: true,
			Comment: comment + " " + present + fmt.Sprintf(" Records have different ones of the %s below %s, so each that comes is a series of "+
				"its own, with the key <key>/<field>, also those to come: now %s of one value.", count(len(moving), "field"), path,
				count(m.keys*len(paths), "series"))}, each)
	case wide:
		each.Comment = comment + " " + present + fmt.Sprintf(" Each field is a series of its own, with the key <key>/<field>: %s of one value.",
			count(m.keys*len(paths), "series"))
		together.Off, together.Comment = true, "Or one sample of all of them, for detectors that look at them together:"
		m.sensors, m.width = len(moving), 1
		m.settings = append(m.settings, each, together)
	default:
		together.Comment = comment + " " + present
		m.sensors, m.width = 1, len(moving)
		m.settings = append(m.settings, together)
		if len(moving) > 1 && len(slashed) == 0 {
			each.Off, each.Comment = true, "Or each a series of its own, if they have nothing to do with each other:"
			m.settings = append(m.settings, each)
		}
	}
	if given, ok := m.s.given["value_fields"]; ok {
		m.width = len(strings.Split(given.Value, ","))
	}
	m.putTexts(moving)
	m.putSteps(moving)
	m.putOnlyIf(m.quality())
	return m.putRekey()
}

// comeAndGo reports whether values are in less than nine tenths of n points, in the mean. A null now and then is less.
func comeAndGo(moving []*numeric, n int) bool {
	there := 0
	for _, c := range moving {
		there += c.n
	}
	return there < n*len(moving)*9/10
}

// manyBelow is the number of values below one object from which on those that come and go are found by a wildcard.
const manyBelow = 9

// wildcard returns the field that stands for all values, if they are many below one object and more than half of the numbers that it
// stands for: metrics.*.value where each is the value of an object in metrics, else metrics.*; "": there is none.
func (m *mapping) wildcard(moving []*numeric) string {
	if len(moving) < manyBelow {
		return ""
	}
	path := parent(moving[0].field.path)
	for path != "" && slices.ContainsFunc(moving, func(c *numeric) bool { return !strings.HasPrefix(c.field.path, path+".") }) {
		path = parent(path)
	}
	if path == "" || strings.HasSuffix(path, `\`) || path == m.readings || // the record, or a dot in a name
		slices.ContainsFunc(moving, func(c *numeric) bool { return len(c.absent) > 0 }) { // MISSING_IF names fields
		return ""
	}
	// after returns what follows a name in the object; "": nothing.
	after := func(field string) string {
		_, rest, _ := strings.Cut(field[len(path)+1:], ".")
		return rest
	}
	rest := after(moving[0].field.path)
	if slices.ContainsFunc(moving, func(c *numeric) bool { return after(c.field.path) != rest || strings.Contains(c.field.path, `\`) }) {
		rest = ""
	}
	numbers := 0
	for _, f := range m.t.fields {
		k := f.kinds(len(m.t.points))
		if strings.HasPrefix(f.path, path+".") && k[schemas.LeafInt]+k[schemas.LeafFloat] > 0 && (rest == "" || after(f.path) == rest) {
			numbers++
		}
	}
	switch {
	case numbers > 2*len(moving):
		return ""
	case rest != "":
		return path + ".*." + rest
	}
	return path + ".*"
}

// Of readings that may be faults of the sensor, not of what it measures.
const (
	farthest   = 20  // they are farther from the others of their series than so many times the range of these
	fewestNear = 100 // others of the series
	mostWild   = 100 // at most one of so many readings of a field
)

// bounds returns the bounds of a field that leave out its wild readings, and which these are; "": there are none. The others of a series
// are its middle 98 %, and each next reading that is near enough to the others so far, so a heavy tail is not cut off.
func (m *mapping) bounds(c *numeric) (bounds, left string) {
	bySeries := map[int32][]float64{}
	n := 0
	for _, i := range m.order {
		if cell := c.field.at(i); cell.number() && !slices.Contains(c.absent, cell.float) {
			bySeries[m.series[i]] = append(bySeries[m.series[i]], cell.float)
			n++
		}
	}
	low, high := math.Inf(1), math.Inf(-1)
	var wild []float64
	for _, v := range bySeries {
		slices.Sort(v)
		from, to := len(v)/mostWild, len(v)-1-len(v)/mostWild
		near := func(distance float64) bool { return distance <= farthest*(v[to]-v[from]) }
		for grown := true; grown; {
			grown = false
			if from > 0 && near(v[from]-v[from-1]) {
				from, grown = from-1, true
			}
			if to < len(v)-1 && near(v[to+1]-v[to]) {
				to, grown = to+1, true
			}
		}
		if v[from] == v[to] || to-from+1 < fewestNear {
			from, to = 0, len(v)-1
		}
		low, high = min(low, v[from]), max(high, v[to])
		wild = append(append(wild, v[:from]...), v[to+1:]...)
	}
	least, most := outward(low-(high-low), math.Floor), outward(high+(high-low), math.Ceil)
	wild = slices.DeleteFunc(wild, func(v float64) bool { return v >= least && v <= most })
	if len(wild) == 0 || len(wild) > n/mostWild {
		return "", ""
	}
	slices.Sort(wild)
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	size := number(wild[0])
	if last := number(wild[len(wild)-1]); last != size {
		size += " to " + last
	}
	return number(least) + ".." + number(most), fmt.Sprintf("%d of %s of %s (%s; the others are from %s to %s).", len(wild),
		count(n, "reading"), c.field.whole, size, number(low), number(high))
}

// outward rounds a bound to two significant figures.
func outward(v float64, round func(float64) float64) float64 {
	if v == 0 || math.IsInf(v, 0) {
		return v
	}
	exponent := int(math.Floor(math.Log10(math.Abs(v)))) - 1
	unit, _ := strconv.ParseFloat(fmt.Sprintf("1e%d", exponent), 64)
	rounded, _ := strconv.ParseFloat(fmt.Sprintf("%.0fe%d", round(v/unit), exponent), 64)
	return rounded
}

// putSteps says which values are counters, and which of their numbers are no readings.
func (m *mapping) putSteps(moving []*numeric) {
	steps := settingsfile.Setting{Key: "transform", List: true, Comment: "These only grow: what is judged is their increase per second. " +
		"A smaller number than before is a reset, and missing."}
	absent := settingsfile.Setting{Key: "missing_if", List: true,
		Comment: "These numbers are far from all others and mean that there is no reading."}
	valid := settingsfile.Setting{Key: "valid", List: true, Off: true,
		Comment: "Not certain. These bounds leave out single readings that are far from all others of their series:"}
	entry := func(set *settingsfile.Setting, field, value string) {
		if set.Value != "" {
			set.Value += ","
		}
		set.Value += field + "=" + value
	}
	for _, c := range moving {
		if c.field.whole != c.field.path || strings.ContainsAny(c.field.path, "=,") {
			continue // a part of an array, or no name for a list
		}
		if c.role == rate {
			entry(&steps, c.field.whole, "rate")
		}
		var numbers []string
		for _, v := range c.absent {
			numbers = append(numbers, strconv.FormatFloat(v, 'g', -1, 64))
		}
		if len(numbers) > 0 {
			entry(&absent, c.field.whole, strings.Join(numbers, "|"))
		}
		if c.role == rate || strings.Contains(m.chosen("series_fields"), "*") {
			continue // VALID names the fields of a wildcard together
		}
		if bounds, left := m.bounds(c); bounds != "" {
			entry(&valid, c.field.whole, bounds)
			valid.Comment += " " + left
		}
	}
	for _, set := range []settingsfile.Setting{valid, absent, steps} {
		if set.Value != "" {
			m.settings = append(m.settings, set)
		}
	}
}

// givenValues takes the values that are given where no number moves. Without any it returns what is wrong.
func (m *mapping) givenValues(left []string) error {
	none := m.noValues(left)
	m.sensors, m.width = 1, 1
	for _, key := range []string{"value_fields", "series_fields"} {
		given, ok := m.s.given[key]
		if !ok {
			continue
		}
		none = nil
		n := len(strings.Split(given.Value, ","))
		if key == "series_fields" {
			m.sensors = n
		} else {
			m.width = n
		}
		given.Comment = fmt.Sprintf("As it was given. No number moves in %s", count(len(m.t.points), m.noun()))
		if len(left) > 0 {
			given.Comment += ": " + strings.Join(left[:min(8, len(left))], ", ")
		}
		given.Comment += "."
		m.settings = append(m.settings, given)
	}
	if none != nil {
		return none
	}
	m.putOnlyIf("", "", true)
	return m.putRekey()
}

// hasArrays reports whether a value is an array, which is one field.
func (m *mapping) hasArrays(list []*numeric) bool {
	return slices.ContainsFunc(list, func(c *numeric) bool { return c.field.whole != c.field.path })
}

// scales returns the least and the largest scale of the values.
func (m *mapping) scales() (low, high float64) {
	for _, r := range m.ranges {
		if r > 0 && (low == 0 || r < low) {
			low = r
		}
		high = max(high, r)
	}
	return low, high
}

// noValues returns the error for records without a number that moves.
func (m *mapping) noValues(left []string) error {
	what := "they have no field of numbers"
	if len(left) > 0 {
		what = "of their numbers " + strings.Join(left[:min(8, len(left))], ", ")
	}
	return fmt.Errorf("suggest: topic %q: no number that moves in %s: %s. Name the values yourself with %sVALUE_FIELDS", m.c.Topic,
		count(len(m.t.points), m.noun()), what, config.Prefix)
}

// putRekey says whether the series of the key are whole in each partition.
func (m *mapping) putRekey() error {
	parted, without := m.parted(m.series), 0
	for i := range m.t.points {
		if m.t.points[i].raw.key == nil {
			without++
		}
	}
	if len(m.sample.ranges) < 2 || parted == 0 && without == 0 {
		return nil
	}
	comment := fmt.Sprintf("%s of %s were seen in several partitions", count(parted, "key"), count(m.keys, ""))
	if without > 0 {
		comment += fmt.Sprintf(", and %s have no record key, so they may go to any", share(without, len(m.t.points)))
	}
	set := settingsfile.Setting{Key: "rekey", Value: "true", Comment: comment + ": an internal topic brings a series together."}
	if m.readings != "" && m.keyInReadings() {
		set.Off = true
		set.Comment = comment + ": each partition has a part of a series. Rekey is not possible where the key is in the readings; let the " +
			"producer key the records."
	}
	m.settings = append(m.settings, set)
	return nil
}

func (m *mapping) keyInReadings() bool {
	for _, s := range m.settings {
		if s.Key == "key_field" && !s.Off {
			for _, p := range strings.Split(s.Value, "+") {
				if f := m.t.index[p]; f != nil && f.item {
					return true
				}
			}
		}
	}
	return false
}
