package schemas

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestMappingLayout(t *testing.T) {
	m := Mapping{Key: `site+device.id+@key`, Time: "meta.ts", Fields: []string{"temp", "accel[3]", `tags.a\.b`, "chan[2].x"}}
	if err := m.Validate(); err != nil {
		t.Fatal(err)
	}
	if m.Width() != 7 {
		t.Error(m.Width())
	}
	for _, c := range []struct {
		fields []string
		want   []int
	}{
		{nil, []int{0, 1, 2, 3, 4, 5, 6}},
		{[]string{""}, []int{0, 1, 2, 3, 4, 5, 6}},
		{[]string{"temp"}, []int{0}},
		{[]string{"chan.x", " accel"}, []int{5, 6, 1, 2, 3}},
		{[]string{"accel[3]", `tags.a\.b`}, []int{1, 2, 3, 4}},
	} {
		if got, err := m.Columns(c.fields); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, %v", c.fields, got, err)
		}
	}
	if got, want := m.ColumnNames([]int{0, 6, 1, 3, 4, 5}),
		[]string{"temp", "chan[1].x", "accel[0]", "accel[2]", `tags.a\.b`, "chan[0].x"}; !slices.Equal(got, want) {
		t.Errorf("columns %q, want %q", got, want)
	}
	if _, err := m.Columns([]string{"tmp"}); err == nil || !strings.Contains(err.Error(), "tmp") {
		t.Error(err)
	}
	l, _ := m.Layout()
	if got := fmt.Sprint(l.Sinks[5].Segs, l.recordKey, l.KeyParts); got != "[{tags 0} {a.b 0}] 2 3" {
		t.Error(got)
	}
}

func TestMappingFaults(t *testing.T) {
	for _, c := range []struct {
		m    Mapping
		want string
	}{
		{Mapping{}, "no fields"},
		{Mapping{Fields: []string{""}}, "empty step"},
		{Mapping{Fields: []string{"a", "a"}}, "twice"},
		{Mapping{Fields: []string{"a."}}, "empty step"},
		{Mapping{Fields: []string{"a[b]"}}, "not a length"},
		{Mapping{Fields: []string{"a[2"}}, "not a length"},
		{Mapping{Fields: []string{"a[2]x"}}, "not a length"},
		{Mapping{Fields: []string{"a[]"}}, "a[3]"},
		{Mapping{Fields: []string{"a[2].b[2]"}}, "two arrays"},
		{Mapping{Fields: []string{"a[60000]", "b[60000]"}}, "120000 values"},
		{Mapping{Fields: []string{"@key"}}, "@key"},
		{Mapping{Fields: []string{`a\`}}, "backslash"},
		{Mapping{Key: "a+", Fields: []string{"a"}}, "empty step"},
		{Mapping{Key: "a[2]", Fields: []string{"a"}}, "array"},
		{Mapping{Key: "@key+@key", Fields: []string{"a"}}, "twice"},
		{Mapping{Key: "a+b+c+d+e+f+g+h+i", Fields: []string{"a"}}, "9 parts"},
		{Mapping{Time: "a[2]", Fields: []string{"a"}}, "array"},
		{Mapping{TimeUnit: "m", Fields: []string{"a"}}, `"m"`},
	} {
		if err := c.m.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.m, err, c.want)
		}
		if c.m.Width() != 0 {
			t.Errorf("%+v: width %d", c.m, c.m.Width())
		}
	}
}
