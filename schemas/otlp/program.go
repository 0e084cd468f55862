package otlp

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"odradek/schemas"
	"odradek/schemas/expression"
)

// Format is the row of OTLP in the table of formats.
var Format = schemas.Format{
	Name: "otlp", Type: "OTLP", Title: "OTLP metrics", Plain: true, Fixed: true, Several: true, Lacking: true,
	Compile: func(l *schemas.Layout, s *schemas.Schema) schemas.Program { return newProgram(l, s.ID) },
	Fields:  func(*schemas.Schema) (schemas.Fields, error) { return fields{}, nil },
	Text:    text,
	Leaves:  func(*schemas.Schema) (func([]byte, *schemas.Leaves) error, error) { return leaves, nil },
	Like:    like,
}

// level is where a part of the key stands.
type level uint8

const (
	levelResource level = iota
	levelScope
	levelMetric
	levelPoint
	levels
)

// The paths, or what they begin with.
const (
	pathResource   = "resource"
	pathScope      = "scope"
	pathName       = "name"
	pathUnit       = "unit"
	pathType       = "type"
	pathAttributes = "attributes"
	pathValue      = "value"
	pathGauge      = "gauge"
	pathCounter    = "counter"
	pathTime       = "time"
)

// fixedLevels are the levels of the paths of one step that are parts of a key.
var fixedLevels = map[string]level{pathScope: levelScope, pathName: levelMetric, pathUnit: levelMetric, pathType: levelMetric}

// program reads the data points of records.
type program struct {
	layout      *schemas.Layout
	id          int32
	value, time int32 // paths; time is -1 where the times are Kafka's
	// split has the paths of gauge and of counter; -1: not wanted. With none of the two, all values are value's.
	split    [2]int32
	parted   bool
	wanted   [levels][]wanted
	operands [levels][]wanted     // what expressions use
	ofPoint  []wanted             // of these the value and the time
	used     int                  // slots of operands
	err      *schemas.DecodeError // set: no record can be read
}

// wanted is a part of the key, or what an expression uses.
type wanted struct {
	name string
	slot int
}

func newProgram(l *schemas.Layout, id int32) *program {
	p := &program{layout: l, id: id, value: -1, time: -1, split: [2]int32{-1, -1}}
	refuse := func(class, field, text string) *program {
		p.err = &schemas.DecodeError{Class: class, Field: field, SchemaID: id, Err: errors.New(text)}
		return p
	}
	if l.Item == nil || len(l.Sinks) > 1 || len(l.Sinks[0].Segs) > 0 {
		return refuse(schemas.ClassMissingField, "@value", "a record is an array of readings: set readings_field=@value")
	}
	for i := range l.Item.Sinks {
		s := &l.Item.Sinks[i]
		if bad := (fields{}).Find(s); bad != nil {
			if s.Role == schemas.RoleOperand {
				continue // no record has it
			}
			return refuse(bad.Class, s.Text, s.Role.String()+" "+bad.Text)
		}
		to := &p.wanted
		if s.Role == schemas.RoleOperand {
			p.used = max(p.used, s.Slot+1)
			if first := s.Segs[0].Name; first == pathValue || first == pathTime {
				p.ofPoint = append(p.ofPoint, wanted{first, s.Slot})
				continue
			}
			to = &p.operands
		}
		switch first := s.Segs[0].Name; first {
		case pathValue:
			p.value = int32(i)
		case pathGauge:
			p.split[0], p.parted = int32(i), true
		case pathCounter:
			p.split[1], p.parted = int32(i), true
		case pathTime:
			p.time = int32(i)
		case pathResource:
			to[levelResource] = append(to[levelResource], wanted{s.Segs[1].Name, s.Slot})
		case pathAttributes:
			to[levelPoint] = append(to[levelPoint], wanted{s.Segs[1].Name, s.Slot})
		default:
			to[fixedLevels[first]] = append(to[fixedLevels[first]], wanted{first, s.Slot})
		}
	}
	if !p.parted && p.value < 0 { // all values are computed
		p.value = 0
	}
	return p
}

// Decode implements schemas.Program.
func (p *program) Decode(key, body []byte, timestampMs int64, out *schemas.Reading) error {
	if p.err != nil {
		return p.err
	}
	item, err := p.layout.BeginReadings(key, timestampMs, out, p.id)
	if err != nil {
		return err
	}
	w := walk{program: p, key: key, timestampMs: timestampMs, out: out, item: item}
	if p.used > 0 {
		w.used = make([]expression.Operand, p.used)
	}
	if err := w.record(body); err != nil {
		var e *schemas.DecodeError
		if errors.As(err, &e) {
			return e
		}
		e = &schemas.DecodeError{Class: schemas.ClassMalformed, SchemaID: p.id, Err: fmt.Errorf("not OTLP after reading %d: %w", w.n, err)}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			e.Class, e.Err = schemas.ClassTruncated, fmt.Errorf("the record ends too early, after reading %d", w.n)
		}
		return e
	}
	if w.unmapped > 0 && w.unmapped == w.n {
		out.Skip(schemas.SkippedUnmapped)
		return nil
	}
	p.layout.EndReadings(out)
	return nil
}

// walk is told of what is in a record, level by level.
type walk struct {
	*program
	key         []byte
	timestampMs int64
	out, item   *schemas.Reading
	parts       [schemas.MaxKeyParts]schemas.KeyPart
	found       [schemas.MaxKeyParts]bool
	used        []expression.Operand // by their slots
	counter     bool                 // the metric is one
	n           int                  // readings
	unmapped    int                  // of these, without a mapped value

	list  *schemas.Leaves // where values are listed in the place of readings
	leafs [levels][]leaf
}

// leaf is a part of the key that is listed.
type leaf struct {
	path string
	part schemas.KeyPart
}

func (w *walk) record(body []byte) error {
	if len(body) > 0 && body[0] == '{' {
		return w.json(body)
	}
	return w.request(body)
}

// clearLevel forgets the resource, scope, metric or data point before.
func (w *walk) clearLevel(l level) {
	for _, x := range w.wanted[l] {
		w.parts[x.slot], w.found[x.slot] = schemas.KeyPart{Kind: schemas.KeyEmpty}, false
	}
	for _, x := range w.operands[l] {
		w.used[x.slot] = expression.Operand{}
	}
	w.leafs[l] = w.leafs[l][:0]
}

// wants reports whether a part of the key of that level and name is looked for.
func (w *walk) wants(l level, name []byte) bool {
	for _, x := range w.wanted[l] {
		if x.name == string(name) && !w.found[x.slot] {
			return true
		}
	}
	for _, x := range w.operands[l] {
		if x.name == string(name) {
			return true
		}
	}
	return w.list != nil
}

// set notes what a record has as a part of the key or for expressions. Of an attribute that comes twice the first counts.
func (w *walk) set(l level, name []byte, v expression.Operand) {
	for _, x := range w.wanted[l] {
		if x.name == string(name) && !w.found[x.slot] {
			w.parts[x.slot], w.found[x.slot] = keyPartOf(&v), true
		}
	}
	for _, x := range w.operands[l] {
		if x.name == string(name) && w.used[x.slot].Kind == expression.Unknown {
			w.used[x.slot].Set(v)
		}
	}
	if w.list == nil {
		return
	}
	part := keyPartOf(&v)
	path := string(name)
	switch l {
	case levelResource:
		path = schemas.Under(pathResource, path)
	case levelPoint:
		path = schemas.Under(pathAttributes, path)
	}
	w.leafs[l] = append(w.leafs[l], leaf{path, part})
}

// keyPartOf returns the part of a key that a value is: nothing is written of an empty text, and an array or a map is none.
func keyPartOf(v *expression.Operand) schemas.KeyPart {
	text := v.Text
	switch v.Kind {
	case expression.Null:
		return schemas.KeyPart{}
	case expression.Int:
		return schemas.KeyPart{Kind: schemas.KeyNumber, Num: v.Num}
	case expression.Bool:
		text = strconv.AppendBool(nil, v.Num != 0)
	case expression.Double:
		text = strconv.AppendFloat(nil, v.Float, 'g', -1, 64)
	}
	if len(text) == 0 {
		return schemas.KeyPart{Kind: schemas.KeyEmpty}
	}
	return schemas.KeyPart{Kind: schemas.KeyText, Text: text}
}

func textOf(text []byte) expression.Operand {
	return expression.Operand{Kind: expression.Text, Text: text}
}

func boolOf(v bool) expression.Operand {
	o := expression.Operand{Kind: expression.Bool}
	if v {
		o.Num = 1
	}
	return o
}

func intOf(n int64) expression.Operand { return expression.Operand{Kind: expression.Int, Num: n} }

func floatOf(f float64) expression.Operand {
	return expression.Operand{Kind: expression.Double, Float: f}
}

// metric is what is known of a metric before its data points.
type metric struct {
	kind        kind
	name, unit  []byte
	temporality uint64
	monotonic   bool
	count, sum  []byte // the names of the two readings of a histogram, made when they are needed
}

// kind is the number of the member of a metric's oneof.
type kind int

const (
	kindGauge       kind = 5
	kindSum         kind = 7
	kindHistogram   kind = 9
	kindExponential kind = 10
	kindSummary     kind = 11
)

// The temporalities.
const (
	delta      = 1
	cumulative = 2
)

// typeOf says what kind of series a metric is.
func (m *metric) typeOf() string {
	switch {
	case m.kind == kindGauge:
		return pathGauge
	case m.kind == kindSummary:
		return pathCounter
	case m.temporality == delta:
		return "delta"
	case m.temporality == cumulative && (m.kind != kindSum || m.monotonic):
		return pathCounter
	}
	return "sum"
}

// startMetric notes what parts of the key a metric has.
func (w *walk) startMetric(m *metric) {
	w.clearLevel(levelMetric)
	w.counter = m.typeOf() == pathCounter
	w.set(levelMetric, []byte(pathName), textOf(m.name))
	if w.wants(levelMetric, []byte(pathUnit)) {
		w.set(levelMetric, []byte(pathUnit), textOf(m.unit))
	}
	if w.wants(levelMetric, []byte(pathType)) {
		w.set(levelMetric, []byte(pathType), textOf([]byte(m.typeOf())))
	}
}

// rename sets the name of the metric's next readings.
func (w *walk) rename(name []byte) {
	v := textOf(name)
	for _, x := range w.wanted[levelMetric] {
		if x.name == pathName {
			w.parts[x.slot] = keyPartOf(&v)
		}
	}
	for _, x := range w.operands[levelMetric] {
		if x.name == pathName {
			w.used[x.slot].Set(v)
		}
	}
	if w.list != nil {
		w.leafs[levelMetric][0].part = keyPartOf(&v)
	}
}

// point is a data point.
type point struct {
	time  uint64
	value float64 // of a gauge or a sum
	count float64
	sum   float64
	total bool // it has a sum
	flags uint64
}

const noRecordedValue = 1

// add adds the readings of a data point, whose attributes have been set.
func (w *walk) add(m *metric, p *point) error {
	missing := p.flags&noRecordedValue != 0
	if missing {
		p.value, p.count, p.sum = math.NaN(), math.NaN(), math.NaN()
	}
	if m.kind == kindGauge || m.kind == kindSum {
		return w.reading(p.time, p.value)
	}
	if m.count == nil {
		m.count = append(m.name[:len(m.name):len(m.name)], ".count"...)
		m.sum = append(m.name[:len(m.name):len(m.name)], ".sum"...)
	}
	w.rename(m.count)
	if err := w.reading(p.time, p.count); err != nil || !p.total {
		return err
	}
	w.rename(m.sum)
	return w.reading(p.time, p.sum)
}

// reading adds a reading.
func (w *walk) reading(time uint64, v float64) error {
	if w.list != nil {
		return w.listed(time, v)
	}
	l, item := w.layout.Item, w.item
	l.Reset(item, w.id)
	for i := range w.wanted {
		for _, x := range w.wanted[i] {
			item.KeyParts[x.slot] = w.parts[x.slot]
		}
	}
	w.express(time, v)
	if !w.parted {
		item.Values[0] = schemas.Finite(v, w.value, item)
	} else if !w.setValue(v, item) {
		w.n, w.unmapped = w.n+1, w.unmapped+1
		return nil
	}
	switch {
	case w.time < 0:
	case time == 0:
		if w.timestampMs >= 0 {
			item.Time, _ = schemas.ClockMillis.Micros(w.timestampMs)
		}
	case time > math.MaxInt64:
		item.Fail(w.time, schemas.FaultTimeRange)
	default:
		item.Time, _ = schemas.ClockNanos.Micros(int64(time))
	}
	err := l.Finish(w.key, w.timestampMs, item)
	if err == nil && item.Skipped == schemas.NotSkipped {
		err = w.layout.AddReading(w.out)
	}
	if err != nil {
		return schemas.Located(err, "reading", w.n)
	}
	w.n++
	return nil
}

// setValue sets the fields value, gauge and counter as far as a reading has them, and reports whether one of them is mapped.
func (w *walk) setValue(v float64, item *schemas.Reading) bool {
	own := w.split[0]
	if w.counter {
		own = w.split[1]
	}
	item.Expect()
	for _, i := range [2]int32{w.value, own} {
		if i >= 0 {
			item.Values[w.layout.Item.Sinks[i].Slot] = schemas.Finite(v, i, item)
		}
	}
	return item.FillAbsent() || w.layout.Item.Computable(item)
}

// express sets what expressions use of a reading.
func (w *walk) express(time uint64, v float64) {
	for i := range w.operands {
		for _, x := range w.operands[i] {
			w.item.Operand(x.slot).Set(w.used[x.slot])
		}
	}
	for _, x := range w.ofPoint {
		switch {
		case x.name == pathTime && time > 0 && time <= math.MaxInt64:
			t, _ := schemas.ClockNanos.Micros(int64(time))
			w.item.Operand(x.slot).Set(expression.Operand{Kind: expression.Time, Num: t})
		case x.name == pathValue && v == v:
			w.item.Operand(x.slot).Set(floatOf(v))
		}
	}
}
