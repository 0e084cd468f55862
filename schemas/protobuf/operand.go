package protobuf

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"odradek/schemas"
	"odradek/schemas/expression"
)

// operand sets what an expression uses: a value off the wire. An enumeration's value is its name, or its number as text. An
// integer beyond int64 is missing.
func operand(o *expression.Operand, f *field, v scalar) {
	switch f.kind {
	case protoreflect.BoolKind:
		o.Kind, o.Num = expression.Bool, 0
		if v.bits != 0 {
			o.Num = 1
		}
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		o.Kind, o.Float = expression.Double, number(f.kind, v.bits)
	case protoreflect.StringKind:
		o.Kind, o.Text = expression.Text, v.bytes
	case protoreflect.BytesKind:
		o.Kind, o.Text = expression.Bytes, v.bytes
	case protoreflect.EnumKind:
		o.Kind = expression.Text
		if d := f.enum.ByNumber(protoreflect.EnumNumber(int32(v.bits))); d != nil {
			o.Text = append(o.Text[:0:0], d.Name()...)
		} else {
			o.Text = strconv.AppendInt(nil, int64(int32(v.bits)), 10)
		}
	default:
		o.Kind = expression.Int
		var ok bool
		if o.Num, ok = integer(f.kind, v.bits); !ok {
			o.Kind = expression.Unknown
		}
	}
}

// timestampOperand sets what an expression uses to a google.protobuf.Timestamp; one that is out of range is missing.
func timestampOperand(o *expression.Operand, b []byte) error {
	var seconds, nanos int64
	for len(b) > 0 {
		number, typ, v, rest, err := next(b)
		if err != nil {
			return err
		}
		b = rest
		switch {
		case typ != protowire.VarintType:
		case number == 1:
			seconds = int64(v.bits)
		case number == 2:
			nanos = int64(int32(v.bits))
		}
	}
	if _, ok := schemas.ClockSeconds.Micros(seconds); ok && nanos >= 0 && nanos < 1e9 {
		o.Kind, o.Num = expression.Time, time.Unix(seconds, nanos).UnixMicro()
	}
	return nil
}

// Type implements schemas.Typed. A schema of several messages, of which more than one has the path, decides by each record.
func (f *file) Type(s *schemas.Sink) (t expression.Type) {
	found := false
	var look func(list protoreflect.MessageDescriptors, depth int)
	look = func(list protoreflect.MessageDescriptors, depth int) {
		for i := range list.Len() {
			m := list.Get(i)
			if m.IsMapEntry() || depth > maxNesting {
				continue
			}
			if find(s, m, s.Segs) == nil {
				one := typeAt(m, s.Segs)
				if found && one != t {
					one = expression.Type{}
				}
				t, found = one, true
			}
			look(m.Messages(), depth+1)
		}
	}
	look(f.Messages(), 0)
	return t
}

// Type implements schemas.Typed.
func (f itemFields) Type(s *schemas.Sink) expression.Type { return typeAt(f.MessageDescriptor, s.Segs) }

// typeAt returns the type of the values at a path that a message has (find).
func typeAt(m protoreflect.MessageDescriptor, segs []schemas.Segment) (t expression.Type) {
	f := m.Fields().ByName(protoreflect.Name(segs[0].Name))
	t.Nullable = f.HasPresence()
	if segs = segs[1:]; f.IsMap() {
		f, segs, t.Nullable = f.MapValue(), segs[1:], true
	}
	if inner := wrapped(f.Message()); inner != nil && len(segs) == 0 {
		f = inner
	}
	switch f.Kind() {
	case protoreflect.MessageKind:
		if len(segs) > 0 {
			inner := typeAt(f.Message(), segs)
			return expression.Type{Kind: inner.Kind, Nullable: inner.Nullable || t.Nullable}
		}
		t.Kind = expression.Time
	case protoreflect.BoolKind:
		t.Kind = expression.Bool
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		t.Kind = expression.Double
	case protoreflect.StringKind, protoreflect.EnumKind:
		t.Kind = expression.Text
	case protoreflect.BytesKind:
		t.Kind = expression.Bytes
	default:
		t.Kind = expression.Int
	}
	return t
}
