package suggest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"odradek/cmd/internal/config/settingsfile"
	"odradek/schemas"
)

// mostNames is the most names of counters that a condition lists.
const mostNames = 20

// expressible matches the paths that are written in an expression as they are.
var expressible = regexp.MustCompile(`^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$`)

// putCounters proposes to judge the increase of those series of a value that are counters, where a part of the series key, such as the
// name of a metric, tells them from the others. It reports whether there are any.
func (m *mapping) putCounters(c *numeric) bool {
	if c.field.item || c.field.whole != c.field.path || !expressible.MatchString(c.field.path) {
		return false
	}
	for _, path := range strings.Split(m.chosen("key_field"), "+") {
		f := m.t.index[path]
		if f == nil || f.item || !expressible.MatchString(path) || m.t.index["gauge"] != nil || m.t.index["counter"] != nil {
			continue
		}
		counters, others := m.counters(c, f)
		condition := namesAny(path, counters, others)
		if len(counters) == 0 || len(others) == 0 || condition == "" {
			continue
		}
		number := c.field.path
		if c.field.quoted {
			number = "double(" + number + ")"
		}
		example := fmt.Sprintf("%q", counters[0])
		if len(counters) > 1 {
			example += fmt.Sprintf(" and %d more", len(counters)-1)
		}
		m.sensors, m.width = 1, 1
		m.settings = append(m.settings,
			settingsfile.Setting{Key: "compute", Value: fmt.Sprintf("gauge=%s ? dyn(null) : %s, counter=%s ? %s : dyn(null)",
				condition, number, condition, number),
				Comment: fmt.Sprintf("%s only grows in some series of %s (%s): they are counters, and become a value of their own.",
					c.field.path, path, example)},
			settingsfile.Setting{Key: "series_fields", Value: "gauge,counter", List: true},
			settingsfile.Setting{Key: "transform", Value: "counter=rate", List: true,
				Comment: "What is judged of a counter is its increase per second. A smaller number than before is a reset, and missing."})
		return true
	}
	return false
}

// counters returns the texts of a part of the key whose series of c only grow, and the others.
func (m *mapping) counters(c *numeric, part *field) (counters, others []string) {
	type place struct {
		last float64
		any  bool
	}
	bySeries, byName := map[int32]*place{}, map[string]*steps{}
	for _, i := range m.order {
		cell, label := c.field.at(i), part.at(i)
		if !cell.number() || label.kind != schemas.LeafText {
			continue
		}
		p, n := bySeries[m.series[i]], byName[part.texts[label.text]]
		if p == nil {
			p = &place{}
			bySeries[m.series[i]] = p
		}
		if n == nil {
			n = &steps{}
			byName[part.texts[label.text]] = n
		}
		if p.any {
			n.add(p.last, cell.float)
		}
		p.last, p.any = cell.float, true
	}
	for _, text := range sortedKeys(byName) {
		if byName[text].onlyUp() {
			counters = append(counters, text)
		} else {
			others = append(others, text)
		}
	}
	return counters, others
}

// namesAny returns a condition in CEL that holds for the names of counters and for none of the others: by their last word, such as
// _total, where that tells them apart, so that it holds for names to come; "": they are too many.
func namesAny(path string, counters, others []string) string {
	var ends []string
	last := func(name string) string { return name[max(0, strings.LastIndexByte(name, '_')):] }
	for _, name := range counters {
		if end := last(name); !slices.Contains(ends, end) {
			ends = append(ends, end)
		}
	}
	if !slices.ContainsFunc(ends, func(end string) bool {
		return !strings.HasPrefix(end, "_") || slices.ContainsFunc(others, func(name string) bool { return strings.HasSuffix(name, end) })
	}) && len(ends) <= len(counters)/2+1 {
		for i, end := range ends {
			ends[i] = path + ".endsWith(" + strconv.Quote(end) + ")"
		}
		return strings.Join(ends, " || ")
	}
	if len(counters) > mostNames {
		return ""
	}
	var quoted []string
	for _, name := range counters {
		quoted = append(quoted, strconv.Quote(name))
	}
	return path + " in [" + strings.Join(quoted, ", ") + "]"
}
