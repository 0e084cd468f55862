package json

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	std "encoding/json"

	"odradek/schemas"
)

// Format is the row of JSON in the table of formats.
var Format = schemas.Format{
	Name: "json", Type: "JSON", Title: "JSON", Plain: true,
	Compile: func(l *schemas.Layout, s *schemas.Schema) schemas.Program {
		p := newProgram(l, s.ID)
		if l.Item == nil {
			return p
		}
		item := newProgram(l.Item, s.ID)
		item.valid = true // as the record is
		return schemas.NewBatch(l, s.ID, p, item)
	},
	Fields: parseSchema,
	Text:   Text,
	Leaves: leavesOf,
}

// program follows the mapped paths through a record, regardless of its schema.
type program struct {
	layout *schemas.Layout
	id     int32
	clock  schemas.Clock
	root   step
	valid  bool                   // what it reads is known to be JSON
	scales atomic.Pointer[scales] // of the last record with a schema in front
}

func newProgram(l *schemas.Layout, id int32) *program {
	p := &program{layout: l, id: id, clock: schemas.ClockIn(l.Unit)}
	for i := range l.Sinks {
		at := p.root.add(l.Sinks[i].Segs, 0, int32(i))
		at.readings = at.readings || l.Sinks[i].Role == schemas.RoleReadings
		at.wildcard = at.wildcard || l.Sinks[i].Wildcard
	}
	return p
}

// step is a place in a record that mapped paths lead to, or through.
type step struct {
	sinks  []int32 // paths that end here
	below  []int32 // paths that lead on from here
	names  []string
	steps  []*step // the places below, by name
	byName map[string]*step
	arrays []array
	// readings says that the array of readings is here. No other path leads here or on from here: it would be one of
	// the items.
	readings bool
	wildcard bool // each number below is a value
}

// array is a place where paths go on in each item of an array of count items.
type array struct {
	count int
	item  *step
}

// manyNames is the number of names from which a step looks them up in a map.
const manyNames = 12

// add adds a path that continues with segs, with count > 0 through the items of an array first, and returns where it ends.
func (s *step) add(segs []schemas.Segment, count int, sink int32) *step {
	switch {
	case count > 0:
		s.below = append(s.below, sink)
		for i := range s.arrays {
			if s.arrays[i].count == count {
				return s.arrays[i].item.add(segs, 0, sink)
			}
		}
		item := &step{}
		s.arrays = append(s.arrays, array{count, item})
		return item.add(segs, 0, sink)
	case len(segs) == 0:
		s.sinks = append(s.sinks, sink)
		return s
	default:
		s.below = append(s.below, sink)
		next := s.find([]byte(segs[0].Name))
		if next == nil {
			next = &step{}
			s.names = append(s.names, segs[0].Name)
			s.steps = append(s.steps, next)
			if len(s.names) >= manyNames {
				s.byName = map[string]*step{}
				for i, name := range s.names {
					s.byName[name] = s.steps[i]
				}
			}
		}
		return next.add(segs[1:], segs[0].Count, sink)
	}
}

// find returns the step of a name, nil for a name that no path contains.
func (s *step) find(name []byte) *step {
	if s.byName != nil {
		return s.byName[string(name)]
	}
	for i := range s.names {
		if s.names[i] == string(name) {
			return s.steps[i]
		}
	}
	return nil
}

// maxDepth bounds the nesting of arrays and objects, as in Avro.
const maxDepth = 64

var (
	errDeep      = fmt.Errorf("arrays and objects nested deeper than %d", maxDepth)
	errDuplicate = errors.New("an object has the field twice")
	errSurrogate = errors.New("a text has half of a surrogate pair")
)

// Decode implements schemas.Program.
func (p *program) Decode(key, body []byte, timestampMs int64, out *schemas.Reading) error {
	if !p.valid && !std.Valid(body) {
		return p.invalid(body)
	}
	p.layout.Reset(out, p.id)
	out.Expect()
	w := walk{program: p, b: body, out: out, sink: -1}
	w.pos = space(body, 0)
	if w.value(&p.root, -1, 0); w.err != nil {
		e := &schemas.DecodeError{Class: schemas.ClassMalformed, SchemaID: p.id, Err: w.err}
		if w.err == errDeep { //nolint:errorlint // never wrapped
			e.Class = schemas.ClassTooLarge
		}
		if w.sink >= 0 {
			e.Field = p.layout.Sinks[w.sink].Text
		}
		return e
	}
	if met := out.FillMissing(); p.layout.Item != nil {
		if !out.HasItems() {
			out.Fail(int32(len(p.layout.Sinks)-1), schemas.FaultBranch)
		}
	} else if !met && !p.layout.Computes() && !out.HasLeaves() {
		for i := range p.layout.Sinks {
			if p.layout.Sinks[i].Role == schemas.RoleValue {
				out.Fail(int32(i), schemas.FaultBranch)
				break
			}
		}
	}
	return p.layout.Finish(key, timestampMs, out)
}

// invalid returns the error for bytes that are not one JSON text. It gives the position, and
// nothing of the record's content.
func (p *program) invalid(body []byte) error {
	e := &schemas.DecodeError{Class: schemas.ClassMalformed, SchemaID: p.id}
	var raw std.RawMessage
	var s *std.SyntaxError
	if err := std.Unmarshal(body, &raw); !errors.As(err, &s) {
		e.Err = errors.New("not JSON")
		return e
	}
	at := max(s.Offset-1, 0)
	rest := string(body[min(at, int64(len(body))):])
	switch text := s.Error(); {
	case strings.Contains(text, "unexpected end"), strings.Contains(text, "character ' '") && !strings.HasPrefix(rest, " "):
		// Within an escape, encoding/json takes the end for a space.
		e.Class, e.Err = schemas.ClassTruncated, errors.New("the record ends too early")
	case strings.HasSuffix(text, "after top-level value"):
		e.Class, e.Err = schemas.ClassTrailingBytes, fmt.Errorf("%d bytes behind the record's end", int64(len(body))-at)
	case strings.Contains(text, "max depth"):
		e.Class, e.Err = schemas.ClassTooLarge, errDeep
	case strings.HasPrefix(rest, "NaN"), strings.HasPrefix(rest, "Inf"), strings.HasPrefix(rest, "-Inf"), strings.HasPrefix(rest, "Infinity"):
		e.Err = fmt.Errorf("not JSON at byte %d: NaN and infinity have no form in JSON, write null", at)
	default:
		e.Err = fmt.Errorf("not JSON at byte %d", at)
	}
	return e
}
