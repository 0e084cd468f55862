package suggest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/config/settingsfile"
	"odradek/schemas"
	"odradek/schemas/formats"
)

const recordKey = "@key"

// named is a field that may be a part of the series key.
type named struct {
	path   string
	at     int     // among the fields: parts stand in this order
	ids    []int32 // of each point, -1 without a value
	n      int     // points with a value
	texts  []string
	count  []int // points of each text
	hint   int
	gain   float64 // see gain
	less   float64 // gain by values that still change
	score  float64
	weak   bool // too few values come twice for gain to say anything
	joint  bool // it tells no series apart by itself
	sticky float64
}

func (nm *named) distinct() int { return len(nm.texts) }

// newNamed returns a candidate of the texts that text returns.
func newNamed(path string, at, n int, text func(i int) (string, bool)) *named {
	k := &named{path: path, at: at, ids: make([]int32, n)}
	ids := map[string]int32{}
	for i := range n {
		k.ids[i] = -1
		s, ok := text(i)
		if !ok {
			continue
		}
		id, known := ids[s]
		if !known {
			id = int32(len(k.texts))
			ids[s] = id
			k.texts, k.count = append(k.texts, s), append(k.count, 0)
		}
		k.ids[i] = id
		k.count[id]++
		k.n++
	}
	return k
}

// candidates returns the fields that may be the key, the record key first if it is a text.
func (m *mapping) candidates() (list []*named) {
	n := len(m.t.points)
	if list = m.keyFields(); len(list) > 0 { // the bytes of the key change with its schema, or with the order of its fields
	} else if k := newNamed(recordKey, -1, n, func(i int) (string, bool) {
		b := m.t.points[i].raw.key
		return string(b), len(b) > 0
	}); k.n == n && !slices.ContainsFunc(k.texts, unreadable) {
		k.hint = 1
		list = append(list, k)
	}
	lacking := formats.Lacking(m.format)
	for at, f := range m.t.fields {
		kinds := f.kinds(n)
		texts := kinds[schemas.LeafText]
		var k *named
		switch {
		case texts > 0 && (texts >= n*95/100 || lacking && texts+kinds[schemas.LeafNull] == n):
			if m.momentsOf(f) != nil || textNumbers(f) {
				continue
			}
			k = newNamed(f.path, at, n, func(i int) (string, bool) {
				c := f.at(i)
				if c.kind == schemas.LeafNull {
					return "", lacking
				}
				return f.texts[c.text], c.kind == schemas.LeafText
			})
		case kinds[schemas.LeafInt] >= n*95/100 && kinds[schemas.LeafInt] > 0:
			if m.momentsOf(f) != nil || rises(f, n) {
				continue
			}
			k = newNamed(f.path, at, n, func(i int) (string, bool) {
				c := f.at(i)
				return strconv.FormatInt(c.int, 10), c.kind == schemas.LeafInt
			})
			if hint(f.path, entityWords, stateWords) <= 0 && !slices.ContainsFunc(list, func(o *named) bool { return same(o.ids, k.ids) }) {
				continue // a number is no name, unless it is called one
			}
		default:
			continue
		}
		if k.hint = hint(f.path, entityWords, stateWords); k.hint == 0 && hint(parent(f.path), words("tags labels dimensions"), nil) > 0 {
			k.hint = 1
		}
		list = append(list, k)
	}
	return list
}

func unreadable(s string) bool {
	return len(s) > 200 || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// textNumbers reports whether the texts of a field are numbers with a fraction, which are values in quotes.
func textNumbers(f *field) bool {
	fractions := 0
	for _, s := range f.texts {
		if _, err := strconv.ParseFloat(s, 64); err != nil {
			return false
		}
		if strings.ContainsAny(s, ".eE") {
			fractions++
		}
	}
	return len(f.texts) >= 10 && (fractions > 0 || len(f.texts) > 50)
}

// rises reports whether a field is integers that only rise, as a counter of records does.
func rises(f *field, n int) bool {
	if f.kinds(n)[schemas.LeafInt] < n/2 { // numbers with a fraction, some of which happen to have none
		return false
	}
	up, down := 0, 0
	values := map[int64]bool{}
	for i := 1; i < n; i++ {
		a, b := f.at(i-1), f.at(i)
		if a.kind != schemas.LeafInt || b.kind != schemas.LeafInt {
			continue
		}
		values[b.int] = true
		if b.int > a.int {
			up++
		} else if b.int < a.int {
			down++
		}
	}
	return up >= 20 && down <= up/9 && len(values) > up/2 // each step up leads to a new value
}

// same reports whether two candidates divide the points alike.
func same(a, b []int32) bool {
	x, y := map[int32]int32{}, map[int32]int32{}
	for i := range a {
		u, seen := x[a[i]]
		v, seenToo := y[b[i]]
		if !seen {
			x[a[i]] = b[i]
		}
		if !seenToo {
			y[b[i]] = a[i]
		}
		if seen && u != b[i] || seenToo && v != a[i] {
			return false
		}
	}
	return true
}

// joined returns the numbers of the pairs of two candidates' values, and how many pairs there are.
func joined(a, b []int32) (ids []int32, n int) {
	if a == nil {
		top := int32(-1)
		for _, id := range b {
			top = max(top, id)
		}
		return b, int(top) + 1
	}
	pairs := map[[2]int32]int32{}
	ids = make([]int32, len(a))
	for i := range a {
		p := [2]int32{a[i], b[i]}
		id, ok := pairs[p]
		if !ok {
			id = int32(len(pairs))
			pairs[p] = id
		}
		ids[i] = id
	}
	return ids, len(pairs)
}

// steps returns the mean absolute change of each mover from one point of a group to the next; NaN of too few.
func (m *mapping) steps(movers []*field, ids []int32) []float64 {
	sum, n := make([]float64, len(movers)), make([]int, len(movers))
	type place struct {
		segment int
		values  []float64
	}
	last := map[int32]*place{}
	for _, i := range m.order {
		id := int32(0)
		if ids != nil {
			id = ids[i]
		}
		p := last[id]
		if p == nil {
			p = &place{segment: -1, values: make([]float64, len(movers))}
			last[id] = p
		}
		if p.segment != m.t.points[i].segment {
			p.segment = m.t.points[i].segment
			for j := range p.values {
				p.values[j] = math.NaN()
			}
		}
		for j, f := range movers {
			c := f.at(i)
			if !c.number() {
				continue
			}
			if d := math.Abs(c.float - p.values[j]); d == d {
				sum[j] += d
				n[j]++
			}
			p.values[j] = c.float
		}
	}
	for j := range sum {
		if n[j] < 20 {
			sum[j] = math.NaN()
		} else {
			sum[j] /= float64(n[j])
		}
	}
	return sum
}

// gain returns by which share a division into groups makes the values' changes smaller, for the value where it is most; 0 where it
// is not known.
func gain(before, after []float64) (g float64) {
	for j := range before {
		if before[j] > 0 && after[j] == after[j] {
			g = max(g, 1-after[j]/before[j])
		}
	}
	return g
}

// stickiness returns how much more often than by chance a candidate's value equals the value of the point before in its group: about 0
// for what tells series apart, near 1 for a state that lasts. Groups in which it has one value say neither.
func (m *mapping) stickiness(k *named, groups []int32) float64 {
	first, several := map[int32]int32{}, map[int32]bool{}
	for i, g := range groups {
		if id, seen := first[g]; !seen {
			first[g] = k.ids[i]
		} else if id != k.ids[i] {
			several[g] = true
		}
	}
	type part struct {
		segment int
		id      int32
	}
	counts, sizes := map[part]float64{}, map[int]float64{}
	for _, i := range m.order {
		segment := m.t.points[i].segment
		counts[part{segment, k.ids[i]}]++
		sizes[segment]++
	}
	chance := 0.0
	for _, i := range m.order { // in an order, so that the sum is the same to the bit
		segment := m.t.points[i].segment
		chance += counts[part{segment, k.ids[i]}] / sizes[segment] / float64(len(m.order))
	}
	type place struct {
		segment      int
		now, before  int64 // times
		value, other int32 // the last one at now, and at the time before
		many, twice  bool  // there are several at now, and at the time before
	}
	last := map[int32]*place{}
	equal, pairs := 0, 0
	for _, i := range m.order {
		g := int32(0)
		if groups != nil {
			if g = groups[i]; !several[g] {
				continue
			}
		}
		p, t := last[g], m.timeAt(i)
		switch {
		case p == nil || p.segment != m.t.points[i].segment:
			p = &place{segment: m.t.points[i].segment, before: math.MinInt64}
			last[g] = p
		case t > p.now: // points of one time are of several series, in any order
			p.before, p.other, p.twice, p.many = p.now, p.value, p.many, false
		default:
			p.many = p.many || p.value != k.ids[i]
		}
		p.now, p.value = t, k.ids[i]
		if p.before > math.MinInt64 {
			if pairs++; p.other == p.value && !p.many && !p.twice {
				equal++
			}
		}
	}
	if pairs < 20 || chance > 0.999 {
		return 0
	}
	return (float64(equal)/float64(pairs) - chance) / (1 - chance)
}

// stays returns the share of a candidate's values at the end of a partition that were at its beginning, too.
func (m *mapping) stays(k *named) float64 {
	there, all := 0, 0
	for _, run := range m.runs() {
		third := len(run) / 3
		if third < 10 {
			continue
		}
		early, late := map[int32]bool{}, map[int32]bool{}
		for _, i := range run[:third] {
			early[k.ids[i]] = true
		}
		for _, i := range run[len(run)-third:] {
			late[k.ids[i]] = true
		}
		for id := range late {
			if all++; early[id] {
				there++
			}
		}
	}
	if all == 0 {
		return 1
	}
	return float64(there) / float64(all)
}

// even returns the number of values that would be as informative if all were as frequent, relative to their number.
func (nm *named) even() float64 {
	h := 0.0
	for _, n := range nm.count {
		p := float64(n) / float64(nm.n)
		h -= p * math.Log(p)
	}
	return math.Exp(h) / float64(max(1, nm.distinct()))
}

// doubles returns the share of points that have the time of another one of their group.
func (m *mapping) doubles(ids []int32) float64 {
	if m.times == nil {
		return 0
	}
	type moment struct {
		id int32
		t  int64
	}
	seen := map[moment]bool{}
	n := 0
	for i, t := range m.times {
		k := moment{ids[i], t}
		if seen[k] {
			n++
		}
		seen[k] = true
	}
	return float64(n) / float64(max(1, len(m.times)))
}

// chooseKey says which fields name the series.
func (m *mapping) chooseKey() error {
	all := m.candidates()
	movers := m.movers()
	base := m.steps(movers, nil)
	var list, late, last, constant, doubtful []*named
	records := map[int]bool{}
	for i := range m.t.points {
		records[m.t.points[i].record] = true
	}
	for _, k := range all {
		d, n := k.distinct(), len(records)
		if k.at >= 0 && m.t.fields[k.at].item {
			n = len(m.t.points)
		}
		switch {
		case d == 1:
			constant = append(constant, k)
			continue
		case n < d*3:
			if k.weak = true; float64(n) < 1.05*float64(d) || k.hint <= 0 {
				continue
			}
		case n >= d*10 && m.stays(k) < 0.5: // such as the order that is being made
			if k.hint > 0 {
				doubtful = append(doubtful, k)
			}
			continue
		}
		after := m.steps(movers, k.ids)
		k.gain = gain(base, after)
		for j := range after {
			if after[j] == 0 {
				after[j] = math.NaN()
			}
		}
		k.less = gain(base, after)
		k.sticky = m.stickiness(k, nil)
		k.score = k.gain + 0.3*float64(k.hint)
		if ofRecordKey(k.path) {
			k.score += 0.2
		} else if ofRecordKey(all[0].path) && same(all[0].ids, k.ids) {
			k.score += 0.6
		}
		if k.sticky > 0.3 && !ofRecordKey(all[0].path) || k.sticky > 0.3 && !same(all[0].ids, k.ids) {
			k.score -= 0.5
		}
		switch {
		case k.score >= 0.15:
			list = append(list, k)
		case k.hint > 0: // it may tell series apart within other series: a machine's sensors report one after the other
			late = append(late, k)
		default: // so may this, if readings of one time differ in it
			k.joint = true
			last = append(last, k)
		}
	}
	slices.SortStableFunc(list, func(a, b *named) int { return cmp.Compare(b.score, a.score) })
	if given, ok := m.s.given["key_field"]; ok {
		return m.givenKey(given.Value, all)
	}
	switch {
	case len(list) == 0 && len(doubtful) > 0:
		m.s.head = append(m.s.head, fmt.Sprintf("Not certain: the series key %s has other values at the end of the topic than at its beginning.",
			doubtful[0].path))
		return m.putKey(doubtful, doubtful[:1], doubtful[0].ids)
	case len(list) == 0:
		return m.oneSeries(constant, all)
	}
	parts, ids := m.combine(slices.Concat(list, late, last), movers)
	return m.putKey(list, parts, ids)
}

// parted returns how many groups are in several partitions.
func (m *mapping) parted(ids []int32) (n int) {
	partOf := map[int32]int{}
	several := map[int32]bool{}
	for i, id := range ids {
		if p, ok := partOf[id]; !ok {
			partOf[id] = m.t.points[i].partition
		} else if p != m.t.points[i].partition {
			several[id] = true
		}
	}
	return len(several)
}

// combine begins with the best candidate and adds those that divide its series further.
func (m *mapping) combine(list []*named, movers []*field) (parts []*named, ids []int32) {
	parts, ids = list[:1:1], list[0].ids
	others := slices.Clone(list[1:])
	slices.SortStableFunc(others, func(a, b *named) int { // the record key where fields of the record do not tell as much
		return cmp.Compare(btoi(a.path == recordKey), btoi(b.path == recordKey))
	})
	for _, k := range others {
		if len(parts) == 4 {
			break
		}
		_, now := joined(nil, ids)
		finer, n := joined(ids, k.ids)
		switch {
		case n <= now+now/50:
			continue // it follows from the parts
		case len(parts) == 1 && k.implies(parts[0]): // press 7 is in hall 2
			if k.hint >= 0 && m.stickiness(k, ids) < 0.3 && (k.weak || gain(m.steps(movers, ids), m.steps(movers, k.ids)) >= 0.1 ||
				m.doubles(ids) > 2*m.doubles(k.ids)+0.1) {
				parts, ids = []*named{k}, k.ids
			}
			continue
		}
		g := gain(m.steps(movers, ids), m.steps(movers, finer))
		before, after := m.doubles(ids), m.doubles(finer)
		tells := g >= 0.15 && (k.hint >= 0 || g >= 0.3) && k.even() > 0.5 || k.hint >= 0 && before > 0.2 && after < before/2
		// Of a metric that each machine has under the same name, the readings of one time are of several machines.
		tells = tells || k.hint >= 0 && before > fewDoubles && after < before/10
		differs := m.differs(k, ids)
		tells = tells && (differs || !k.joint) || k.hint > 0 && differs
		if k.hint > 0 && 2*m.parted(ids) > now && m.parted(finer) == 0 { // it brings a series into one partition
			tells = true
		}
		if tells && m.stickiness(k, ids) < 0.3 {
			follows := func(part *named) bool { return k.implies(part) && k.hint >= part.hint }
			parts, ids = append(slices.DeleteFunc(slices.Clone(parts), follows), k), finer
		}
	}
	parts, ids = m.combineTwo(list, parts, ids, movers)
	slices.SortFunc(parts, func(a, b *named) int { return cmp.Compare(a.at, b.at) })
	return parts, ids
}

// combineTwo adds the two candidates that together make the values' changes smallest, if two make them smaller by more
// than 30 %. A machine's sensors report one after the other at levels of their own, so that neither the machine nor the sensor
// tells the series of a site apart by itself.
func (m *mapping) combineTwo(list, parts []*named, ids []int32, movers []*field) ([]*named, []int32) {
	if len(parts) > 2 {
		return parts, ids
	}
	var open []*named
	for _, k := range list {
		if k.path != recordKey && k.hint >= 0 && k.even() > 0.5 && !slices.Contains(parts, k) {
			open = append(open, k)
		}
	}
	const least = 0.3
	now, best := m.steps(movers, ids), least
	var pair []*named
	for i, a := range open {
		withA, _ := joined(ids, a.ids)
		for _, b := range open[i+1:] {
			if a.hint == 0 && b.hint == 0 {
				continue
			}
			withB, _ := joined(ids, b.ids)
			both, _ := joined(withA, b.ids)
			if g := gain(now, m.steps(movers, both)); g > best && m.stickiness(a, withB) < 0.3 && m.stickiness(b, withA) < 0.3 {
				best, pair = g, []*named{a, b}
			}
		}
	}
	for _, k := range pair {
		ids, _ = joined(ids, k.ids)
		parts = append(slices.DeleteFunc(slices.Clone(parts), k.implies), k)
	}
	return parts, ids
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// differs reports whether most readings have the group and the time of another one with another value of the candidate.
func (m *mapping) differs(k *named, ids []int32) bool {
	type moment struct {
		id int32
		t  int64
	}
	first, several := map[moment]int32{}, map[moment]bool{}
	for i, id := range ids {
		at := moment{id, m.timeAt(i)}
		if was, seen := first[at]; !seen {
			first[at] = k.ids[i]
		} else if was != k.ids[i] {
			several[at] = true
		}
	}
	n := 0
	for i, id := range ids {
		if several[moment{id, m.timeAt(i)}] {
			n++
		}
	}
	return n > len(ids)/2
}

// implies reports whether a part of a key follows from the candidate, as the site of a machine does.
func (nm *named) implies(part *named) bool {
	_, n := joined(part.ids, nm.ids)
	return part.path != recordKey && n <= nm.distinct()+nm.distinct()/50
}

// fewDoubles is the share of readings with the time of another one of their series from which on these are of several series.
const fewDoubles = 0.02

// merged says which part of the key tells series apart that would have several readings of one time without it.
func (m *mapping) merged(parts []*named, ids []int32) (text string) {
	after := m.doubles(ids)
	for i := range parts {
		var without []int32
		for j, k := range parts {
			if j != i {
				without, _ = joined(without, k.ids)
			}
		}
		if without == nil {
			return ""
		}
		if before := m.doubles(without); before > fewDoubles && after < before/2 {
			text += fmt.Sprintf(" Without %s, %s of %s would have the time of another one of their series: several values of %s would share one.",
				parts[i].path, share(int(before*1000), 1000), count(len(m.t.points), m.noun()), parts[i].path)
		}
	}
	return text
}

// putKey writes the choice of the parts of the key.
func (m *mapping) putKey(list, parts []*named, ids []int32) error {
	m.series = ids
	_, m.keys = joined(nil, ids)
	var paths []string
	isRecordKey := false
	for _, k := range parts {
		paths = append(paths, k.path)
		isRecordKey = isRecordKey || k.path == recordKey
	}
	comment := fmt.Sprintf("%s in %s.", count(m.keys, "distinct key"), count(len(m.t.points), m.noun()))
	if len(parts) > 1 {
		var each []string
		for _, k := range parts {
			each = append(each, fmt.Sprintf("%s of %s", count(k.distinct(), ""), k.path))
		}
		comment = fmt.Sprintf("%s, all that occur of %s, in %s.", count(m.keys, "distinct key"), strings.Join(each, " and "),
			count(len(m.t.points), m.noun()))
	}
	comment += m.merged(parts, ids)
	if g := parts[0].less; len(parts) == 1 && g >= 0.1 {
		comment += fmt.Sprintf(" From one %s of a key to the next values change %s less than from %s to %s.", m.noun(), share(int(100*g), 100),
			m.noun(), m.noun())
	}
	if isRecordKey && len(parts) == 1 {
		comment += " It is the key of the record; no field of the value tells series apart better."
	}
	var sameSeries, others []string
	var other *named
	for _, k := range list {
		switch {
		case slices.Contains(parts, k):
		case same(k.ids, ids):
			sameSeries = append(sameSeries, k.path)
		case k.score >= 0.6*parts[0].score && k.sticky < 0.3:
			if others = append(others, fmt.Sprintf("%s (%s)", k.path, count(k.distinct(), "value"))); other == nil {
				other = k
			}
		}
	}
	if len(sameSeries) > 0 {
		comment += fmt.Sprintf(" %s would give the same series.", strings.Join(sameSeries, ", "))
	}
	m.settings = append(m.settings, settingsfile.Setting{Key: "key_field", Value: strings.Join(paths, "+"), Comment: comment})
	if other != nil {
		certain := "The runner-up"
		if other.score >= 0.85*parts[0].score {
			certain = "Not certain: nearly as plausible"
		}
		m.settings = append(m.settings, settingsfile.Setting{Key: "key_field", Value: other.path, Off: true,
			Comment: certain + " is " + strings.Join(others, ", ") + "."})
	}
	return nil
}

// oneSeries writes the choice where nothing tells series apart.
func (m *mapping) oneSeries(constant, all []*named) error {
	n := len(m.t.points)
	slices.SortStableFunc(constant, func(a, b *named) int { return cmp.Compare(b.hint, a.hint) })
	if len(constant) == 0 {
		var why []string
		for _, k := range all {
			why = append(why, fmt.Sprintf("%s has %s in %s", k.path, count(k.distinct(), "value"), count(n, m.noun())))
		}
		if len(why) == 0 {
			why = []string{"there is no field of text"}
		}
		return fmt.Errorf("suggest: topic %q: no field names the series of a record, and the record key does not either: %s. Set %sKEY_FIELD, "+
			"or have the producer write a key", m.c.Topic, strings.Join(why[:min(6, len(why))], ", "), config.Prefix)
	}
	k := constant[0]
	m.series, m.keys = k.ids, 1
	comment := fmt.Sprintf("Nothing tells series apart, so all of %s are one series: this is %q in each.", count(n, m.noun()), k.texts[0])
	if len(constant) > 1 && k.hint == constant[1].hint {
		comment += fmt.Sprintf(" So is %s constant.", constant[1].path)
	}
	m.settings = append(m.settings, settingsfile.Setting{Key: "key_field", Value: k.path, Comment: comment})
	return nil
}

// givenKey takes the key that is given.
func (m *mapping) givenKey(text string, all []*named) error {
	var ids []int32
	n := 0
	for _, path := range strings.Split(text, "+") {
		for _, k := range all {
			if k.path == path {
				ids, n = joined(ids, k.ids)
			}
		}
	}
	if ids == nil {
		ids, n = make([]int32, len(m.t.points)), 1
	}
	m.series, m.keys = ids, n
	m.settings = append(m.settings, settingsfile.Setting{Key: "key_field", Value: text,
		Comment: fmt.Sprintf("%s in %s.", count(n, "distinct key"), count(len(m.t.points), m.noun()))})
	return nil
}

// movers returns up to eight numbers that change, to compare divisions into series by.
func (m *mapping) movers() (list []*field) {
	n := len(m.t.points)
	type mover struct {
		*field
		distinct int
	}
	var all []mover
	for _, f := range m.t.fields {
		k := f.kinds(n)
		if k[schemas.LeafFloat]+k[schemas.LeafInt] < n/4 || rises(f, n) || m.momentsOf(f) != nil {
			continue
		}
		values := map[float64]bool{}
		for i := range n {
			if c := f.at(i); c.number() {
				values[c.float] = true
			}
		}
		if len(values) > 2 {
			all = append(all, mover{f, len(values) + k[schemas.LeafFloat]})
		}
	}
	slices.SortStableFunc(all, func(a, b mover) int { return cmp.Compare(b.distinct, a.distinct) })
	for _, f := range all[:min(8, len(all))] {
		list = append(list, f.field)
	}
	return list
}
