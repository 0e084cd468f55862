package formats

import (
	"fmt"
	"slices"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/schemas"
)

// leafTexts returns the leaves but nulls and leaves of paths that a format writes in a way of its own.
func leafTexts(list []schemas.Leaf) (texts []string) {
	for _, l := range list {
		if l.Kind != schemas.LeafNull && (l.Kind != schemas.LeafArray || l.Array == "") {
			if l.Kind == schemas.LeafInt { // JSON writes 3.0 as 3
				l.Kind = schemas.LeafFloat
			}
			texts = append(texts, fmt.Sprintf("%s of %s[%d]: %d %v %s", l.Path, l.Array, l.Item, l.Kind, l.Float, l.Text))
		}
	}
	slices.Sort(texts)
	return texts
}

// TestLeaves: the leaves of a record are its values, in every format, with the paths that a mapping has for them; broken
// bytes are an error or other leaves, never a panic or a long list.
func TestLeaves(t *testing.T) {
	rng := seedtest.New(t)
	encoders := plantEncoders(t)
	for range 300 {
		r := newPlantRecord(rng)
		add := func(list []schemas.Leaf, path, array string, item int, v any) []schemas.Leaf {
			l := schemas.Leaf{Path: path, Array: array, Item: item}
			switch v := v.(type) {
			case string:
				l.Kind, l.Text = schemas.LeafText, v
			case int64:
				l.Kind, l.Float = schemas.LeafFloat, float64(v)
			case float64:
				l.Kind, l.Float = schemas.LeafFloat, v
			}
			return append(list, l)
		}
		var list []schemas.Leaf
		list = add(list, "machine", "", 0, r.machine)
		list = add(list, "at", "", 0, r.at)
		list = add(list, "ambient", "", 0, r.ambient)
		for i, p := range r.points {
			list = add(list, "data.points.sensor", "data.points", i, p.sensor)
			list = add(list, "data.points.at", "data.points", i, p.at)
			if p.v == p.v {
				list = add(list, "data.points.v", "data.points", i, p.v)
			}
		}
		for format, schema := range map[string]string{"avro": plantAvro, "protobuf": plantProto, "json": ""} {
			n, err := NewInspector(nil, Options{Format: format, Bare: schema})
			if err != nil {
				t.Fatal(err)
			}
			want := list
			if len(r.points) > 0 || !r.none && format != "protobuf" { // which leaves out the record of an empty array
				want = append(slices.Clone(list), schemas.Leaf{Path: "data.points", Kind: schemas.LeafArray})
			}
			body := encoders[format](&r)
			out := schemas.Leaves{Most: 200}
			_, err = n.Leaves(t.Context(), body, nil, &out)
			if got, want := leafTexts(out.List), leafTexts(want); err != nil || !slices.Equal(got, want) {
				t.Fatalf("%s: %v\n%q, want\n%q", format, err, got, want)
			}
			for _, l := range out.List {
				if l.Kind == schemas.LeafArray && l.Array == "" && int(l.Int) != len(r.points) {
					t.Errorf("%s: an array of %d items, want %d", format, l.Int, len(r.points))
				}
			}
			few := schemas.Leaves{Most: 3}
			if _, err := n.Leaves(t.Context(), body, nil, &few); err != nil || len(few.List) != 3 || !few.Cut {
				t.Errorf("%s: %d leaves of 3: %v", format, len(few.List), err)
			}
			for range 20 {
				b := slices.Clone(body)
				for range 1 + rng.IntN(4) {
					b[rng.IntN(len(b))] = byte(rng.IntN(256))
				}
				if _, _ = n.Leaves(t.Context(), b, nil, &out); len(out.List) > 200 {
					t.Fatalf("%s: %d leaves of %x", format, len(out.List), b)
				}
			}
		}
	}
}
