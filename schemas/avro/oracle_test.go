package avro

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"odradek/schemas"
)

// oracle says what a record means, by following the mapping's paths through
// what goavro decodes. It is written from the description of Mapping, shares
// nothing with the projection, and is as slow as it likes.
type oracle struct {
	m   schemas.Mapping
	typ *gtype
}

type outcome struct {
	class  string // "" if the record is a reading
	field  string
	key    string
	time   int64
	values []float64
}

// end is where a path leads: the type and the value there, or why it does not.
type end struct {
	t     *gtype
	v     any
	trial string // "", "null", "branch" (a record without the field), "type", "length"
}

func (o *oracle) step(e end, name string, count int) []end {
	if e.trial != "" {
		return []end{e}
	}
	t, v := unwrap(e.t, e.v)
	if t.kind == "null" {
		return []end{{trial: "null"}}
	}
	if name != "" {
		switch t.kind {
		case "record":
			found := -1
			for i, f := range t.fields {
				if f.name == name {
					found = i
				}
			}
			for i, f := range t.fields {
				if found < 0 && f.alias == name {
					found = i
				}
			}
			if found < 0 {
				return []end{{trial: "branch"}}
			}
			f := t.fields[found]
			t, v = f.typ, v.(map[string]any)[f.name]
		case "map":
			inner, ok := v.(map[string]any)[name]
			if !ok {
				return []end{{trial: "null"}}
			}
			t, v = t.items, inner
		default:
			return []end{{trial: "type"}}
		}
	}
	if count == 0 {
		return []end{{t: t, v: v}}
	}
	t, v = unwrap(t, v)
	if t.kind == "null" {
		return []end{{trial: "null"}}
	}
	if t.kind != "array" {
		return []end{{trial: "type"}}
	}
	items := v.([]any)
	if len(items) != count {
		return []end{{trial: "length"}}
	}
	var out []end
	for _, x := range items {
		out = append(out, end{t: t.items, v: x})
	}
	return out
}

func unwrap(t *gtype, v any) (*gtype, any) {
	if t.kind != "union" {
		return t, v
	}
	for _, b := range t.branches {
		if v == nil && b.kind == "null" {
			return b, nil
		}
		if m, ok := v.(map[string]any); ok && len(m) == 1 {
			if inner, ok := m[b.key]; ok {
				return b, inner
			}
		}
	}
	panic(fmt.Sprintf("union %v of %v", v, t))
}

func (o *oracle) follow(v any, path string) []end {
	ends := []end{{t: o.typ, v: v}}
	if path != "@value" {
		for _, step := range strings.Split(path, ".") {
			name, count := step, 0
			if i := strings.IndexByte(step, '['); i >= 0 {
				name = step[:i]
				count, _ = strconv.Atoi(step[i+1 : len(step)-1])
			}
			var next []end
			for _, e := range ends {
				next = append(next, o.step(e, name, count)...)
			}
			ends = next
		}
	}
	for i, e := range ends {
		if e.trial == "" {
			ends[i].t, ends[i].v = unwrap(e.t, e.v)
			if ends[i].t.kind == "null" {
				ends[i].trial = "null"
			}
		}
	}
	return ends
}

var trials = map[string]string{"branch": schemas.ClassMissingField, "type": schemas.ClassBadType, "length": schemas.ClassMalformed}

func (o *oracle) read(native any, kafkaKey []byte, kafkaTime int64) outcome {
	class, field := "", ""
	note := func(c, f string) {
		if class == "" {
			class, field = c, f
		}
	}

	// The key: all that is wrong with parts counts before a missing one.
	var key strings.Builder
	empty := ""
	if o.m.Key == "" || o.m.Key == "@key" {
		key.Write(kafkaKey)
		if len(kafkaKey) == 0 {
			empty = "@key"
		}
	} else {
		parts := strings.Split(o.m.Key, "+")
		first := parts[0]
		for i, p := range parts {
			text := ""
			if p == "@key" {
				text = string(kafkaKey)
			} else {
				e := o.follow(native, p)[0]
				switch {
				case e.trial == "null":
					if !viaMap(o, native, p) {
						note(schemas.ClassMissingKey, p)
					}
				case e.trial != "":
					note(trials[e.trial], p)
				default:
					var ok bool
					if text, ok = keyText(e.t, e.t.raw(e.v)); !ok {
						note(schemas.ClassBadType, p)
					}
				}
			}
			if text == "" {
				empty = first
			}
			if len(parts) > 1 {
				text = strings.NewReplacer(`\`, `\\`, `/`, `\/`).Replace(text)
			}
			if i > 0 {
				key.WriteByte('/')
			}
			key.WriteString(text)
		}
	}
	if empty != "" {
		note(schemas.ClassMissingKey, empty)
	}

	out := outcome{key: key.String()}
	if o.m.Time == "" || o.m.Time == "@timestamp" {
		out.time = kafkaTime * 1000
		if kafkaTime < 0 {
			note(schemas.ClassBadTime, "@timestamp")
		}
	} else {
		e := o.follow(native, o.m.Time)[0]
		switch {
		case e.trial == "null":
			note(schemas.ClassBadTime, o.m.Time)
		case e.trial != "":
			note(trials[e.trial], o.m.Time)
		default:
			t, c := o.micros(e.t, e.v)
			out.time = t
			if c != "" {
				note(c, o.m.Time)
			}
		}
	}

	for _, p := range o.m.Fields {
		n := 1
		if i := strings.IndexByte(p, '['); i >= 0 {
			n, _ = strconv.Atoi(p[i+1 : strings.IndexByte(p, ']')])
		}
		ends := o.follow(native, p)
		for i := range n {
			e := ends[min(i, len(ends)-1)]
			f := math.NaN()
			switch {
			case e.trial == "null":
			case e.trial != "":
				note(trials[e.trial], p)
			default:
				var ok bool
				f, ok = toFloat(e.t.raw(e.v))
				if !ok || !e.t.suits(schemas.RoleValue) {
					note(schemas.ClassBadType, p)
				}
				if math.IsInf(f, 0) {
					note(schemas.ClassInfinite, p)
				}
			}
			out.values = append(out.values, f)
		}
	}
	out.class, out.field = class, field
	return out
}

// viaMap: a part that a map does not have counts as empty, found at the end.
func viaMap(o *oracle, native any, path string) bool {
	steps := strings.Split(path, ".")
	e := end{t: o.typ, v: native}
	for i, s := range steps {
		t, v := unwrap(e.t, e.v)
		if t.kind == "map" {
			if _, ok := v.(map[string]any)[s]; !ok {
				return true
			}
		}
		if t.kind == "null" {
			return false
		}
		next := o.step(e, s, 0)[0]
		if next.trial != "" {
			return false
		}
		e = next
		_ = i
	}
	return false
}

func keyText(t *gtype, v any) (string, bool) {
	if !t.suits(schemas.RoleKey) {
		return "", false
	}
	switch v := v.(type) {
	case string:
		return v, true
	case []byte:
		if t.kind == "fixed" && t.logical == "uuid" {
			return fmt.Sprintf("%x-%x-%x-%x-%x", v[:4], v[4:6], v[6:8], v[8:10], v[10:]), true
		}
		return string(v), true
	case int32, int64:
		return fmt.Sprint(v), true
	}
	return "", false
}

func toFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case int32:
		return float64(v), true
	case int64:
		return float64(v), true
	case float32:
		return float64(v), true
	case float64:
		return v, true
	}
	return math.NaN(), false
}

func (o *oracle) micros(t *gtype, v any) (int64, string) {
	if !t.suits(schemas.RoleTime) {
		return 0, schemas.ClassBadType
	}
	if v, ok := v.(time.Time); ok { // goavro knows the logical type
		if v.Year() < 1 || v.Year() > 9998 {
			return 0, schemas.ClassBadTime
		}
		return v.UnixMicro(), ""
	}
	unit := map[string]int64{"s": 1e9, "us": 1e3, "ns": 1, "ms": 1e6, "auto": 1e6, "": 1e6}[o.m.TimeUnit]
	switch t.logical {
	case "timestamp-nanos":
		unit = 1
	case "local-timestamp-micros":
		unit = 1e3
	}
	var nanos *big.Rat
	switch v := v.(type) {
	case int32:
		nanos = big.NewRat(int64(v), 1)
	case int64:
		nanos = big.NewRat(v, 1)
	case float32, float64:
		f, _ := toFloat(v)
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return 0, schemas.ClassBadTime
		}
		f *= float64(max(unit/1000, 1)) // in float64, to the nearest microsecond
		if unit == 1 {
			f /= 1000
		}
		f = math.Round(f)
		if math.Abs(f) > 1e18 {
			return 0, schemas.ClassBadTime
		}
		nanos, unit = big.NewRat(int64(f), 1), 1000
	case string:
		var p time.Time
		if p.UnmarshalText([]byte(v)) != nil { // what else is a time, damage can make; TimeText has tests of its own
			t, fault := new(schemas.TimeText).Micros([]byte(v))
			if fault != schemas.FaultNone {
				return 0, schemas.ClassBadTime
			}
			return t, ""
		}
		if p.UTC().Year() < 1 || p.UTC().Year() > 9998 {
			return 0, schemas.ClassBadTime
		}
		return p.UnixMicro(), ""
	default:
		return 0, schemas.ClassBadType
	}
	nanos.Mul(nanos, big.NewRat(unit, 1))
	n := new(big.Int).Div(nanos.Num(), big.NewInt(1000)) // rounds down: the divisor is positive
	low, high := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	if n.Cmp(big.NewInt(low)) < 0 || n.Cmp(big.NewInt(high)) >= 0 {
		return 0, schemas.ClassBadTime
	}
	return n.Int64(), ""
}
