package formats

import (
	"math"
	"slices"
	"strings"
	"testing"

	"odradek/detectors/seedtest"
	"odradek/schemas"
)

// TestAccept: in every format a value outside of its bounds, or equal to a number that stands for no reading, is missing and
// counted by its field, whether it is the record's or a reading's; others are as they are without bounds.
func TestAccept(t *testing.T) {
	rng := seedtest.New(t)
	const low, high, absent = -0.8, 1.1, 0.25
	out := func(v, low, high float64) bool { return v < low || v > high || v == absent || v == -9999 }
	for _, m := range []schemas.Mapping{
		{Key: "machine", Time: "at", Fields: []string{"ambient"}},
		{Key: "data.points.sensor", Time: "at", Fields: []string{"data.points.v", "ambient", "data.points.accel[2]"}, Readings: "data.points"},
		{Key: "machine", Time: "data.points.at", Fields: []string{"data.points.v"}, Readings: "data.points"},
	} {
		plain := m
		for _, f := range m.Fields {
			switch f {
			case "ambient":
				m.Valid = append(m.Valid, "ambient=..1.1")
			case "data.points.v":
				m.Valid = append(m.Valid, " data.points.v = -0.8 .. 1.1")
			default:
				m.Valid = append(m.Valid, "data.points.accel=0.5..")
			}
			name, _, _ := strings.Cut(f, "[")
			m.MissingIf = append(m.MissingIf, name+"=-9999|0.25")
		}
		for format, encode := range plantEncoders(t) {
			d, err := plantDecoder(t, format, m)
			if err != nil {
				t.Fatal(err)
			}
			all, err := plantDecoder(t, format, plain)
			if err != nil {
				t.Fatal(err)
			}
			var got, want schemas.Reading
			for range 300 {
				rec := newPlantRecord(rng)
				for _, v := range []*float64{&rec.ambient} {
					if rng.IntN(4) == 0 {
						*v = []float64{absent, -9999, high, low, math.Nextafter(high, 2)}[rng.IntN(5)]
					}
				}
				for i := range rec.points {
					if rng.IntN(4) == 0 {
						rec.points[i].v = []float64{absent, -9999, high, low, math.Nextafter(low, -2)}[rng.IntN(5)]
					}
				}
				b := encode(&rec)
				if err := d.Decode(t.Context(), []byte("raw"), b, 5000, nil, &got); err != nil {
					t.Fatal(err)
				}
				if err := all.Decode(t.Context(), []byte("raw"), b, 5000, nil, &want); err != nil {
					t.Fatal(err)
				}
				rejected := make([]int, len(m.Fields))
				if slices.Contains(m.Fields, "ambient") && out(rec.ambient, math.Inf(-1), high) { // once, though it is each reading's
					rejected[slices.Index(m.Fields, "ambient")]++
				}
				if got.Len() != want.Len() {
					t.Fatalf("%s: %d readings of %d", format, got.Len(), want.Len())
				}
				for i := range want.Len() {
					_, _, was := want.At(i)
					_, _, is := got.At(i)
					column := 0
					for f, name := range m.Fields {
						bounds, n := [2]float64{low, high}, 1
						switch name {
						case "ambient":
							bounds[0] = math.Inf(-1)
						case "data.points.accel[2]":
							bounds, n = [2]float64{0.5, math.Inf(1)}, 2
						}
						for range n {
							v := was[column]
							gone := out(v, bounds[0], bounds[1])
							if gone && name != "ambient" {
								rejected[f]++
							}
							if gone && is[column] == is[column] || !gone && is[column] != v && v == v {
								t.Fatalf("%s: %s of %v is read as %v", format, name, v, is[column])
							}
							column++
						}
					}
				}
				counted := make([]int, len(m.Fields))
				for _, f := range got.Rejected {
					counted[f]++
				}
				if !slices.Equal(counted, rejected) {
					t.Fatalf("%s: rejected values by field %v, want %v", format, counted, rejected)
				}
			}
		}
	}
}

// TestAcceptFloat32: a number that stands for no reading is the float32 of a record, too.
func TestAcceptFloat32(t *testing.T) {
	schema := record(`{"name":"v","type":"float"}`)
	d, err := NewDecoder(schemas.Mapping{Fields: []string{"v"}, MissingIf: []string{"v=6553.6"}}, nil, Options{Format: "avro", Bare: schema})
	if err != nil {
		t.Fatal(err)
	}
	bits := math.Float32bits(6553.6)
	var r schemas.Reading
	body := []byte{byte(bits), byte(bits >> 8), byte(bits >> 16), byte(bits >> 24)}
	if err := d.Decode(t.Context(), []byte("k"), body, 5, nil, &r); err != nil {
		t.Fatal(err)
	}
	if r.Values[0] == r.Values[0] || len(r.Rejected) != 1 {
		t.Errorf("values %v, rejected %v", r.Values, r.Rejected)
	}
}

// TestAcceptFaults: what is no bound, and what is no number, is a fault of the mapping.
func TestAcceptFaults(t *testing.T) {
	for _, c := range []struct{ valid, missing, want string }{
		{"v", "", `valid "v" is not FIELD=MIN..MAX`},
		{"v=", "", "is not FIELD"},
		{"v=..", "", "is not FIELD"},
		{"v=5", "", "is not FIELD"},
		{"v=5..4", "", "MIN at most MAX"},
		{"v=a..4", "", "is not FIELD"},
		{"v=NaN..4", "", "is not FIELD"},
		{"v=-Inf..4", "", "is not FIELD"},
		{"w=1..4", "", `"w" is none of the mapped fields v`},
		{"v=1..4;v=2..", "", "named twice"},
		{"", "v", `missing if "v" is not FIELD=NUMBER`},
		{"", "v=", "is not FIELD"},
		{"", "v=1|", "is not FIELD"},
		{"", "v=x", "is not FIELD"},
		{"", "w=1", "none of the mapped fields"},
	} {
		m := schemas.Mapping{Fields: []string{"v"}}
		if c.valid != "" {
			m.Valid = strings.Split(c.valid, ";")
		}
		if c.missing != "" {
			m.MissingIf = []string{c.missing}
		}
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c, err, c.want)
		}
	}
}
