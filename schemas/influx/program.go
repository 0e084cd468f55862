package influx

import (
	"errors"
	"strconv"
	"strings"

	"odradek/schemas"
	"odradek/schemas/expression"
)

// Format is the row of the line protocol in the table of formats.
var Format = schemas.Format{
	Name: "influx", Type: "INFLUX", Title: "Influx line protocol", Plain: true, Fixed: true, Lacking: true,
	Compile: func(l *schemas.Layout, s *schemas.Schema) schemas.Program { return newProgram(l, s.ID) },
	Fields:  func(*schemas.Schema) (schemas.Fields, error) { return fields{}, nil },
	Text: func(_ *schemas.Schema, body []byte) ([]string, error) {
		return strings.Split(strings.TrimSuffix(strings.ToValidUTF8(string(body), "\uFFFD"), "\n"), "\n"), nil
	},
	Like:   like,
	Leaves: func(*schemas.Schema) (func([]byte, *schemas.Leaves) error, error) { return leaves, nil },
}

// The first steps of paths.
const (
	pathMeasurement = "name"
	pathTags        = "tags"
	pathFields      = "fields"
	pathTimestamp   = "timestamp"
)

// program reads the mapped tags and fields of lines.
type program struct {
	layout *schemas.Layout
	line   *schemas.Layout // of a line
	id     int32
	clock  schemas.Clock

	measurement  []int32 // paths
	time         int32   // path; -1: the times are Kafka's
	tags, fields names
	wildcard     int32                // the path of each number; -1: there is none
	operands     []int32              // paths that expressions use
	err          *schemas.DecodeError // set: no record can be read
}

// names finds the paths of a name.
type names struct {
	list   []string
	sinks  [][]int32
	byName map[string]int // where there are many
}

// manyNames is the number of names from which they are looked up in a map.
const manyNames = 12

func (n *names) add(name string, sink int32) {
	for i := range n.list {
		if n.list[i] == name {
			n.sinks[i] = append(n.sinks[i], sink)
			return
		}
	}
	n.list, n.sinks = append(n.list, name), append(n.sinks, []int32{sink})
	if len(n.list) >= manyNames {
		n.byName = map[string]int{}
		for i, name := range n.list {
			n.byName[name] = i
		}
	}
}

// find returns the paths of a token; none for another name.
func (n *names) find(t *token) []int32 {
	name := t.text(tagEscapes)
	if n.byName != nil {
		if i, ok := n.byName[string(name)]; ok {
			return n.sinks[i]
		}
		return nil
	}
	for i := range n.list {
		if n.list[i] == string(name) {
			return n.sinks[i]
		}
	}
	return nil
}

func newProgram(l *schemas.Layout, id int32) *program {
	p := &program{layout: l, line: l, id: id, time: -1, wildcard: -1, clock: schemas.ClockNanos}
	if l.Unit != "" {
		p.clock = schemas.ClockIn(l.Unit)
	}
	if l.Item != nil {
		p.line = l.Item
		if len(l.Sinks) > 1 || len(l.Sinks[0].Segs) > 0 {
			p.err = &schemas.DecodeError{Class: schemas.ClassMissingField, Field: l.Sinks[0].Text, SchemaID: id,
				Err: errors.New("the array of lines is @value")}
			return p
		}
	}
	for i := range p.line.Sinks {
		s := &p.line.Sinks[i]
		if bad := (fields{}).Find(s); bad != nil {
			if s.Role == schemas.RoleOperand {
				continue
			}
			p.err = &schemas.DecodeError{Class: bad.Class, Field: s.Text, SchemaID: id, Err: errors.New(s.Role.String() + " " + bad.Text)}
			return p
		}
		if s.Role == schemas.RoleOperand {
			p.operands = append(p.operands, int32(i))
		}
		switch sink := int32(i); s.Segs[0].Name {
		case pathMeasurement:
			p.measurement = append(p.measurement, sink)
		case pathTags:
			p.tags.add(s.Segs[1].Name, sink)
		case pathFields:
			if s.Wildcard {
				p.wildcard = sink
				break
			}
			p.fields.add(s.Segs[1].Name, sink)
		case pathTimestamp:
			p.time = sink
		}
	}
	return p
}

// Decode implements schemas.Program.
func (p *program) Decode(key, body []byte, timestampMs int64, out *schemas.Reading) (err error) {
	if p.err != nil {
		return p.err
	}
	several, line := p.layout.Item != nil, out
	if several {
		if line, err = p.layout.BeginReadings(key, timestampMs, out, p.id); err != nil {
			return err
		}
	}
	s := scan{b: body, line: 1}
	read := 0
	for n := 0; s.next(); n++ {
		number := s.line
		if n > 0 && !several {
			s.fail("a record of several lines needs readings_field=@value")
		} else {
			p.line.Reset(line, p.id)
			line.Expect()
			p.read(&s, timestampMs, line)
		}
		if s.err != nil {
			return &schemas.DecodeError{Class: schemas.ClassMalformed, SchemaID: p.id, Err: s.err}
		}
		if !line.FillAbsent() && !p.line.Computable(line) && !line.HasLeaves() {
			continue
		}
		if err = p.line.Finish(key, timestampMs, line); err == nil && several && line.Skipped == schemas.NotSkipped {
			err = p.layout.AddReading(out)
		}
		if err != nil {
			return schemas.Located(err, "line", number)
		}
		read++
	}
	if read == 0 {
		out.Skip(schemas.SkippedUnmapped)
	} else if several {
		p.layout.EndReadings(out)
	}
	return nil
}

// read reads a line, in which it notes faults of its form in s.err.
func (p *program) read(s *scan, timestampMs int64, out *schemas.Reading) {
	name := s.measurement()
	for _, i := range p.measurement {
		p.text(s, i, name.text(nameEscapes), out)
	}
	for {
		name, value, ok := s.tag()
		if !ok {
			break
		}
		for _, i := range p.tags.find(&name) {
			p.text(s, i, value.text(tagEscapes), out)
		}
	}
	for more := true; more && s.err == nil; {
		var name token
		var value []byte
		if name, value, more = s.field(); s.err == nil && p.wildcard >= 0 {
			p.leaf(s, &name, value, out)
		}
		if s.err != nil || value[0] == '"' && len(p.operands) == 0 {
			continue
		}
		for _, i := range p.fields.find(&name) {
			p.value(s, value, i, out)
		}
	}
	p.moment(s, s.timestamp(), timestampMs, out)
	for _, sinks := range p.tags.sinks {
		for _, i := range sinks {
			if s := &p.line.Sinks[i]; s.Role == schemas.RoleKey && out.KeyParts[s.Slot].Kind == schemas.KeyNone {
				out.KeyParts[s.Slot].Kind = schemas.KeyEmpty
			}
		}
	}
}

// text sets a part of a key, or what an expression uses, to a measurement or the value of a tag.
func (p *program) text(s *scan, sink int32, text []byte, out *schemas.Reading) {
	slot := p.line.Sinks[sink].Slot
	if p.line.Sinks[sink].Role == schemas.RoleOperand {
		o := out.Operand(slot)
		if o.Kind != expression.Unknown {
			s.fail("a mapped tag comes twice")
		}
		o.Set(expression.Operand{Kind: expression.Text, Text: text})
		return
	}
	part := &out.KeyParts[slot]
	if part.Kind != schemas.KeyNone {
		s.fail("a mapped tag comes twice")
	}
	*part = schemas.KeyPart{Kind: schemas.KeyText, Text: text}
}

// unquote takes the escapes out of the text of a field.
var unquote = strings.NewReplacer(`\"`, `"`, `\\`, `\`)

// operand sets what an expression uses to the value of a field.
func (p *program) operand(s *scan, text []byte, o *expression.Operand) {
	if o.Kind != expression.Unknown {
		s.fail("a mapped field comes twice")
		return
	}
	v, ok := number(text)
	last := len(text) - 1
	switch c := text[0] | 0x20; {
	case text[0] == '"':
		o.Set(expression.Operand{Kind: expression.Text, Text: []byte(unquote.Replace(string(text[1:last])))})
	case !ok:
		s.fail("the value before is no number and no Boolean")
	case c == 't' || c == 'f':
		o.Set(expression.Operand{Kind: expression.Bool, Num: int64(v)})
	case text[last] == 'i':
		n, _ := strconv.ParseInt(string(text[:last]), 10, 64)
		o.Set(expression.Operand{Kind: expression.Int, Num: n})
	default:
		o.Set(expression.Operand{Kind: expression.Double, Float: v})
	}
}

// value reads a number or a Boolean.
func (p *program) value(s *scan, text []byte, sink int32, out *schemas.Reading) {
	slot := p.line.Sinks[sink].Slot
	switch {
	case p.line.Sinks[sink].Role == schemas.RoleOperand:
		p.operand(s, text, out.Operand(slot))
		return
	case text[0] == '"':
		return
	}
	if out.Met(slot) {
		s.fail("a mapped field comes twice")
		return
	}
	v, ok := number(text)
	if !ok {
		s.fail("the value before is no number and no Boolean")
		return
	}
	out.Values[slot] = schemas.Finite(v, sink, out)
}

// leaf adds the number of a field where each is a value.
func (p *program) leaf(s *scan, name *token, text []byte, out *schemas.Reading) {
	out.FindLeaves()
	back := out.Enter(name.text(tagEscapes))
	c := text[0] | 0x20
	v, ok := number(text)
	switch {
	case text[0] == '"':
		p.line.AddTextLeaf([]byte(unquote.Replace(string(text[1:len(text)-1]))), p.wildcard, out)
	case !ok:
		s.fail("the value before is no number and no Boolean")
	case c == 't' || c == 'f':
		p.line.LeaveOut(out)
	default:
		p.line.AddLeaf(v, p.wildcard, out)
	}
	out.Exit(back)
}

// number returns the value of a number or a Boolean; infinity for a number beyond float64.
func number(text []byte) (v float64, ok bool) {
	var err error
	switch last := len(text) - 1; {
	case text[0] == 't' || text[0] == 'T' || text[0] == 'f' || text[0] == 'F':
		switch string(text) {
		case "t", "T", "true", "True", "TRUE":
			return 1, true
		case "f", "F", "false", "False", "FALSE":
			return 0, true
		}
		return 0, false
	case text[last] == 'i':
		var i int64
		i, err = strconv.ParseInt(string(text[:last]), 10, 64)
		v = float64(i)
	case text[last] == 'u':
		var u uint64
		u, err = strconv.ParseUint(string(text[:last]), 10, 64)
		v = float64(u)
	default:
		v, err = strconv.ParseFloat(string(text), 64)
		if errors.Is(err, strconv.ErrRange) {
			return v, true
		}
		ok = v-v == 0 // no Inf or NaN by name
		return v, ok && err == nil
	}
	return v, err == nil
}

// moment reads the time of a line.
func (p *program) moment(s *scan, text []byte, timestampMs int64, out *schemas.Reading) {
	if p.time < 0 || s.err != nil {
		return
	}
	if len(text) == 0 {
		if timestampMs >= 0 {
			out.Time, _ = schemas.ClockMillis.Micros(timestampMs)
		}
		return
	}
	v, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		s.fail("the timestamp before is no whole number")
		return
	}
	t, ok := p.clock.Micros(v)
	if out.Time = t; !ok || err != nil {
		out.Time = schemas.NoTime
		out.Fail(p.time, schemas.FaultTimeRange)
	}
}
