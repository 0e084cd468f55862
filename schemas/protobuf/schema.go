package protobuf

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"odradek/schemas"
)

// Format is the row of Protobuf in the table of formats.
var Format = schemas.Format{
	Name: "protobuf", Type: "PROTOBUF", Title: "Protobuf",
	Compile: func(l *schemas.Layout, s *schemas.Schema) schemas.Program {
		f, err := parse(s)
		if err != nil {
			return schemas.Refusal{Cause: &schemas.DecodeError{Class: schemas.ClassUnknownSchema, SchemaID: s.ID,
				Err: fmt.Errorf("not a Protobuf schema: %w", err)}}
		}
		return &program{layout: l, id: s.ID, messages: f.compile(l, s.ID, f.Messages(), 0), byName: f.byName()}
	},
	Fields: func(s *schemas.Schema) (schemas.Fields, error) {
		f, err := parse(s)
		if err != nil {
			return nil, err
		}
		return f, nil
	},
	Leaves: leavesOf,
}

// maxNesting bounds the depth of messages declared inside others, and the length of a path.
const maxNesting = 32

// maxSchemaBytes bounds a schema with what it imports.
const maxSchemaBytes = 8 << 20

// parse compiles a schema. Its references are the files that it imports, by their names;
// the well-known types of google/protobuf need none.
func parse(s *schemas.Schema) (*file, error) {
	root, size := "schema.proto", len(s.Text)
	texts := map[string]string{}
	for _, r := range s.References {
		texts[r.Name] = r.Text
		size += len(r.Text)
	}
	if size > maxSchemaBytes {
		return nil, fmt.Errorf("%d bytes of schema, %d at most", size, maxSchemaBytes)
	}
	for texts[root] != "" {
		root = "_" + root
	}
	texts[root] = s.Text
	entries := false
	c := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(protocompile.ResolverFunc(func(name string) (r protocompile.SearchResult, err error) {
			text, ok := texts[name]
			if !ok {
				return r, protoregistry.NotFound
			}
			if r.Proto = descriptor(name, text); r.Proto == nil {
				r.Source = strings.NewReader(text)
			}
			if name == root {
				entries = r.Proto != nil
			}
			return r, nil
		})),
		MaxParallelism: 1,
	}
	files, err := c.Compile(context.Background(), root)
	if err != nil {
		return nil, err
	}
	if files[0].Messages().Len() == 0 {
		return nil, errors.New("it has no message")
	}
	return &file{files[0], entries}, nil
}

// descriptor reads a schema that the compiler does not take as a .proto text: a serialized
// descriptor in base64, as Confluent's client for Python registers it and some registries
// return it, or the text that Confluent's serializer for Java makes of a descriptor, in which
// the entries of maps are messages with the option map_entry. It returns nil for other texts.
func descriptor(name, text string) *descriptorpb.FileDescriptorProto {
	if strings.Contains(text, mapEntry) {
		return withEntries(name, text)
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(b) == 0 {
		return nil
	}
	d := &descriptorpb.FileDescriptorProto{}
	if proto.Unmarshal(b, d) != nil {
		return nil
	}
	d.Name = proto.String(name)
	nameFields(d.MessageType)
	return d
}

const mapEntry = "map_entry"

// withEntries parses a text whose messages may have the option map_entry, which the compiler
// rejects in a text and accepts in a descriptor. It returns nil if none has it, or if the text
// is faulty, which the compiler reports.
func withEntries(name, text string) *descriptorpb.FileDescriptorProto {
	h := reporter.NewHandler(nil)
	f, err := parser.Parse(name, strings.NewReader(text), h)
	if err != nil {
		return nil
	}
	r, err := parser.ResultFromAST(f, false, h)
	if err != nil || !setEntries(r.FileDescriptorProto().MessageType) {
		return nil
	}
	return r.FileDescriptorProto()
}

// setEntries interprets the option map_entry and reports whether a message has it.
func setEntries(list []*descriptorpb.DescriptorProto) (found bool) {
	for _, m := range list {
		if o := m.GetOptions(); o != nil {
			o.UninterpretedOption = slices.DeleteFunc(o.UninterpretedOption, func(u *descriptorpb.UninterpretedOption) bool {
				if len(u.Name) != 1 || u.Name[0].GetIsExtension() || u.Name[0].GetNamePart() != mapEntry || u.GetIdentifierValue() != "true" {
					return false
				}
				o.MapEntry = proto.Bool(true)
				return true
			})
		}
		found = setEntries(m.NestedType) || found || m.GetOptions().GetMapEntry()
	}
	return found
}

// nameFields sets the JSON names of fields to their names: the compiler compares JSON names,
// and Python leaves them out.
func nameFields(list []*descriptorpb.DescriptorProto) {
	for _, m := range list {
		for _, f := range m.Field {
			f.JsonName = f.Name
		}
		nameFields(m.NestedType)
	}
}

// file is a schema read for its fields: the fields of any of its messages, since a topic may have
// several.
type file struct {
	protoreflect.FileDescriptor
	// entries: the schema declares the entries of maps as messages, so indexes count them.
	entries bool
}

// Find implements schemas.Fields. It returns the problem of the first message.
func (f *file) Find(s *schemas.Sink) *schemas.Problem {
	var first *schemas.Problem
	var look func(list protoreflect.MessageDescriptors, depth int) bool
	look = func(list protoreflect.MessageDescriptors, depth int) bool {
		for i := range list.Len() {
			m := list.Get(i)
			if m.IsMapEntry() || depth > maxNesting {
				continue
			}
			p := find(s, m, s.Segs)
			if p == nil {
				return true
			}
			if first == nil {
				first = p
			}
			if look(m.Messages(), depth+1) {
				return true
			}
		}
		return false
	}
	if look(f.Messages(), 0) {
		return nil
	}
	return first
}

// Items implements schemas.Fields. It returns the fields of the items in the first message that has the array.
func (f *file) Items(s *schemas.Sink) schemas.Fields {
	var look func(list protoreflect.MessageDescriptors, depth int) protoreflect.MessageDescriptor
	look = func(list protoreflect.MessageDescriptors, depth int) protoreflect.MessageDescriptor {
		for i := range list.Len() {
			m := list.Get(i)
			if m.IsMapEntry() || depth > maxNesting {
				continue
			}
			if find(s, m, s.Segs) == nil {
				pl := planner{wildcard: -1}
				pl.plan(m, []want{{sink: pl.readings, segs: s.Segs}})
				return pl.item
			}
			if d := look(m.Messages(), depth+1); d != nil {
				return d
			}
		}
		return nil
	}
	if d := look(f.Messages(), 0); d != nil {
		return itemFields{d}
	}
	return nil
}

// itemFields are the fields of one message.
type itemFields struct{ protoreflect.MessageDescriptor }

// Find implements schemas.Fields.
func (f itemFields) Find(s *schemas.Sink) *schemas.Problem {
	return find(s, f.MessageDescriptor, s.Segs)
}

// Items implements schemas.Fields: an item has no array of readings.
func (f itemFields) Items(*schemas.Sink) schemas.Fields { return nil }

// Paths implements schemas.Fields.
func (f itemFields) Paths(r schemas.Role) []string { return paths(f.MessageDescriptor, r) }

// find looks for a path in a message.
func find(s *schemas.Sink, m protoreflect.MessageDescriptor, segs []schemas.Segment) *schemas.Problem {
	if len(segs) == 0 {
		if s.Wildcard {
			return nil
		}
		return &schemas.Problem{Class: schemas.ClassBadType, Text: "is message " + string(m.FullName())}
	}
	f := m.Fields().ByName(protoreflect.Name(segs[0].Name))
	if f == nil {
		return &schemas.Problem{Class: schemas.ClassMissingField, Text: fmt.Sprintf("message %s has no field %q", m.FullName(), segs[0].Name)}
	}
	count, rest := segs[0].Count, segs[1:]
	if s.Role == schemas.RoleReadings && len(rest) == 0 {
		switch {
		case !f.IsList():
			return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is %s, not a repeated field", title(f))}
		case f.Kind() != protoreflect.MessageKind:
			return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is an array of %s; a reading is a message", title(f))}
		}
		return nil
	}
	if f.IsMap() {
		if count > 0 {
			return &schemas.Problem{Class: schemas.ClassBadType, Text: "is a map, not an array"}
		}
		if len(rest) == 0 && s.Wildcard {
			return nil
		}
		if len(rest) == 0 {
			return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is a map: go on with a key of it, as %s.x", s.Text)}
		}
		if rest[0].Count > 0 {
			return &schemas.Problem{Class: schemas.ClassBadType, Text: "is the value of a map, not an array"}
		}
		f, rest = f.MapValue(), rest[1:]
	} else if count > 0 != f.IsList() {
		if count > 0 {
			return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is %s, not an array", title(f))}
		}
		return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("goes through an array: give its length, as %s[3]", f.Name())}
	}
	if inner := f.Message(); inner != nil && len(rest) > 0 {
		if f.Kind() == protoreflect.GroupKind {
			return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("goes through the group %s", f.Name())}
		}
		return find(s, inner, rest)
	}
	if len(rest) > 0 {
		return &schemas.Problem{Class: schemas.ClassMissingField, Text: fmt.Sprintf("%s has no field %q", title(f), rest[0].Name)}
	}
	if s.Wildcard {
		if hasNumbers(f) {
			return nil
		}
		return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("leads to %s, not to a message or a map", title(f))}
	}
	if suits(f, s.Role) {
		return nil
	}
	hint := ""
	if s.Role == schemas.RoleValue && isText(f) {
		if s.FromText {
			return nil
		}
		hint = schemas.TextHint
	}
	wanted := [...]string{
		schemas.RoleKey: ", which cannot be a series key", schemas.RoleTime: ", not a time", schemas.RoleValue: ", not a number",
		schemas.RoleOperand: ", not a text, number, Boolean or time",
	}
	return &schemas.Problem{Class: schemas.ClassBadType, Text: "is " + title(f) + wanted[s.Role] + hint}
}

// hasNumbers reports whether a field is a message that may have numbers.
func hasNumbers(f protoreflect.FieldDescriptor) bool {
	d := f.Message()
	return f.Kind() == protoreflect.MessageKind && wrapped(d) == nil && decimal(d) == nil && d.FullName() != timestamp
}

func title(f protoreflect.FieldDescriptor) string {
	switch {
	case f.Message() != nil:
		return "message " + string(f.Message().FullName())
	case f.Enum() != nil:
		return "enum " + string(f.Enum().FullName())
	}
	return f.Kind().String()
}

// The well-known types that are read as a whole.
const (
	timestamp = "google.protobuf.Timestamp"
	wrappers  = "google.protobuf.DoubleValue google.protobuf.FloatValue google.protobuf.Int64Value google.protobuf.UInt64Value " +
		"google.protobuf.Int32Value google.protobuf.UInt32Value google.protobuf.BoolValue google.protobuf.StringValue google.protobuf.BytesValue"
)

// wrapped returns the field of a wrapper message; nil for another message.
func wrapped(m protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	if m == nil || !slices.Contains(strings.Fields(wrappers), string(m.FullName())) {
		return nil
	}
	return m.Fields().ByName("value")
}

// decimal returns the fields of a message that is a decimal with its scale: Confluent's Decimal and Debezium's
// VariableScaleDecimal; nil for another message.
func decimal(m protoreflect.MessageDescriptor) *decimalFields {
	if m == nil || m.FullName() != "confluent.type.Decimal" && m.Name() != "VariableScaleDecimal" {
		return nil
	}
	value, scale := m.Fields().ByName("value"), m.Fields().ByName("scale")
	if value == nil || scale == nil || value.IsList() || scale.IsList() || value.Kind() != protoreflect.BytesKind ||
		scale.Kind() != protoreflect.Int32Kind {
		return nil
	}
	return &decimalFields{value.Number(), scale.Number()}
}

// decimalFields are the numbers of a decimal's fields.
type decimalFields struct{ value, scale protowire.Number }

// isText reports whether a field is a string, or the wrapper of one.
func isText(f protoreflect.FieldDescriptor) bool {
	if inner := wrapped(f.Message()); inner != nil {
		f = inner
	}
	return f.Kind() == protoreflect.StringKind
}

// suits reports whether a field's value can be read in a role.
func suits(f protoreflect.FieldDescriptor, r schemas.Role) bool {
	if r == schemas.RoleReadings {
		return false // a repeated field does, see find
	}
	if inner := wrapped(f.Message()); inner != nil {
		f = inner
	}
	if r == schemas.RoleOperand {
		return f.Message() == nil || f.Message().FullName() == timestamp
	}
	switch f.Kind() {
	case protoreflect.BoolKind:
		return r == schemas.RoleValue
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return r != schemas.RoleKey
	case protoreflect.StringKind:
		return r != schemas.RoleValue
	case protoreflect.BytesKind, protoreflect.EnumKind:
		return r == schemas.RoleKey
	case protoreflect.MessageKind:
		return r == schemas.RoleTime && f.Message().FullName() == timestamp || r == schemas.RoleValue && decimal(f.Message()) != nil
	case protoreflect.GroupKind:
		return false
	}
	return true // integers
}

// maxPaths bounds the list of a schema with many references between its messages.
const maxPaths = 4096

// Paths implements schemas.Fields. It lists the paths of the first message.
func (f *file) Paths(r schemas.Role) []string { return paths(f.Messages().Get(0), r) }

// paths lists the paths in a message that suit a role.
func paths(m protoreflect.MessageDescriptor, r schemas.Role) (out []string) {
	open := map[protoreflect.FullName]bool{} // a recursive message is not entered again
	var walk func(m protoreflect.MessageDescriptor, path string, array bool)
	walk = func(m protoreflect.MessageDescriptor, path string, array bool) {
		if open[m.FullName()] || len(out) >= maxPaths {
			return
		}
		open[m.FullName()] = true
		defer delete(open, m.FullName())
		for i := range m.Fields().Len() {
			field := m.Fields().Get(i)
			at, inside := path+string(field.Name()), array
			switch {
			case field.IsMap():
				field, at = field.MapValue(), at+".*"
			case field.IsList() && r == schemas.RoleReadings:
				if field.Kind() == protoreflect.MessageKind && !array {
					out = append(out, at)
				}
				continue
			case field.IsList():
				if array || r != schemas.RoleValue {
					continue
				}
				at, inside = at+"[]", true
			}
			if suits(field, r) {
				if len(out) < maxPaths {
					out = append(out, at)
				}
			} else if field.Kind() == protoreflect.MessageKind {
				walk(field.Message(), at+".", inside)
			}
		}
	}
	walk(m, "", false)
	return out
}
