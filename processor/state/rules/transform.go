package rules

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// Transform says what is computed of a value before it enters a window.
type Transform uint8

const (
	// Rate is the increase per second of event time since the series' value before. A smaller value than the one before is
	// the reset of a counter: the increase is not known, and the value missing.
	Rate Transform = iota + 1
	// Difference is the value less the series' value before.
	Difference
	// Log is the natural logarithm; of a value that is not positive it is missing.
	Log
	// Absolute is the absolute value.
	Absolute
)

// transformNames are the names of transforms in settings.
var transformNames = map[string]Transform{"rate": Rate, "difference": Difference, "log": Log, "abs": Absolute}

// Remembers reports whether the result depends on the series' value before.
func (t Transform) Remembers() bool { return t == Rate || t == Difference }

// FieldTransform is the transform of a field's values.
type FieldTransform struct {
	Field string // as in Decoding.Fields, an array with or without its count
	Transform
}

// ParseTransform parses an entry of Order.Transforms, FIELD=TRANSFORM.
func ParseTransform(entry string) (FieldTransform, error) {
	field, name, ok := strings.Cut(entry, "=")
	field, name = strings.TrimSpace(field), strings.TrimSpace(name)
	t := transformNames[name]
	if !ok || field == "" || t == 0 {
		return FieldTransform{}, fmt.Errorf("%q is not FIELD=TRANSFORM, with rate, difference, log or abs", entry)
	}
	return FieldTransform{field, t}, nil
}

// About reports whether the entry is about a field of the mapping.
func (t FieldTransform) About(field string) bool {
	return t.Field == field || t.Field == withoutCount(field)
}

// Same reports whether two entries are about one field.
func (t FieldTransform) Same(o FieldTransform) bool {
	return withoutCount(t.Field) == withoutCount(o.Field)
}

func withoutCount(field string) string {
	name, _, _ := strings.Cut(field, "[")
	return name
}

// ColumnTransform is the transform of one value of a sample.
type ColumnTransform struct {
	Column int
	Transform
	// ID tells the transforms of two readings apart: it is a hash of field, place in the field and transform. Of a computed
	// value it has the expression.
	ID uint64
}

// TransformsOf returns the transforms of the values of a series' samples, by columns. An entry that cannot be parsed was not
// written by a worker, and is left out.
func (r *Reading) TransformsOf(key []byte) (list []ColumnTransform) {
	fields := r.Fields
	if r.Series {
		fields = []string{r.fieldOf(key, r.Transforms)}
	}
	for _, entry := range r.Transforms {
		t, err := ParseTransform(entry)
		if err != nil {
			continue
		}
		at := 0
		for _, f := range fields {
			width := fieldWidth(f)
			if r.Series {
				width = 1
			}
			if withoutCount(t.Field) == withoutCount(f) {
				for i := range width {
					h := fnv.New64a()
					fmt.Fprintf(h, "%q %d %d", r.identity(withoutCount(t.Field)), i, t.Transform)
					list = append(list, ColumnTransform{at + i, t.Transform, h.Sum64()})
				}
			}
			at += width
		}
	}
	slices.SortFunc(list, func(a, b ColumnTransform) int { return a.Column - b.Column })
	return list
}

// transformIDs returns the IDs of all transforms of a reading.
func (r *Reading) transformIDs() (list []uint64) {
	for _, key := range r.exampleKeys() {
		for _, t := range r.TransformsOf(key) {
			list = append(list, t.ID)
		}
	}
	return list
}

// exampleKeys returns a key of each kind of series that a record has: one, or with Series one for each field.
func (r *Reading) exampleKeys() (keys [][]byte) {
	if !r.Series {
		return [][]byte{nil}
	}
	for _, f := range r.Fields {
		keys = append(keys, []byte("/"+f))
	}
	for _, entry := range slices.Concat(r.Transforms, r.Aggregates) { // entries of series that a wildcard stands for
		if f, _, ok := strings.Cut(entry, "="); ok && r.wildcard() {
			keys = append(keys, []byte("/"+strings.TrimSpace(f)))
		}
	}
	return keys
}

// unescaped hides what is behind a backslash in a path: it is part of a name.
var unescaped = strings.NewReplacer(`\\`, "_", `\.`, "_", `\`, "_")

// wildcard reports whether the one field stands for each number below a path, as schemas.IsWildcard does, which this package may not
// import.
func (r *Reading) wildcard() bool {
	return len(r.Fields) == 1 && slices.Contains(strings.Split(unescaped.Replace(r.Fields[0]), "."), "*")
}

// fieldOf returns the field that an entry of Transforms or Aggregates names of the series with a key, where each field is one: its
// own, or the wildcard that stands for it where no entry has its own.
func (r *Reading) fieldOf(key []byte, entries []string) string {
	field := withoutCount(string(key[bytes.LastIndexByte(key, '/')+1:]))
	if r.wildcard() && !slices.ContainsFunc(entries, func(entry string) bool {
		name, _, ok := strings.Cut(entry, "=")
		return ok && withoutCount(strings.TrimSpace(name)) == field
	}) {
		return r.Fields[0]
	}
	return field
}

// transformsWithout returns the IDs of r's transforms that another reading has not.
func (r *Reading) transformsWithout(o *Reading) []uint64 {
	if slices.Equal(r.Transforms, o.Transforms) && slices.Equal(r.columns(), o.columns()) {
		return nil
	}
	others := o.transformIDs()
	return slices.DeleteFunc(r.transformIDs(), func(id uint64) bool { return slices.Contains(others, id) })
}
