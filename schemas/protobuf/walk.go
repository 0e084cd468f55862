package protobuf

import (
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"odradek/schemas"
	"odradek/schemas/expression"
)

// walk reads a record in one pass. It stores values and parts of the key in the reading as
// they come, so that the last one counts; finish reports their faults at the end.
type walk struct {
	program *messageProgram
	out     *schemas.Reading
	time    moment
	depth   int // of messages of which each number is a value
}

// moment is the event time as it is written in the record.
type moment struct {
	sink  int32
	kind  protoreflect.Kind // 0: none; MessageKind: a Timestamp
	value scalar
	nanos int32
}

// noNumber marks the value of a text that is no number until finish, tooLong the value of a decimal of too many digits: NaNs that
// no arithmetic and no decoder produces.
var (
	noNumber = math.Float64frombits(0x7ff8_0000_0bad_0002)
	tooLong  = math.Float64frombits(0x7ff8_0000_0bad_0003)
)

// scalar is a value off the wire: bits, or bytes.
type scalar struct {
	bits  uint64
	bytes []byte
}

func (w *walk) start(b []byte) error {
	if n := len(w.program.arrays); cap(w.out.Counts) < n {
		w.out.Counts = make([]int, n)
	}
	w.out.Counts = w.out.Counts[:len(w.program.arrays)]
	for i := range w.out.Counts {
		w.out.Counts[i] = -1 // its message was not met
	}
	return w.message(b, w.program.plan, -1)
}

// message reads a message. item is the index in the array that the path has gone through,
// -1 before there is one.
func (w *walk) message(b []byte, m *message, item int) error {
	for _, c := range m.counters {
		w.out.Counts[c] = max(w.out.Counts[c], 0)
	}
	for _, f := range m.defaults {
		for _, sink := range f.one.sinks {
			if !w.has(sink, item) {
				w.leaf(f, sink, scalar{}, item)
			}
		}
	}
	for len(b) > 0 {
		number, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		f := m.find(number)
		if f == nil {
			if n = protowire.ConsumeFieldValue(number, typ, b); n < 0 {
				return protowire.ParseError(n)
			}
			b = b[n:]
			continue
		}
		v, n, err := consume(number, typ, b)
		if err != nil {
			return err
		}
		b = b[n:]
		if err := w.field(f, typ, v, item); err != nil {
			return err
		}
	}
	return nil
}

// next reads a field's number, wire type and value, and returns what follows.
func next(b []byte) (number protowire.Number, typ protowire.Type, v scalar, rest []byte, err error) {
	number, typ, n := protowire.ConsumeTag(b)
	if n < 0 {
		return 0, 0, v, nil, protowire.ParseError(n)
	}
	b = b[n:]
	v, n, err = consume(number, typ, b)
	if err != nil {
		return 0, 0, v, nil, err
	}
	return number, typ, v, b[n:], nil
}

// consume reads a value of any wire type; of a group only its length.
func consume(number protowire.Number, typ protowire.Type, b []byte) (v scalar, n int, err error) {
	switch typ {
	case protowire.VarintType:
		v.bits, n = protowire.ConsumeVarint(b)
	case protowire.Fixed32Type:
		var bits uint32
		bits, n = protowire.ConsumeFixed32(b)
		v.bits = uint64(bits)
	case protowire.Fixed64Type:
		v.bits, n = protowire.ConsumeFixed64(b)
	case protowire.BytesType:
		v.bytes, n = protowire.ConsumeBytes(b)
	default:
		n = protowire.ConsumeFieldValue(number, typ, b)
	}
	if n < 0 {
		return v, n, protowire.ParseError(n)
	}
	return v, n, nil
}

func (w *walk) field(f *field, typ protowire.Type, v scalar, item int) error {
	want := wireType(f.kind)
	if f.values != nil || f.key != 0 { // a map
		want = protowire.BytesType
	}
	if f.list && typ == protowire.BytesType && want != protowire.BytesType && want != protowire.StartGroupType {
		for b := v.bytes; len(b) > 0; { // packed
			one, n, err := consume(f.number, want, b)
			if err != nil {
				return err
			}
			b = b[n:]
			if err := w.item(f, one); err != nil {
				return err
			}
		}
		return nil
	}
	if typ != want {
		return nil // unknown
	}
	for _, other := range f.clears {
		w.clear(other, item)
	}
	if f.leaves != nil {
		if err := w.leaves(f, v.bytes); err != nil || f.values == nil && f.one.inner == nil {
			return err
		}
	}
	switch {
	case f.values != nil:
		return w.entry(f, v.bytes, item)
	case f.list:
		return w.item(f, v)
	}
	return w.node(f, &f.one, v, item)
}

// item reads the next item of a repeated field.
func (w *walk) item(f *field, v scalar) error {
	if f.each {
		w.out.AddItem(v.bytes)
	}
	for i := range f.arrays {
		a := &f.arrays[i]
		n := w.out.Counts[a.counter]
		w.out.Counts[a.counter]++
		if n < a.count {
			if err := w.node(f, &a.node, v, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry reads an entry of a map. A missing key or value has its default, and a key that
// comes again replaces the entry before.
func (w *walk) entry(f *field, b []byte, item int) error {
	var digits [20]byte
	name, value, err := entryOf(f.key, f.kind, b, digits[:0])
	if err != nil {
		return err
	}
	for i := range f.values {
		if e := &f.values[i]; e.key == string(name) {
			w.clearNode(&e.node, item)
			return w.node(f, &e.node, value, item)
		}
	}
	return nil
}

// node reads a value in its roles, and the fields in it.
func (w *walk) node(f *field, n *node, v scalar, item int) error {
	for _, sink := range n.sinks {
		if f.decimal != nil {
			if err := w.decimal(f.decimal, sink, v.bytes, item); err != nil {
				return err
			}
			continue
		}
		if f.kind == protoreflect.MessageKind {
			if err := w.timestamp(sink, v.bytes); err != nil {
				return err
			}
			continue
		}
		w.leaf(f, sink, v, item)
	}
	if n.inner != nil {
		return w.message(v.bytes, n.inner, item)
	}
	return nil
}

func (w *walk) has(sink int32, item int) bool {
	switch s := &w.program.layout.Sinks[sink]; s.Role {
	case schemas.RoleKey:
		return w.out.KeyParts[s.Slot].Kind != schemas.KeyNone
	case schemas.RoleTime:
		return w.time.kind != 0
	case schemas.RoleOperand:
		return w.out.Operand(s.Slot).Kind != expression.Unknown
	default:
		return w.out.Met(s.Slot + max(item, 0))
	}
}

// clear removes from the reading what the members of a oneof have stored there.
func (w *walk) clear(f *field, item int) {
	if f.each {
		w.out.DropItems()
	}
	w.clearNode(&f.one, item)
	for i := range f.arrays {
		w.out.Counts[f.arrays[i].counter] = -1
		w.clearNode(&f.arrays[i].node, item)
	}
	for i := range f.values {
		w.clearNode(&f.values[i].node, item)
	}
}

func (w *walk) clearNode(n *node, item int) {
	for _, sink := range n.sinks {
		switch s := &w.program.layout.Sinks[sink]; s.Role {
		case schemas.RoleKey:
			w.out.KeyParts[s.Slot] = schemas.KeyPart{}
		case schemas.RoleTime:
			w.time = moment{}
		case schemas.RoleOperand:
			w.out.Operand(s.Slot).Kind = expression.Unknown
		case schemas.RoleValue:
			from, to := s.Slot, s.Slot+s.N
			if item >= 0 {
				from, to = s.Slot+item, s.Slot+item+1
			}
			w.out.Unmeet(from, to)
		}
	}
	if n.inner != nil {
		for _, f := range n.inner.fields {
			w.clear(f, item)
		}
	}
}

// leaf stores a value in the role of a path.
func (w *walk) leaf(f *field, sink int32, v scalar, item int) {
	s := &w.program.layout.Sinks[sink]
	switch s.Role {
	case schemas.RoleValue:
		n := number(f.kind, v.bits)
		if f.kind == protoreflect.StringKind {
			var wrong schemas.Fault
			if n, wrong = schemas.TextNumber(v.bytes); wrong == schemas.FaultText {
				n = noNumber
			}
		} else if n != n {
			n = math.NaN() // the one NaN
		}
		w.out.Values[s.Slot+max(item, 0)] = n
	case schemas.RoleTime:
		w.time = moment{sink: sink, kind: f.kind, value: v}
	case schemas.RoleOperand:
		operand(w.out.Operand(s.Slot), f, v)
	case schemas.RoleKey:
		p := schemas.KeyPart{Kind: schemas.KeyText, Text: v.bytes}
		switch f.kind {
		case protoreflect.StringKind, protoreflect.BytesKind:
		case protoreflect.EnumKind:
			if d := f.enum.ByNumber(protoreflect.EnumNumber(int32(v.bits))); d != nil {
				p.Text = []byte(d.Name())
			} else {
				p = schemas.KeyPart{Kind: schemas.KeyNumber, Num: int64(int32(v.bits))}
			}
		default:
			if i, ok := integer(f.kind, v.bits); ok {
				p = schemas.KeyPart{Kind: schemas.KeyNumber, Num: i}
			} else {
				p.Text = strconv.AppendUint(nil, v.bits, 10)
			}
		}
		w.out.KeyParts[s.Slot] = p
	}
}

// timestamp reads a google.protobuf.Timestamp, merged with one that came before.
func (w *walk) timestamp(sink int32, b []byte) error {
	if s := &w.program.layout.Sinks[sink]; s.Role == schemas.RoleOperand {
		return timestampOperand(w.out.Operand(s.Slot), b)
	}
	if w.time.kind != protoreflect.MessageKind {
		w.time = moment{sink: sink, kind: protoreflect.MessageKind}
	}
	for len(b) > 0 {
		number, typ, v, rest, err := next(b)
		if err != nil {
			return err
		}
		b = rest
		switch {
		case typ != protowire.VarintType:
		case number == 1:
			w.time.value = v
		case number == 2:
			w.time.nanos = int32(v.bits)
		}
	}
	return nil
}

// decimal reads a decimal. Its message comes once: a second one replaces it.
func (w *walk) decimal(d *decimalFields, sink int32, b []byte, item int) error {
	var unscaled []byte
	scale := 0
	for len(b) > 0 {
		number, typ, v, rest, err := next(b)
		if err != nil {
			return err
		}
		b = rest
		switch {
		case number == d.value && typ == protowire.BytesType:
			unscaled = v.bytes
		case number == d.scale && typ == protowire.VarintType:
			scale = int(int32(v.bits))
		}
	}
	n, wrong := schemas.Decimal(unscaled, scale)
	switch wrong {
	case schemas.FaultInfinite:
		n = math.Inf(1)
	case schemas.FaultDecimal:
		n = tooLong
	}
	w.out.Values[w.program.layout.Sinks[sink].Slot+max(item, 0)] = n
	return nil
}

// finish notes the faults of the record's values and converts its time.
func (w *walk) finish() {
	for i := range w.program.arrays {
		if n := w.out.Counts[i]; n >= 0 && n != w.program.arrays[i].count {
			for _, sink := range w.program.arrays[i].all() {
				w.out.Fail(sink, schemas.FaultLength)
			}
		}
	}
	for i := range w.program.layout.Sinks {
		s := &w.program.layout.Sinks[i]
		if s.Role != schemas.RoleValue {
			continue
		}
		for j := s.Slot; j < s.Slot+s.N; j++ {
			switch v := w.out.Values[j]; {
			case math.IsInf(v, 0):
				w.out.Fail(int32(i), schemas.FaultInfinite)
			case math.Float64bits(v) == math.Float64bits(noNumber):
				w.out.Fail(int32(i), schemas.FaultText)
				w.out.Values[j] = math.NaN()
			case math.Float64bits(v) == math.Float64bits(tooLong):
				w.out.Fail(int32(i), schemas.FaultDecimal)
				w.out.Values[j] = math.NaN()
			}
		}
	}
	for _, slot := range w.program.operands {
		if v := w.out.Operand(slot); v.Kind == expression.Unknown {
			v.Kind = expression.Null
		}
	}
	if w.time.kind == 0 {
		return
	}
	t, wrong := w.micros()
	if w.out.Time = t; wrong != schemas.FaultNone {
		w.out.Fail(w.time.sink, wrong)
	}
}

func (w *walk) micros() (t int64, wrong schemas.Fault) {
	v := w.time.value
	var ok bool
	switch w.time.kind {
	case protoreflect.StringKind:
		return w.program.layout.Texts.Micros(v.bytes)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		t, ok = w.program.clock.MicrosOf(number(w.time.kind, v.bits))
	case protoreflect.MessageKind:
		if t, ok = schemas.ClockSeconds.Micros(int64(v.bits)); ok {
			t += int64(w.time.nanos) / 1000
			ok = w.time.nanos >= 0 && w.time.nanos < 1e9
		}
	default:
		var i int64
		if i, ok = integer(w.time.kind, v.bits); ok {
			t, ok = w.program.clock.Micros(i)
		}
	}
	if !ok {
		return schemas.NoTime, schemas.FaultTimeRange
	}
	return t, schemas.FaultNone
}

// integer returns the value of an integer; ok is false for one beyond int64.
func integer(k protoreflect.Kind, bits uint64) (i int64, ok bool) {
	switch k {
	case protoreflect.Int32Kind, protoreflect.Sfixed32Kind, protoreflect.EnumKind:
		return int64(int32(bits)), true
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return int64(uint32(bits)), true
	case protoreflect.Sint32Kind:
		return int64(int32(protowire.DecodeZigZag(bits & math.MaxUint32))), true
	case protoreflect.Sint64Kind:
		return protowire.DecodeZigZag(bits), true
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return int64(bits), bits <= math.MaxInt64
	}
	return int64(bits), true
}

// number returns the value of a number.
func number(k protoreflect.Kind, bits uint64) float64 {
	switch k {
	case protoreflect.DoubleKind:
		return math.Float64frombits(bits)
	case protoreflect.FloatKind:
		return float64(math.Float32frombits(uint32(bits)))
	case protoreflect.BoolKind:
		if bits != 0 {
			return 1
		}
		return 0
	}
	if i, ok := integer(k, bits); ok {
		return float64(i)
	}
	return float64(bits)
}
