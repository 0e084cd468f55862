package protobuf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"odradek/schemas"
)

// program reads the records of a schema: the indexes that name one of its messages, then
// that message.
type program struct {
	layout   *schemas.Layout
	id       int32
	messages []messageProgram
	byName   [][]byte // see Indexes
}

// messageProgram reads one message of a schema.
type messageProgram struct {
	layout *schemas.Layout
	id     int32
	plan   *message
	arrays []array
	clock  schemas.Clock
	batch  schemas.Program // set: the records have an array of readings
	// operands are the slots of what expressions use and the message has: null in a record without a value.
	operands []int
	// all is set where each number of the message is a value.
	all          protoreflect.MessageDescriptor
	wildcardSink int32
	// nested are the messages declared inside, by their index.
	nested []messageProgram
	err    *schemas.DecodeError // set: no record of this message can be read
}

// compile compiles the messages that the schema declares in list, in their order. Confluent's
// serializer for Java counts the messages of the schema's text: an entry of a map is one of
// them where it is declared as a message (withEntries), not where the field is a map<>.
func (f *file) compile(l *schemas.Layout, id int32, list protoreflect.MessageDescriptors, depth int) []messageProgram {
	out := make([]messageProgram, 0, list.Len())
	for i := range list.Len() {
		d := list.Get(i)
		if d.IsMapEntry() && !f.entries {
			continue
		}
		out = append(out, messageProgram{})
		p := &out[len(out)-1]
		item := p.compile(l, id, d)
		if l.Item != nil && p.err == nil {
			inner := &messageProgram{}
			inner.compile(l.Item, id, item)
			p.batch = schemas.NewBatch(l, id, recordOf{p}, inner)
		}
		if depth < maxNesting {
			p.nested = f.compile(l, id, d.Messages(), depth+1)
		}
	}
	return out
}

// compile compiles a message. If the layout has an array of readings, it returns the program of one item.
func (p *messageProgram) compile(l *schemas.Layout, id int32, d protoreflect.MessageDescriptor) (item protoreflect.MessageDescriptor) {
	*p = messageProgram{layout: l, id: id, clock: schemas.ClockIn(l.Unit)}
	refuse := func(class, field, text string) {
		p.err = &schemas.DecodeError{Class: class, Field: field, SchemaID: id, Err: errors.New(text)}
	}
	if d.IsMapEntry() {
		refuse(schemas.ClassMalformed, "", fmt.Sprintf("message %s is an entry of a map", d.FullName()))
		return nil
	}
	pl := planner{readings: -1, wildcard: -1}
	var wants []want
	for j := range l.Sinks {
		s := &l.Sinks[j]
		if bad := find(s, d, s.Segs); bad != nil {
			if s.Role == schemas.RoleOperand { // an expression may do without
				continue
			}
			refuse(bad.Class, s.Text, s.Role.String()+" "+bad.Text)
			return nil
		}
		if s.Role == schemas.RoleReadings {
			pl.readings = int32(j)
		}
		if s.Wildcard {
			if pl.wildcard = int32(j); len(s.Segs) == 0 {
				p.all, p.wildcardSink = d, pl.wildcard
				continue
			}
		}
		if s.Role == schemas.RoleOperand {
			p.operands = append(p.operands, s.Slot)
		}
		wants = append(wants, want{sink: int32(j), segs: s.Segs})
	}
	p.plan = pl.plan(d, wants)
	p.arrays = pl.arrays
	return pl.item
}

// recordOf reads what the readings of a record with an array of them share.
type recordOf struct{ *messageProgram }

// Decode implements schemas.Program.
func (r recordOf) Decode(key, body []byte, timestampMs int64, out *schemas.Reading) error {
	return r.decode(key, body, timestampMs, out)
}

var (
	errIndexes = errors.New("the record ends within the indexes of its message")
	errIndex   = errors.New("the schema has no message of these indexes")
)

// Message implements schemas.Nested.
func (p *program) Message(indexes []byte) (schemas.Program, []byte, error) {
	fail := func(class string, err error) (schemas.Program, []byte, error) {
		return nil, nil, &schemas.DecodeError{Class: class, SchemaID: p.id, Err: err}
	}
	count, n := binary.Varint(indexes)
	if n <= 0 {
		return fail(indexClass(n), errIndexes)
	}
	rest := indexes[n:]
	if count == 0 { // short for the first message
		return &p.messages[0], rest, nil
	}
	if count < 0 || count > maxNesting+1 {
		return fail(schemas.ClassMalformed, errIndex)
	}
	list := p.messages
	var m *messageProgram
	for range count {
		i, n := binary.Varint(rest)
		if n <= 0 {
			return fail(indexClass(n), errIndexes)
		}
		if i < 0 || i >= int64(len(list)) {
			return fail(schemas.ClassMalformed, errIndex)
		}
		m, rest = &list[i], rest[n:]
		list = m.nested
	}
	return m, rest, nil
}

// Indexes implements schemas.Nested.
func (p *program) Indexes(n uint64) []byte {
	if n >= uint64(len(p.byName)) {
		return nil
	}
	return p.byName[n]
}

// byName returns the indexes of all messages of the schema in the order of their full names, which AWS Glue's serializers count:
// with the entries of maps, which have none unless they are declared.
func (f *file) byName() (sorted [][]byte) {
	type entry struct {
		name    string
		indexes []byte
	}
	var all []entry
	var add func(list protoreflect.MessageDescriptors, path []int64)
	add = func(list protoreflect.MessageDescriptors, path []int64) {
		declared := int64(0)
		for i := range list.Len() {
			d := list.Get(i)
			if d.IsMapEntry() && !f.entries {
				all = append(all, entry{string(d.FullName()), nil})
				continue
			}
			to := append(slices.Clone(path), declared)
			declared++
			indexes := binary.AppendVarint(nil, int64(len(to)))
			for _, at := range to {
				indexes = binary.AppendVarint(indexes, at)
			}
			all = append(all, entry{string(d.FullName()), indexes})
			if len(to) <= maxNesting {
				add(d.Messages(), to)
			}
		}
	}
	add(f.Messages(), nil)
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	for _, e := range all {
		sorted = append(sorted, e.indexes)
	}
	return sorted
}

func indexClass(n int) string {
	if n < 0 { // more than 64 bits
		return schemas.ClassMalformed
	}
	return schemas.ClassTruncated
}

// Decode implements schemas.Program.
func (p *program) Decode(key, body []byte, timestampMs int64, out *schemas.Reading) error {
	if len(body) > 0 && body[0] == 0 {
		return p.messages[0].Decode(key, body[1:], timestampMs, out)
	}
	m, rest, err := p.Message(body)
	if err != nil {
		return err
	}
	return m.Decode(key, rest, timestampMs, out)
}

// Decode implements schemas.Program.
func (p *messageProgram) Decode(key, body []byte, timestampMs int64, out *schemas.Reading) error {
	if p.batch != nil {
		return p.batch.Decode(key, body, timestampMs, out)
	}
	return p.decode(key, body, timestampMs, out)
}

func (p *messageProgram) decode(key, body []byte, timestampMs int64, out *schemas.Reading) error {
	if p.err != nil {
		return p.err
	}
	p.layout.Reset(out, p.id)
	out.Expect()
	w := walk{program: p, out: out}
	err := w.start(body)
	if err == nil && p.all != nil {
		out.FindLeaves()
		err = w.numbers(p.all, body, p.wildcardSink)
	}
	if err != nil {
		e := &schemas.DecodeError{Class: schemas.ClassMalformed, SchemaID: p.id, Err: fmt.Errorf("not a message of the schema: %w", err)}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			e.Class, e.Err = schemas.ClassTruncated, errors.New("the record ends too early")
		}
		return e
	}
	w.finish()
	out.FillMissing()
	return p.layout.Finish(key, timestampMs, out)
}

// wireType returns the wire type of a kind.
func wireType(k protoreflect.Kind) protowire.Type {
	switch k {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	}
	return protowire.VarintType
}
