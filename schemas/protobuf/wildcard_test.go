package protobuf

import (
	"fmt"
	"maps"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"odradek/schemas"
)

// TestWildcard: each number in a map, and in a message, is a sample of a series of its own; a number without presence is 0 where it is
// not written.
func TestWildcard(t *testing.T) {
	d := reading(t)
	m := dynamicpb.NewMessage(d)
	field := func(name string) protoreflect.FieldDescriptor { return d.Fields().ByName(protoreflect.Name(name)) }
	m.Set(field("device"), protoreflect.ValueOfString("k"))
	m.Set(field("millis"), protoreflect.ValueOfInt64(5))
	tags := m.Mutable(field("tags")).Map()
	tags.Set(protoreflect.ValueOfString("a/b").MapKey(), protoreflect.ValueOfInt64(-3))
	tags.Set(protoreflect.ValueOfString("c.d").MapKey(), protoreflect.ValueOfInt64(0))
	slots := m.Mutable(field("slots")).Map()
	slot := slots.NewValue()
	channel := slot.Message()
	channel.Set(channel.Descriptor().Fields().ByName("gain"), protoreflect.ValueOfFloat32(1.5))
	slots.Set(protoreflect.ValueOfInt32(-7).MapKey(), slot)
	site := m.Mutable(field("site")).Message()
	site.Set(site.Descriptor().Fields().ByName("plant"), protoreflect.ValueOfString("oslo"))
	wrapped := m.Mutable(field("wrapped")).Message()
	wrapped.Set(wrapped.Descriptor().Fields().ByName("value"), protoreflect.ValueOfFloat64(2.5))
	body, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	ofTags := map[string]float64{"tags.a%2Fb": -3, `tags.c\.d`: 0}
	ofSlots := map[string]float64{"slots.-7.level": 0, "slots.-7.gain": 1.5}
	all := map[string]float64{"site.temperature": 0, "value": 0, "wrapped": 2.5, "serial": 0, "u": 0, "sf": 0}
	maps.Copy(all, ofTags)
	maps.Copy(all, ofSlots)
	for path, want := range map[string]map[string]float64{
		"tags.*": ofTags, "slots.*": ofSlots, "site.*": {"site.temperature": 0}, "*": all,
		"slots.*.gain": {"slots.-7.gain": 1.5}, "*.temperature": {"site.temperature": 0}, "slots.*.*": ofSlots,
	} {
		mapping := schemas.Mapping{Key: "device", Time: "millis", Fields: []string{path}}
		p, _ := compile(t, mapping)
		var r schemas.Reading
		for range 2 {
			if err := p.Decode(nil, append([]byte{0}, body...), 7, &r); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			got, s := map[string]float64{}, schemas.NewSplitter(mapping.Fields)
			for i := range s.Samples(&r) {
				key, _, v := s.Sample(&r, i)
				got[string(key)[2:]] = v[0]
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %v, want %v", path, got, want)
			}
		}
		// No record makes it panic.
		for i := range body {
			_ = p.Decode(nil, append([]byte{0}, body[:i]...), 7, &r)
		}
	}
	for _, path := range []string{"value.*", "accel.*", "at.*", "wrapped.*"} {
		if errs := Format.Check(schemas.Mapping{Key: "device", Time: "millis", Fields: []string{path}}, plant()); len(errs) != 1 {
			t.Errorf("%s: %v", path, errs)
		}
	}
}
