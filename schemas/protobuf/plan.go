package protobuf

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"odradek/schemas"
)

// message lists the fields to be read of a message.
type message struct {
	fields   []*field
	defaults []*field // without presence: 0 unless they are set
	counters []int    // of its arrays
}

// field is a field that paths lead to or through, or one that clears such a field.
type field struct {
	number protowire.Number
	kind   protoreflect.Kind
	enum   protoreflect.EnumValueDescriptors
	list   bool
	one    node    // where it is neither repeated nor a map
	arrays []array // where it is repeated: one for each length that paths ask for
	values []entry // where it is a map
	key    protoreflect.Kind
	clears []*field // the other members of its oneof that paths lead to
	each   bool     // where it is the array of readings
	// decimal is set where its messages are decimals.
	decimal *decimalFields
	leaves  *leaves // where each number below is a value
}

// node says how a value is read: in the roles of the paths that end here, and as a message
// for the paths that lead on into it.
type node struct {
	sinks []int32
	inner *message
}

// array is a repeated field of count items. A counter of the walk has the number read so far.
type array struct {
	count, counter int
	node
}

// entry is a key of a map that paths lead through.
type entry struct {
	key string
	node
}

// want is a path that continues with segs, through an array first if count > 0.
type want struct {
	sink  int32
	segs  []schemas.Segment
	count int
}

// planner makes the plan of one message of a schema.
type planner struct {
	readings int32                          // the path of the array of readings; -1: there is none
	wildcard int32                          // the path of each number in a message or map; -1: there is none
	item     protoreflect.MessageDescriptor // of that array
	arrays   []array                        // by counter
}

// plan returns a message's plan for paths that the message has (find).
func (p *planner) plan(d protoreflect.MessageDescriptor, wants []want) *message {
	m := &message{}
	groups := map[protoreflect.FieldDescriptor][]want{}
	var order []protoreflect.FieldDescriptor
	for _, w := range wants {
		f := d.Fields().ByName(protoreflect.Name(w.segs[0].Name))
		if groups[f] == nil {
			order = append(order, f)
		}
		groups[f] = append(groups[f], want{w.sink, w.segs[1:], w.segs[0].Count})
	}
	oneofs := map[protoreflect.OneofDescriptor][]*field{}
	for _, d := range order {
		f := p.field(d, groups[d])
		m.fields = append(m.fields, f)
		for i := range f.arrays {
			m.counters = append(m.counters, f.arrays[i].counter)
		}
		if !d.HasPresence() && !f.list && f.values == nil && len(f.one.sinks) > 0 {
			m.defaults = append(m.defaults, f)
		}
		if o := d.ContainingOneof(); o != nil && !o.IsSynthetic() {
			oneofs[o] = append(oneofs[o], f)
		}
	}
	for o, wanted := range oneofs {
		for i := range o.Fields().Len() {
			d := o.Fields().Get(i)
			f := m.find(d.Number())
			if f == nil {
				f = p.field(d, nil)
				m.fields = append(m.fields, f)
			}
			for _, other := range wanted {
				if other != f {
					f.clears = append(f.clears, other)
				}
			}
		}
	}
	return m
}

func (m *message) find(number protowire.Number) *field {
	for _, f := range m.fields {
		if f.number == number {
			return f
		}
	}
	return nil
}

func (p *planner) field(d protoreflect.FieldDescriptor, wants []want) *field {
	f := &field{number: d.Number(), kind: d.Kind(), list: d.IsList()}
	wants = f.takeWildcard(d, wants, p.wildcard)
	switch {
	case d.IsMap():
		f.key = d.MapKey().Kind()
		for len(wants) > 0 {
			key := wants[0].segs[0].Name
			var same, rest []want
			for _, w := range wants {
				if w.segs[0].Name == key {
					same = append(same, want{w.sink, w.segs[1:], 0})
				} else {
					rest = append(rest, w)
				}
			}
			f.values = append(f.values, entry{key, p.node(d.MapValue(), same)})
			wants = rest
		}
		d = d.MapValue()
		f.kind = d.Kind()
	case f.list && len(wants) > 0 && wants[0].sink == p.readings:
		f.each, p.item = true, d.Message()
	case f.list:
		for len(wants) > 0 {
			count := wants[0].count
			same := slices.DeleteFunc(slices.Clone(wants), func(w want) bool { return w.count != count })
			wants = slices.DeleteFunc(wants, func(w want) bool { return w.count == count })
			a := array{count, len(p.arrays), node{}}
			p.arrays = append(p.arrays, a)
			a.node = p.node(d, same)
			p.arrays[a.counter] = a
			f.arrays = append(f.arrays, a)
		}
	default:
		f.one = p.node(d, wants)
	}
	f.decimal = decimal(d.Message())
	if d.Enum() != nil {
		f.enum = d.Enum().Values()
	}
	return f
}

// takeWildcard has the field add each number below it where that path ends here, and returns the other paths.
func (f *field) takeWildcard(d protoreflect.FieldDescriptor, wants []want, sink int32) (others []want) {
	for _, w := range wants {
		switch {
		case w.sink != sink || len(w.segs) > 0:
			others = append(others, w)
		case d.IsMap():
			f.leaves = &leaves{sink: sink, values: d.MapValue()}
		default:
			f.leaves = &leaves{sink: sink, inner: d.Message()}
		}
	}
	return others
}

func (p *planner) node(d protoreflect.FieldDescriptor, wants []want) (n node) {
	var deep []want
	for _, w := range wants {
		switch {
		case len(w.segs) > 0:
			deep = append(deep, w)
		case wrapped(d.Message()) != nil:
			deep = append(deep, want{w.sink, []schemas.Segment{{Name: "value"}}, 0})
		default:
			n.sinks = append(n.sinks, w.sink)
		}
	}
	if len(deep) > 0 {
		n.inner = p.plan(d.Message(), deep)
	}
	return n
}

// all returns the sinks of a node and of the nodes in it.
func (n *node) all() []int32 {
	list := slices.Clone(n.sinks)
	if n.inner == nil {
		return list
	}
	for _, f := range n.inner.fields {
		list = append(list, f.one.all()...)
		for i := range f.arrays {
			list = append(list, f.arrays[i].all()...)
		}
		for i := range f.values {
			list = append(list, f.values[i].all()...)
		}
	}
	return list
}
