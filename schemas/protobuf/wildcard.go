package protobuf

import (
	"fmt"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxWildcardDepth bounds the messages in messages of which each number is a value.
const maxWildcardDepth = 64

var errDeep = fmt.Errorf("messages nested deeper than %d", maxWildcardDepth)

// leaves says how the numbers in a message, or in the values of a map, are read.
type leaves struct {
	sink   int32
	inner  protoreflect.MessageDescriptor
	values protoreflect.FieldDescriptor // of a map
}

// leaves adds each number in a field.
func (w *walk) leaves(f *field, b []byte) error {
	w.out.FindLeaves()
	if l := f.leaves; l.values != nil {
		return w.leafEntry(f.key, l.values, b, l.sink)
	}
	return w.numbers(f.leaves.inner, b, f.leaves.sink)
}

// numbers adds each number in a message. A message that comes in two parts has its numbers from both.
func (w *walk) numbers(d protoreflect.MessageDescriptor, b []byte, sink int32) error {
	if w.depth++; w.depth > maxWildcardDepth {
		return errDeep
	}
	defer func() { w.depth-- }()
	fields := d.Fields()
	var met map[protowire.Number]bool // fields without presence
	for len(b) > 0 {
		number, typ, v, rest, err := next(b)
		if err != nil {
			return err
		}
		b = rest
		f := fields.ByNumber(number)
		if f == nil {
			continue
		}
		want := wireType(f.Kind())
		if f.IsMap() {
			want = protowire.BytesType
		}
		switch {
		case typ != want && !f.IsList():
			continue // unknown
		case !f.HasPresence() && !f.IsMap() && !f.IsList():
			if met == nil {
				met = map[protowire.Number]bool{}
			}
			met[number] = true
		}
		back := w.out.Enter([]byte(f.Name()))
		switch {
		case f.IsMap():
			err = w.leafEntry(f.MapKey().Kind(), f.MapValue(), v.bytes, sink)
		case f.IsList():
			w.program.layout.LeaveOut(w.out)
		default:
			err = w.leafOf(f, v, sink)
		}
		if err != nil {
			return err
		}
		w.out.Exit(back)
	}
	for i := range fields.Len() { // a field without presence that is not written is 0
		if f := fields.Get(i); !f.HasPresence() && !f.IsMap() && !f.IsList() && !met[f.Number()] {
			back := w.out.Enter([]byte(f.Name()))
			if err := w.leafOf(f, scalar{}, sink); err != nil {
				return err
			}
			w.out.Exit(back)
		}
	}
	return nil
}

// leafEntry adds each number in an entry of a map.
func (w *walk) leafEntry(key protoreflect.Kind, f protoreflect.FieldDescriptor, b []byte, sink int32) error {
	var digits [20]byte
	name, value, err := entryOf(key, f.Kind(), b, digits[:0])
	if err != nil {
		return err
	}
	back := w.out.Enter(name)
	err = w.leafOf(f, value, sink)
	w.out.Exit(back)
	return err
}

// leafOf adds the number that a value is, or each number in it.
func (w *walk) leafOf(f protoreflect.FieldDescriptor, v scalar, sink int32) error {
	if inner := f.Message(); inner != nil {
		switch one := wrapped(inner); {
		case one != nil:
			return w.wrappedLeaf(one, v.bytes, sink)
		case f.Kind() == protoreflect.GroupKind, decimal(inner) != nil, inner.FullName() == timestamp:
			w.program.layout.LeaveOut(w.out)
			return nil
		}
		return w.numbers(inner, v.bytes, sink)
	}
	switch f.Kind() {
	case protoreflect.StringKind:
		w.program.layout.AddTextLeaf(v.bytes, sink, w.out)
	case protoreflect.BytesKind, protoreflect.EnumKind, protoreflect.BoolKind:
		w.program.layout.LeaveOut(w.out)
	default:
		n := number(f.Kind(), v.bits)
		if n != n {
			n = math.NaN() // the one NaN
		}
		w.program.layout.AddLeaf(n, sink, w.out)
	}
	return nil
}

// wrappedLeaf adds the number in a wrapper message.
func (w *walk) wrappedLeaf(f protoreflect.FieldDescriptor, b []byte, sink int32) error {
	var last scalar
	for len(b) > 0 {
		number, typ, v, rest, err := next(b)
		if err != nil {
			return err
		}
		if b = rest; number == f.Number() && typ == wireType(f.Kind()) {
			last = v
		}
	}
	return w.leafOf(f, last, sink)
}

// entryOf returns the key of a map's entry as a text, in dst where it is a number, and its value. A missing one has its default.
func entryOf(keyKind, kind protoreflect.Kind, b, dst []byte) (name []byte, value scalar, err error) {
	var key scalar
	for len(b) > 0 {
		number, typ, v, rest, err := next(b)
		if err != nil {
			return nil, value, err
		}
		b = rest
		switch {
		case number == 1 && typ == wireType(keyKind):
			key = v
		case number == 2 && typ == wireType(kind):
			if kind == protoreflect.MessageKind && value.bytes != nil {
				v.bytes = append(value.bytes[:len(value.bytes):len(value.bytes)], v.bytes...) // merged
			}
			value = v
		}
	}
	switch keyKind {
	case protoreflect.StringKind:
		return key.bytes, value, nil
	case protoreflect.BoolKind:
		return strconv.AppendBool(dst, key.bits != 0), value, nil
	}
	if i, ok := integer(keyKind, key.bits); ok {
		return strconv.AppendInt(dst, i, 10), value, nil
	}
	return strconv.AppendUint(dst, key.bits, 10), value, nil
}
