package rules

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// Aggregate says what the values of an interval of event time become: one value, which enters the windows. It is of the values that
// are not missing; without one it is missing, but for Sum and Count with Order.EmptyZero.
type Aggregate uint8

// Sum, Count, Min and Max are of the values that are not missing.
const (
	// Mean is the arithmetic mean.
	Mean Aggregate = iota + 1
	Sum
	Count
	Min
	Max
	// Last is the value of the last sample.
	Last
	// Range is the largest value less the smallest.
	Range
	// StdDev is the standard deviation of a sample, by n-1; of one value it is missing.
	StdDev
	// Median is the middle value, or the mean of the two middle ones. P95 is the least value that 95 % of the values do not exceed.
	// Both are exact of as many values as an open interval keeps (series.MostValues).
	Median
	P95
)

// AggregateNames are the names of aggregates in settings.
var AggregateNames = []string{"mean", "sum", "count", "min", "max", "last", "range", "stddev", "median", "p95"}

// String returns the name of the aggregate in settings.
func (a Aggregate) String() string { return AggregateNames[a-1] }

// Keeps reports whether an open interval keeps its values.
func (a Aggregate) Keeps() bool { return a == Median || a == P95 }

// FieldAggregate is the aggregate of a field's values.
type FieldAggregate struct {
	Field string // as in Decoding.Fields, an array with or without its count; empty: of all fields without an own one
	Aggregate
}

// ParseAggregate parses an entry of Order.Aggregates, AGGREGATE or FIELD=AGGREGATE.
func ParseAggregate(entry string) (a FieldAggregate, err error) {
	name := strings.TrimSpace(entry)
	if field, aggregate, ok := strings.Cut(entry, "="); ok {
		a.Field, name = strings.TrimSpace(field), strings.TrimSpace(aggregate)
		if a.Field == "" {
			name = ""
		}
	}
	i := slices.Index(AggregateNames, name)
	if i < 0 {
		return a, fmt.Errorf("%q is not AGGREGATE or FIELD=AGGREGATE, with %s", entry, strings.Join(AggregateNames, ", "))
	}
	a.Aggregate = Aggregate(i + 1)
	return a, nil
}

// About reports whether the entry is about a field of the mapping.
func (a FieldAggregate) About(field string) bool {
	return a.Field == field || a.Field == withoutCount(field)
}

// Same reports whether two entries are about one field.
func (a FieldAggregate) Same(o FieldAggregate) bool {
	return withoutCount(a.Field) == withoutCount(o.Field)
}

// ColumnAggregate is the aggregate of one value of a sample.
type ColumnAggregate struct {
	Column int
	Aggregate
	// ID tells the aggregates of two readings apart: it is a hash of field, place in the field, transform, aggregate, the length of
	// an interval, and what an empty one is. Of a computed value it has the expression.
	ID uint64
}

// AggregateOf returns the aggregate of a field by entries of Order.Aggregates: the field's own, the one for all, or Mean. An entry that
// cannot be parsed was not written by a worker, and is left out.
func AggregateOf(entries []string, field string) Aggregate {
	all := Mean
	for _, entry := range entries {
		switch a, err := ParseAggregate(entry); {
		case err != nil:
		case a.Field == "":
			all = a.Aggregate
		case withoutCount(a.Field) == withoutCount(field):
			return a.Aggregate
		}
	}
	return all
}

// AggregatesOf returns the aggregates of the values of a series' samples, by columns; nil where a sample enters the windows as it is.
func (r *Reading) AggregatesOf(key []byte) (list []ColumnAggregate) {
	if r.Every == 0 {
		return nil
	}
	fields := r.Fields
	if r.Series {
		fields = []string{r.fieldOf(key, r.Aggregates)}
	}
	transforms := r.TransformsOf(key)
	for _, f := range fields {
		width := fieldWidth(f)
		if r.Series {
			width = 1
		}
		name := withoutCount(f)
		aggregate := AggregateOf(r.Aggregates, name)
		for i := range width {
			h := fnv.New64a()
			fmt.Fprintf(h, "%q %d %d %d %t", r.identity(name), i, aggregate, r.Every, r.EmptyZero)
			for _, t := range transforms {
				if t.Column == len(list) {
					fmt.Fprintf(h, " %d", t.Transform)
				}
			}
			list = append(list, ColumnAggregate{len(list), aggregate, h.Sum64()})
		}
	}
	return list
}

// FieldNames returns the fields that transforms and aggregates are of, by ColumnTransform.ID and ColumnAggregate.ID.
func (r *Reading) FieldNames() map[uint64]string {
	names := map[uint64]string{}
	for _, key := range r.exampleKeys() {
		var columns []string
		for _, f := range r.Fields {
			for range fieldWidth(f) {
				columns = append(columns, withoutCount(f))
			}
		}
		if r.Series {
			columns = []string{string(key[1:])}
		}
		for _, t := range r.TransformsOf(key) {
			names[t.ID] = columns[t.Column]
		}
		for i, a := range r.AggregatesOf(key) {
			names[a.ID] = columns[i]
		}
	}
	return names
}

// aggregateIDs returns the IDs of all aggregates of a reading.
func (r *Reading) aggregateIDs() (list []uint64) {
	for _, key := range r.exampleKeys() {
		for _, a := range r.AggregatesOf(key) {
			list = append(list, a.ID)
		}
	}
	return list
}

// SameIntervals reports whether two readings have the same intervals. They may aggregate other values.
func (r *Reading) SameIntervals(o *Reading) bool {
	return r.Every == o.Every && r.EmptyZero == o.EmptyZero
}

// PreparedOtherwise returns the IDs of r's transforms and aggregates that another reading has not.
func (r *Reading) PreparedOtherwise(o *Reading) []uint64 {
	list := r.transformsWithout(o)
	if r.Every == 0 {
		return list
	}
	others := o.aggregateIDs()
	for _, id := range r.aggregateIDs() {
		if !slices.Contains(others, id) {
			list = append(list, id)
		}
	}
	return list
}
