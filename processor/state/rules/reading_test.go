package rules

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"odradek/processor/state/changelog"
)

// vary visits each field of a value, fields of structs in it too, with the field set to something else than before.
func vary(t *testing.T, v reflect.Value, path string, visit func(path string)) {
	t.Helper()
	was := reflect.New(v.Type()).Elem()
	was.Set(v)
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			vary(t, v.Field(i), path+"."+v.Type().Field(i).Name, visit)
		}
		return
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 7)
	case reflect.Uint64:
		v.SetUint(v.Uint() + 1<<63)
	case reflect.String:
		v.SetString(v.String() + "\x00é")
	case reflect.Slice:
		v.Set(reflect.Append(v, reflect.New(v.Type().Elem()).Elem()))
		visit(path)
		vary(t, v.Index(v.Len()-1), path+"[]", visit)
		v.Set(was)
		return
	default:
		t.Fatalf("%s is of a kind that the test does not know: %s", path, v.Kind())
	}
	visit(path)
	v.Set(was)
}

// TestEveryFieldIsDecided: a change of any field of a reading changes the content of its decision, and is read back.
func TestEveryFieldIsDecided(t *testing.T) {
	for _, long := range []string{"", strings.Repeat("a schema file ", 1000)} {
		d := &Decided{Reading: Reading{Decoding: Decoding{Schema: long}}}
		before := d.Encode()
		fields := 0
		vary(t, reflect.ValueOf(d).Elem(), "Decided", func(path string) {
			fields++
			content := d.Encode()
			if r := (&Decided{Reading: Reading{Decoding: Decoding{Schema: long}}}); path != "Decided.Watermark" &&
				len(d.Reading.Differences(&r.Reading)) != 1 {
				t.Errorf("with another %s differ %q", path, d.Reading.Differences(&r.Reading))
			}
			if bytes.Equal(content, before) {
				t.Errorf("%s is not in the decision", path)
			}
			got, err := DecodeReading(content)
			if err != nil || !reflect.DeepEqual(got, d) {
				t.Errorf("with another %s: read %+v, %v", path, got, err)
			}
		})
		if fields < 20 {
			t.Errorf("only %d fields were changed", fields)
		}
	}
}

// TestUnreadable: content of a later version and damaged content are told apart.
func TestUnreadable(t *testing.T) {
	for content, want := range map[string]error{
		"":                                    changelog.ErrCorrupt,
		"\x01{":                               changelog.ErrCorrupt,
		"\x01{} {}":                           changelog.ErrCorrupt,
		"\x01{\"Reading\":{\"Lateness\":-1}}": changelog.ErrCorrupt,
		"\x02zzz":                             changelog.ErrCorrupt,
		"\x01{\"Reading\":{\"Rain\":1}}":      changelog.ErrNewer,
		"\x03{}":                              changelog.ErrNewer,
	} {
		if _, err := DecodeReading([]byte(content)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", content, err, want)
		}
	}
}

// TestTranslate: values go by the names of their fields.
func TestTranslate(t *testing.T) {
	was := Reading{Decoding: Decoding{Key: "id", Fields: []string{"a", "b[2]", "c"}}}
	now := Reading{Decoding: Decoding{Key: "id", Fields: []string{"c", "d", "b[2]"}}}
	tr, ok := now.Translate(&was)
	if !ok || !slices.Equal(tr, Translation{3, -1, 1, 2}) {
		t.Fatal(tr, ok)
	}
	dst := make([]float64, now.Dim())
	tr.Apply(dst, []float64{1, 2, 3, 4})
	if dst[0] != 4 || !math.IsNaN(dst[1]) || dst[2] != 2 || dst[3] != 3 {
		t.Error(dst)
	}
	if tr, ok := was.Translate(&was); tr != nil || !ok {
		t.Error("the same values are translated")
	}
	computed := func(how ...string) *Reading {
		return &Reading{Decoding: Decoding{Key: "id", Fields: []string{"c", "x"}, Computed: how}}
	}
	if tr, ok := computed("x=a*2.0").Translate(computed("x=a*3.0")); !ok || !slices.Equal(tr, Translation{0, -1}) {
		t.Error("a value computed in another way is taken for the same one", tr, ok)
	}
	if tr, ok := computed("x=a*2.0").Translate(computed("x=a*2.0")); !ok || tr != nil {
		t.Error("a value computed in the same way is translated", tr, ok)
	}
	if computed("x=a*2.0").Layout() == computed("x=a*3.0").Layout() || computed().Layout() == computed("x=a*3.0").Layout() {
		t.Error("values computed in two ways have one layout")
	}
	was.Key = "name"
	if _, ok := now.Translate(&was); ok {
		t.Error("samples of other series are translated")
	}
	now.Series = true
	series := now
	series.Fields = nil
	if tr, ok := now.Translate(&series); tr != nil || !ok || now.Dim() != 1 || now.Layout() != series.Layout() {
		t.Error("series of their own depend on each other")
	}
}
