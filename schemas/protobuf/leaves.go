package protobuf

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"odradek/schemas"
)

// leavesOf returns the function that collects the values of a schema's records, whose bytes begin with the indexes that name
// the message.
func leavesOf(s *schemas.Schema) (func([]byte, *schemas.Leaves) error, error) {
	f, err := parse(s)
	if err != nil {
		return nil, fmt.Errorf("not a Protobuf schema: %w", err)
	}
	return func(body []byte, out *schemas.Leaves) error {
		d, body, err := f.message(body)
		if err != nil {
			return err
		}
		m := dynamicpb.NewMessage(d)
		if err := proto.Unmarshal(body, m); err != nil {
			return err
		}
		out.Record()
		messageLeaves(m, "", out)
		out.End()
		return nil
	}, nil
}

// message returns the message that the indexes in front of b name; see schemas.Nested.
func (f *file) message(b []byte) (d protoreflect.MessageDescriptor, rest []byte, err error) {
	next := func() (i int64) {
		i, n := binary.Varint(b)
		if b = b[max(n, 0):]; n <= 0 {
			err = errIndexes
		}
		return i
	}
	list := f.Messages()
	count := next()
	for at := range max(count, 1) {
		i := int64(0)
		if count != 0 {
			i = next()
		}
		if err == nil && (i < 0 || at > maxNesting) {
			err = errIndex
		}
		if err != nil {
			return nil, nil, err
		}
		d = nil
		for j := range list.Len() {
			if m := list.Get(j); !m.IsMapEntry() || f.entries {
				if i--; i < 0 {
					d = m
					break
				}
			}
		}
		if d == nil {
			return nil, nil, errIndex
		}
		list = d.Messages()
	}
	return d, b, nil
}

// messageLeaves lists the fields of a message, those without a value too, by their numbers in the schema's order.
func messageLeaves(m protoreflect.Message, path string, out *schemas.Leaves) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		at := schemas.Under(path, string(f.Name()))
		v := m.Get(f)
		switch {
		case f.IsMap():
			out.Record()
			mapLeaves(f, v.Map(), at, out)
			out.End()
		case f.IsList():
			out.Array(at)
			for j := range v.List().Len() {
				out.Next()
				valueLeaves(f, v.List().Get(j), at, out)
			}
			out.End()
		case f.HasPresence() && !m.Has(f):
			out.Add(at, schemas.Leaf{Kind: schemas.LeafNull})
		default:
			valueLeaves(f, v, at, out)
		}
		if out.Cut {
			return
		}
	}
}

// mapLeaves lists the entries of a map, in the order of their keys.
func mapLeaves(f protoreflect.FieldDescriptor, m protoreflect.Map, path string, out *schemas.Leaves) {
	entries := map[string]protoreflect.Value{}
	var keys []string
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		keys = append(keys, k.String())
		entries[k.String()] = v
		return true
	})
	slices.Sort(keys)
	for _, k := range keys {
		valueLeaves(f.MapValue(), entries[k], schemas.Under(path, k), out)
	}
}

// valueLeaves lists one value of a field.
func valueLeaves(f protoreflect.FieldDescriptor, v protoreflect.Value, path string, out *schemas.Leaves) {
	if d := f.Message(); d != nil {
		m := v.Message()
		switch inner := wrapped(d); {
		case inner != nil:
			valueLeaves(inner, m.Get(inner), path, out)
		case decimal(d) != nil:
			leaf := schemas.Leaf{Kind: schemas.LeafOther}
			unscaled, scale := m.Get(d.Fields().ByName("value")).Bytes(), m.Get(d.Fields().ByName("scale")).Int()
			if f, wrong := schemas.Decimal(unscaled, int(scale)); wrong == schemas.FaultNone {
				leaf = schemas.Leaf{Kind: schemas.LeafFloat, Float: f}
			}
			out.Add(path, leaf)
		case d.FullName() == timestamp:
			seconds, nanos := m.Get(d.Fields().ByName("seconds")).Int(), m.Get(d.Fields().ByName("nanos")).Int()
			leaf := schemas.Leaf{Kind: schemas.LeafOther}
			if _, ok := schemas.ClockSeconds.Micros(seconds); ok && nanos >= 0 && nanos < 1e9 {
				leaf = schemas.Leaf{Kind: schemas.LeafTime, Int: time.Unix(seconds, nanos).UnixMicro()}
			}
			out.Add(path, leaf)
		default:
			out.Record()
			messageLeaves(m, path, out)
			out.End()
		}
		return
	}
	leaf := schemas.Leaf{Kind: schemas.LeafOther}
	switch v := v.Interface().(type) {
	case bool:
		if leaf.Kind = schemas.LeafBool; v {
			leaf.Int, leaf.Float = 1, 1
		}
	case float32:
		leaf.Kind, leaf.Float = schemas.LeafFloat, float64(v)
	case float64:
		leaf.Kind, leaf.Float = schemas.LeafFloat, v
	case string:
		leaf.Kind, leaf.Text = schemas.LeafText, v
	case protoreflect.EnumNumber:
		if leaf.Kind, leaf.Text = schemas.LeafText, fmt.Sprint(v); f.Enum().Values().ByNumber(v) != nil {
			leaf.Text = string(f.Enum().Values().ByNumber(v).Name())
		}
	case int32:
		leaf.Kind, leaf.Int, leaf.Float = schemas.LeafInt, int64(v), float64(v)
	case int64:
		leaf.Kind, leaf.Int, leaf.Float = schemas.LeafInt, v, float64(v)
	case uint32:
		leaf.Kind, leaf.Int, leaf.Float = schemas.LeafInt, int64(v), float64(v)
	case uint64:
		if leaf.Kind, leaf.Float = schemas.LeafFloat, float64(v); v <= math.MaxInt64 {
			leaf.Kind, leaf.Int = schemas.LeafInt, int64(v)
		}
	}
	out.Add(path, leaf)
}
