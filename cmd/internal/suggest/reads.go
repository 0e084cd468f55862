package suggest

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"odradek/cmd/internal/config/settingsfile"
	"odradek/schemas"
	"odradek/schemas/formats"
)

// This file finds what has to be read in another way than as it is there: numbers and decimals that are texts, times without a
// zone, fields of a Kafka key, and fields that say that a record is no good.

// unquote makes numbers of the texts that write them (text_values), and of the base64 of Debezium's decimals (decimals).
func (m *mapping) unquote() {
	if given, ok := m.s.given["text_values"]; !ok || given.Value == "number" {
		for _, f := range m.t.fields {
			if f.kinds(len(m.t.points))[schemas.LeafText] > len(m.t.points)/2 && textNumbers(f) && !m.textTimes(f) {
				f.example, f.quoted = f.texts[0], true
				f.numbersOf(schemas.TextNumber)
			}
		}
	}
	for _, f := range m.t.fields {
		if debezium(f) {
			f.example, f.decimal = f.texts[0], true
			f.numbersOf(decimal)
		}
	}
}

// textTimes reports whether the texts of a field are times, such as 20260131080000, which would be numbers, too.
func (m *mapping) textTimes(f *field) bool {
	given, ok := m.s.given["time_field"]
	return ok && given.Value == f.path || len(f.texts[0]) == len("20060102150405") && m.momentsOf(f) != nil
}

// numbersOf makes numbers of the texts of a field.
func (f *field) numbersOf(read func([]byte) (float64, schemas.Fault)) {
	f.timed, f.moments = false, nil
	for i := range f.cells {
		c := &f.cells[i]
		if c.kind != schemas.LeafText {
			continue
		}
		v, _ := read([]byte(f.texts[c.text]))
		switch n, err := strconv.ParseInt(f.texts[c.text], 10, 64); {
		case v != v:
			*c = cell{}
		case err == nil && !f.decimal:
			*c = cell{kind: schemas.LeafInt, int: n, float: v}
		default:
			*c = cell{kind: schemas.LeafFloat, float: v}
		}
	}
}

// decimalScale is the scale that is assumed of decimals whose records do not have it.
const decimalScale = 2

// decimal returns the number of a decimal in base64, of the scale that is assumed.
func decimal(text []byte) (float64, schemas.Fault) { return schemas.DecimalText(text, decimalScale) }

// longestDecimal is the most bytes that a decimal is taken to have: longer ones are of other kinds.
const longestDecimal = 8

// debezium reports whether the texts of a field are decimals as Debezium and Kafka Connect write them into JSON: of a row after its
// change, in base64, and most of them of bytes that no text has.
func debezium(f *field) bool {
	if p := parent(f.path); p != "after" && p != "payload.after" || len(f.texts) < 10 {
		return false
	}
	binary := 0
	for _, text := range f.texts {
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(b) == 0 || len(b) > longestDecimal {
			return false
		}
		if slices.ContainsFunc(b, func(c byte) bool { return c < ' ' || c >= 0x7f }) {
			binary++
		}
	}
	return binary > len(f.texts)/2
}

// putTexts says which of the values are texts or decimals.
func (m *mapping) putTexts(moving []*numeric) {
	var quoted, scales []string
	example := ""
	for _, c := range moving {
		switch {
		case c.field.quoted:
			quoted = append(quoted, c.field.path)
			example = c.field.example
		case c.field.decimal && !strings.HasPrefix(c.field.path, "payload."):
			scales = append(scales, fmt.Sprintf("%s=%d", c.field.path, decimalScale))
			example = c.field.example
		}
	}
	if len(quoted) > 0 {
		m.settings = append(m.settings, settingsfile.Setting{Key: "text_values", Value: "number",
			Comment: fmt.Sprintf("The numbers of %s are in quotes, such as %q.", strings.Join(quoted, ", "), example)})
	}
	if len(scales) > 0 {
		m.settings = append(m.settings, settingsfile.Setting{Key: "decimals", Value: strings.Join(scales, ","), List: true,
			Comment: fmt.Sprintf("Not certain: decimals in base64, such as %q, as Debezium writes them without the schema that has their "+
				"scale. Give the digits after the point that the columns have.", example)})
	}
}

// layouts are the layouts of texts without an offset that are tried, "" for those that need none.
var layouts = []string{"", "%d.%m.%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S", "%d-%m-%Y %H:%M:%S", "%Y/%m/%d %H:%M:%S",
	"%m/%d/%Y %I:%M:%S %p", "%Y%m%d%H%M%S", "%Y%m%d %H:%M:%S", "%d/%b/%Y:%H:%M:%S", "%d %b %Y %H:%M:%S"}

// readers returns the readers of a field's texts as times, those that need no setting first.
func (m *mapping) readers(f *field) (list []textReader) {
	list = []textReader{{texts: new(schemas.TimeText)}}
	if zone, ok := m.s.given["time_zone"]; ok {
		layout := m.s.given["time_layout"].Value
		given := schemas.Mapping{TimeZone: zone.Value, TimeLayout: layout}
		return []textReader{{texts: given.Texts()}}
	}
	if len(f.texts) == 0 || !strings.ContainsAny(f.texts[0], "0123456789") {
		return list
	}
	for _, layout := range layouts {
		list = append(list, textReader{schemas.Mapping{TimeZone: "UTC", TimeLayout: layout}.Texts(), "UTC", layout})
	}
	return list
}

// textReader reads texts as times, with a zone and a layout that are not given; "": with none.
type textReader struct {
	texts        *schemas.TimeText
	zone, layout string
}

// zones are the zones with offsets that are no whole hours.
var zones = map[time.Duration]string{5*time.Hour + 30*time.Minute: "Asia/Kolkata", 5*time.Hour + 45*time.Minute: "Asia/Kathmandu",
	3*time.Hour + 30*time.Minute: "Asia/Tehran", 9*time.Hour + 30*time.Minute: "Australia/Darwin"}

// zoned finds the offset of times that were read as if they were in UTC, by the delays of Kafka's timestamps after them: these are
// less than a few minutes where the records are written as they are made.
func (m *moments) zoned(delays []int64) {
	if m.zone == "" {
		return
	}
	const quarter = int64(15 * time.Minute / time.Microsecond)
	middle := median(delays)
	if len(delays) == 0 || delays[len(delays)*3/4]-delays[len(delays)/4] > quarter/2 {
		m.unsure = true
		return
	}
	steps := (-middle + quarter/2) / quarter
	if -middle+quarter/2 < 0 {
		steps = (-middle - quarter/2) / quarter
	}
	offset := time.Duration(steps*quarter) * time.Microsecond
	switch hours := int(offset / time.Hour); {
	case offset == 0:
		return
	case offset > 14*time.Hour || offset < -12*time.Hour:
		m.unsure = true
		return
	case offset%time.Hour == 0:
		m.zone = fmt.Sprintf("Etc/GMT%+d", -hours)
	case zones[offset] != "":
		m.zone = zones[offset]
	default:
		m.unsure = true
		return
	}
	for i := range m.micros {
		if m.micros[i] != schemas.NoTime {
			m.micros[i] -= offset.Microseconds()
		}
	}
	m.delay += offset.Microseconds()
}

// putZone says how texts without an offset are read.
func (m *mapping) putZone(c *moments) {
	if c.zone == "" {
		return
	}
	comment := fmt.Sprintf("The texts, such as %q, have no offset. ", c.field.texts[0])
	switch {
	case c.unsure:
		comment += "Not certain: nothing tells their zone, because Kafka's timestamps are far from them; UTC is assumed."
	case c.zone == "UTC":
		comment += "As UTC they fit Kafka's timestamps."
	default:
		comment += "By Kafka's timestamps they are of this zone (the sign of Etc/GMT is the other way round). If its clocks change, name the " +
			"place in its stead, such as Europe/Berlin."
	}
	m.settings = append(m.settings, settingsfile.Setting{Key: "time_zone", Value: c.zone, Comment: comment})
	if c.layout != "" {
		m.settings = append(m.settings, settingsfile.Setting{Key: "time_layout", Value: c.layout,
			Comment: fmt.Sprintf("It reads %s of %s texts.", count(c.good, ""), count(len(c.micros), ""))})
	}
}

// Words by which a field says whether a record is good.
var (
	qualityWords = words("quality validity status state good valid ok health qc qa quality_code")
	goodTexts    = words("good ok valid normal healthy pass passed true yes goodquality")
	badTexts     = words("bad uncertain invalid fault faulty error failed fail stale suspect questionable unknown missing offline false no " +
		"notok not_ok comm_error out_of_service outofservice substituted estimated")
	identifierSteps = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$`)
)

// leaveOut takes out the points that lack a field of the key or the time: such records would be dead letters, as the deletes of a table.
func (m *mapping) leaveOut() error {
	if _, given := m.s.given["only_if"]; given {
		return nil
	}
	var lacked []*field
	for _, set := range m.settings {
		if set.Off || set.Key != "key_field" && set.Key != "time_field" {
			continue
		}
		for _, path := range strings.Split(set.Value, "+") {
			if f := m.t.index[path]; f != nil && identifierSteps.MatchString(path) && f.kinds(len(m.t.points))[schemas.LeafNull] > 0 {
				lacked = append(lacked, f)
			}
		}
	}
	if len(lacked) == 0 || formats.Lacking(m.format) {
		return nil
	}
	before := len(m.t.points)
	m.drop(func(i int) bool {
		return slices.ContainsFunc(lacked, func(f *field) bool { return f.at(i).kind == schemas.LeafNull })
	})
	m.lacking = before - len(m.t.points)
	for _, f := range lacked {
		m.there = append(m.there, f.path)
	}
	return nil
}

// putOnlyIf says which records a condition leaves out: those that lack the key or the time, and those that are no good by another one;
// "": there is no other.
func (m *mapping) putOnlyIf(good, comment string, certain bool) {
	var terms []string
	for _, path := range m.there {
		terms = append(terms, "has("+path+")")
	}
	put := func(off bool, comments ...string) {
		m.settings = append(m.settings, settingsfile.Setting{Key: "only_if", Value: strings.Join(terms, " && "), Off: off,
			Comment: strings.TrimSpace(strings.Join(comments, " "))})
	}
	lacking := ""
	if len(terms) > 0 {
		lacking = fmt.Sprintf("%s lack %s, and would be dead letters.", count(m.lacking, m.noun()), strings.Join(m.there, " or "))
		if good == "" || !certain {
			put(false, lacking)
		}
	}
	if good == "" {
		return
	}
	if len(terms) > 0 && strings.Contains(good, " || ") {
		good = "(" + good + ")"
	}
	terms = append(terms, good)
	if certain {
		put(false, lacking, comment)
	} else {
		put(true, "Not certain.", comment)
	}
}

// quality returns the condition that a field of quality says that a record is good, what it leaves out, and whether that is certain;
// "": there is none.
func (m *mapping) quality() (text, comment string, certain bool) {
	n := len(m.t.points)
	for _, f := range m.t.fields {
		if hint(f.path, qualityWords, nil) <= 0 || !identifierSteps.MatchString(f.path) || m.readings == "@value" || m.inKey(f.path) {
			continue
		}
		k := f.kinds(n)
		condition, out, kept, left, strange := "", 0, "", []string(nil), false
		switch {
		case k[schemas.LeafText] >= n*95/100 && len(f.texts) <= 12:
			condition, out, kept, left, strange = f.goodTexts()
		case k[schemas.LeafBool] >= n*95/100:
			condition, out, kept, left = f.goodBool()
		case k[schemas.LeafInt] >= n*95/100 && hint(f.path, words("quality"), nil) > 0:
			condition, out, kept, left = f.goodCode()
		}
		if condition == "" {
			continue
		}
		if k[schemas.LeafNull] > 0 {
			condition = fmt.Sprintf("!has(%s) || %s", f.path, condition)
		}
		return condition, fmt.Sprintf("%s is %s in %s of %s; this leaves out %s: %s.", f.path, kept, count(n-out, ""), count(n, m.noun()),
			count(out, m.noun()), strings.Join(left, ", ")), !strange && out <= n/2
	}
	return "", "", false
}

// inKey reports whether a field is a part of the series key.
func (m *mapping) inKey(path string) bool {
	return slices.ContainsFunc(m.settings, func(s settingsfile.Setting) bool {
		return s.Key == "key_field" && !s.Off && slices.Contains(strings.Split(s.Value, "+"), path)
	})
}

// goodTexts returns the condition that a field has one of its good texts, how many records that leaves out and why; strange: not all
// of the other texts are known to be bad.
func (f *field) goodTexts() (condition string, out int, kept string, left []string, strange bool) {
	counts := make([]int, len(f.texts))
	for i := range f.cells {
		if f.cells[i].kind == schemas.LeafText {
			counts[f.cells[i].text]++
		}
	}
	var good []string
	for i, text := range f.texts {
		if counts[i] == 0 {
			continue
		}
		word := strings.ToLower(strings.ReplaceAll(text, " ", "_"))
		if goodTexts[word] {
			good = append(good, strconv.Quote(text))
			continue
		}
		strange = strange || !badTexts[word] && !strings.HasPrefix(word, "bad") && !strings.HasPrefix(word, "uncertain")
		out += counts[i]
		left = append(left, fmt.Sprintf("%s in %s", text, count(counts[i], "")))
	}
	if len(good) == 0 || out == 0 {
		return "", 0, "", nil, false
	}
	slices.Sort(good)
	slices.Sort(left)
	return f.path + " in [" + strings.Join(good, ", ") + "]", out, strings.Join(good, " or "), left, strange
}

// goodBool is goodTexts of true and false.
func (f *field) goodBool() (condition string, out int, kept string, left []string) {
	if hint(f.path, words("good valid ok"), nil) <= 0 {
		return "", 0, "", nil
	}
	for i := range f.cells {
		if f.cells[i].kind == schemas.LeafBool && f.cells[i].int == 0 {
			out++
		}
	}
	if out == 0 {
		return "", 0, "", nil
	}
	return f.path, out, "true", []string{fmt.Sprintf("false in %s", count(out, ""))}
}

// goodCode is goodTexts of OPC's codes of quality, of which 192 and more are good.
func (f *field) goodCode() (condition string, out int, kept string, left []string) {
	const good = 192
	counts := map[int64]int{}
	for i := range f.cells {
		if f.cells[i].kind == schemas.LeafInt {
			counts[f.cells[i].int]++
		}
	}
	if counts[good] == 0 || len(counts) > 12 {
		return "", 0, "", nil
	}
	for _, code := range sortedKeys(counts) {
		if code < 0 || code > 255 {
			return "", 0, "", nil
		}
		if code < good {
			out += counts[code]
			left = append(left, fmt.Sprintf("%d in %s", code, count(counts[code], "")))
		}
	}
	if out == 0 {
		return "", 0, "", nil
	}
	return fmt.Sprintf("%s >= %d", f.path, good), out, "192 or more, which is good in OPC,", left
}

// inRecordKey begins the paths of the fields of the Kafka key.
const inRecordKey = recordKey + "."

// ofRecordKey reports whether a candidate is the Kafka key, or a field of it.
func ofRecordKey(path string) bool { return path == recordKey || strings.HasPrefix(path, inRecordKey) }

// keyFields returns the fields of the Kafka key that may be the series key, where the key names a schema or is JSON; nil: it has none.
func (m *mapping) keyFields() (list []*named) {
	n := len(m.t.points)
	opts := formats.Options{Format: m.format}
	inspector, err := formats.NewInspector(m.c.Registry, opts)
	if err != nil {
		return nil
	}
	texts := map[string][]string{} // by path: of each point
	var paths []string
	var out = schemas.Leaves{Most: maxRecordLeaves}
	var last []byte
	known := 0
	for i := range m.t.points {
		key := m.t.points[i].raw.key
		framed := len(key) > 5 && key[0] == schemas.MagicID
		if !framed && (m.format != "json" || len(key) == 0 || key[0] != '{') {
			continue
		}
		if i == 0 || !bytes.Equal(key, last) {
			if _, err := inspector.Leaves(context.Background(), key, nil, &out); err != nil {
				out.Reset()
				last = nil
				continue
			}
			last = key
		}
		known++
		for j := range out.List {
			l := &out.List[j]
			text := l.Text
			switch {
			case l.Array != "" || l.Kind != schemas.LeafText && l.Kind != schemas.LeafInt:
				continue
			case l.Kind == schemas.LeafInt:
				text = strconv.FormatInt(l.Int, 10)
			}
			if texts[l.Path] == nil {
				texts[l.Path] = make([]string, n)
				paths = append(paths, l.Path)
			}
			texts[l.Path][i] = text
		}
	}
	if known < n*95/100 {
		return nil
	}
	for _, path := range paths {
		k := newNamed(inRecordKey+path, -1, n, func(i int) (string, bool) { return texts[path][i], texts[path][i] != "" })
		if k.n < n || slices.ContainsFunc(k.texts, unreadable) {
			continue
		}
		if k.hint = hint(path, entityWords, stateWords); path == "@value" {
			k.hint = 1
		}
		list = append(list, k)
	}
	return list
}
