package avro

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"time"

	"odradek/schemas"
)

// gtype is a type of a random schema, with what is needed to make a random
// value of it and to find one's way in what goavro decodes. It shares nothing
// with node.
type gtype struct {
	kind     string
	logical  string
	key      string // what goavro calls it inside a union
	name     string
	scale    int
	size     int
	symbols  []string
	fields   []gfield
	items    *gtype
	branches []*gtype
}

type gfield struct {
	name, alias string
	typ         *gtype
}

type generator struct {
	*rand.Rand
	names int
	open  []*gtype // records being defined, for recursive references
	past  []*gtype // named types that may be referred to
	seen  map[*gtype]bool
}

func (g *generator) pick(list ...string) string { return list[g.IntN(len(list))] }

func (g *generator) name(prefix string) string {
	g.names++
	return fmt.Sprintf("%s%d", prefix, g.names)
}

func (g *generator) typ(depth int) *gtype {
	kinds := []string{"null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum",
		"long", "double", "string"}
	if depth < 4 {
		kinds = append(kinds, "record", "array", "map", "union", "union", "union")
	}
	return g.ofKind(g.pick(kinds...), depth)
}

func (g *generator) ofKind(kind string, depth int) *gtype {
	t := &gtype{kind: kind, key: kind}
	switch kind {
	case "int":
		t.logical = g.pick("", "", "date", "time-millis")
	case "long":
		t.logical = g.pick("", "", "timestamp-millis", "timestamp-micros", "local-timestamp-micros", "timestamp-nanos", "time-micros")
	case "bytes":
		t.logical = g.pick("", "decimal")
		t.scale = g.IntN(7)
	case "string":
		t.logical = g.pick("", "", "uuid")
	case "fixed":
		t.name, t.size = g.name("F"), 1+g.IntN(20)
		t.logical = g.pick("", "decimal", "uuid")
		t.scale = g.IntN(3)
		switch t.logical {
		case "uuid":
			t.size = 16
		case "decimal":
			t.size = 2 + g.IntN(14)
		}
		t.key = t.name
	case "enum":
		t.name = g.name("E")
		for range 1 + g.IntN(4) {
			t.symbols = append(t.symbols, g.name("S"))
		}
		t.key = t.name
	case "record":
		t.name = g.name("R")
		t.key = t.name
		g.open = append(g.open, t)
		for range 1 + g.IntN(5) {
			f := gfield{name: g.name("f")}
			if g.IntN(6) == 0 {
				f.alias = g.name("old")
			}
			switch {
			case g.IntN(12) == 0: // a list of its own kind
				f.typ = &gtype{kind: "union", key: "union", branches: []*gtype{{kind: "null", key: "null"}, g.open[g.IntN(len(g.open))]}}
			case g.IntN(12) == 0 && len(g.past) > 0:
				f.typ = g.past[g.IntN(len(g.past))]
			default:
				f.typ = g.typ(depth + 1)
			}
			t.fields = append(t.fields, f)
		}
		g.open = g.open[:len(g.open)-1]
	case "array", "map":
		t.items = g.typ(depth + 1)
	case "union":
		for _, k := range g.Perm(9)[:1+g.IntN(3)] {
			kinds := []string{"null", "double", "long", "string", "record", "record", "array", "map", "enum"}
			t.branches = append(t.branches, g.ofKind(kinds[k], depth+1))
		}
		if g.IntN(2) == 0 {
			t.branches = []*gtype{{kind: "null", key: "null"},
				g.ofKind(g.pick("double", "float", "long", "int", "string", "bytes", "record", "fixed"), depth+1)}
			if g.IntN(2) == 0 {
				t.branches[0], t.branches[1] = t.branches[1], t.branches[0]
			}
		}
	}
	// goavro names a union's branch after the logical types that it knows.
	switch t.logical {
	case "date", "time-millis", "timestamp-millis", "timestamp-micros":
		t.key = kind + "." + t.logical
	case "decimal":
		if kind == "bytes" {
			t.key = "bytes.decimal"
		}
	}
	if t.name != "" {
		g.past = append(g.past, t)
	}
	return t
}

func (g *generator) json(t *gtype) any {
	if t.name != "" && g.seen[t] {
		return t.name
	}
	g.seen[t] = true
	o := map[string]any{"type": t.kind}
	if t.name != "" {
		o["name"] = t.name
	}
	if t.logical != "" {
		o["logicalType"] = t.logical
		if t.logical == "decimal" {
			o["precision"], o["scale"] = 30, t.scale
		}
	}
	switch t.kind {
	case "fixed":
		o["size"] = t.size
	case "enum":
		o["symbols"] = t.symbols
	case "array":
		o["items"] = g.json(t.items)
	case "map":
		o["values"] = g.json(t.items)
	case "union":
		list := []any{}
		for _, b := range t.branches {
			list = append(list, g.json(b))
		}
		return list
	case "record":
		fields := []any{}
		for _, f := range t.fields {
			o := map[string]any{"name": f.name, "type": g.json(f.typ)}
			if f.alias != "" {
				o["aliases"] = []string{f.alias}
			}
			fields = append(fields, o)
		}
		o["fields"] = fields
	default:
		if t.logical == "" {
			return t.kind
		}
	}
	return o
}

func (g *generator) schema() (*gtype, string) {
	g.seen = map[*gtype]bool{}
	t := g.ofKind("record", 0)
	if g.IntN(10) == 0 {
		t = g.typ(0)
	}
	b, err := json.Marshal(g.json(t))
	if err != nil {
		panic(err)
	}
	return t, string(b)
}

// encode appends a random value. Unlike goavro it also writes arrays and maps
// in several blocks and blocks with their size, and sometimes numbers longer
// than need be.
func (g *generator) encode(dst []byte, t *gtype, depth int) []byte {
	long := func(v int64) {
		dst = AppendLong(dst, v)
		if g.IntN(200) == 0 && len(dst) > 0 && v >= 0 && v < 50 {
			dst[len(dst)-1] |= 0x80
			dst = append(dst, 0)
		}
	}
	switch t.kind {
	case "boolean":
		return append(dst, byte(g.IntN(2)))
	case "int":
		v := int64(int32(g.Uint32()))
		if g.IntN(2) == 0 {
			v = int64(g.IntN(40000) - 100)
		}
		long(v)
	case "long":
		v := int64(g.Uint64()) >> g.IntN(64)
		if g.IntN(2) == 0 {
			v = 1767225600_000 + g.Int64N(1e9)
		}
		long(v)
	case "float":
		f := float32(g.NormFloat64())
		if g.IntN(8) == 0 {
			f = []float32{float32(math.Inf(1)), float32(math.NaN()), 0}[g.IntN(3)]
		}
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(f))
	case "double":
		f := g.NormFloat64()
		if g.IntN(8) == 0 {
			f = []float64{math.Inf(-1), math.NaN(), 1e300}[g.IntN(3)]
		}
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(f))
	case "bytes", "string":
		n := g.IntN(10)
		if g.IntN(30) == 0 {
			n = 60 + g.IntN(100)
		}
		b := make([]byte, n)
		for i := range b {
			b[i] = "abcXYZ/\\0.é\x00"[g.IntN(12)]
		}
		if t.kind == "string" && g.IntN(3) == 0 {
			b = []byte(time.UnixMicro(g.Int64N(4e15)).UTC().Format(time.RFC3339Nano))
		}
		long(int64(len(b)))
		dst = append(dst, b...)
	case "fixed":
		for range t.size {
			dst = append(dst, byte(g.Uint32()>>g.IntN(9)))
		}
	case "enum":
		long(int64(g.IntN(len(t.symbols))))
	case "union":
		i := g.IntN(len(t.branches))
		if depth > 8 { // out of a recursion
			for j, b := range t.branches {
				if b.kind == "null" {
					i = j
				}
			}
		}
		long(int64(i))
		dst = g.encode(dst, t.branches[i], depth+1)
	case "record":
		for _, f := range t.fields {
			dst = g.encode(dst, f.typ, depth+1)
		}
	case "array", "map":
		n := g.IntN(4)
		if depth > 8 {
			n = 0
		}
		for n > 0 {
			m := 1 + g.IntN(n)
			n -= m
			var body []byte
			for i := range m {
				if t.kind == "map" {
					body = AppendText(body, fmt.Sprintf("k%d", n+i))
				}
				body = g.encode(body, t.items, depth+1)
			}
			if g.IntN(3) == 0 {
				long(int64(-m))
				long(int64(len(body)))
			} else {
				long(int64(m))
			}
			dst = append(dst, body...)
		}
		long(0)
	}
	return dst
}

// gpath is a path of a random schema and the type it leads to.
type gpath struct {
	text string
	end  *gtype
}

func (g *generator) paths(t *gtype) (out []gpath) {
	var walk func(t *gtype, path string, depth int, array bool)
	walk = func(t *gtype, path string, depth int, array bool) {
		if depth > 6 || len(out) > 300 {
			return
		}
		if path != "" {
			out = append(out, gpath{path, t})
		} else if t.kind != "record" {
			out = append(out, gpath{"@value", t})
		}
		join := func(s string) string {
			if path == "" {
				return s
			}
			return path + "." + s
		}
		switch t.kind {
		case "record":
			for _, f := range t.fields {
				name := f.name
				if f.alias != "" && g.IntN(2) == 0 {
					name = f.alias
				}
				walk(f.typ, join(name), depth+1, array)
			}
		case "union":
			for _, b := range t.branches {
				if b.kind == "record" || b.kind == "map" || b.kind == "array" {
					walk(b, path, depth+1, array)
				}
			}
		case "map":
			walk(t.items, join(fmt.Sprintf("k%d", g.IntN(3))), depth+1, array)
		case "array":
			if !array && path != "" {
				walk(t.items, fmt.Sprintf("%s[%d]", path, 1+g.IntN(3)), depth+1, true)
			}
		}
	}
	walk(t, "", 0, false)
	return out
}

// mapping picks paths of a schema for the roles, mostly ones that suit.
func (g *generator) mapping(t *gtype) schemas.Mapping {
	paths := g.paths(t)
	choose := func(ok func(*gtype) bool) string {
		var list []string
		for _, p := range paths {
			if ok(p.end) || g.IntN(60) == 0 {
				list = append(list, p.text)
			}
		}
		if len(list) == 0 {
			return ""
		}
		return list[g.IntN(len(list))]
	}
	m := schemas.Mapping{TimeUnit: g.pick("auto", "s", "ms", "us", "ns")}
	var is func(r schemas.Role) func(*gtype) bool
	is = func(r schemas.Role) func(*gtype) bool {
		return func(t *gtype) bool {
			if t.kind == "union" {
				for _, b := range t.branches {
					if b.kind != "null" && is(r)(b) {
						return true
					}
				}
				return false
			}
			return t.suits(r)
		}
	}
	for range g.IntN(3) {
		if p := choose(is(schemas.RoleKey)); p != "" {
			if m.Key != "" {
				m.Key += "+"
			}
			m.Key += p
		}
	}
	if m.Key != "" && g.IntN(8) == 0 {
		m.Key += "+@key"
	}
	if g.IntN(3) > 0 {
		m.Time = choose(is(schemas.RoleTime))
	}
	seen := map[string]bool{}
	for range 1 + g.IntN(4) {
		if p := choose(is(schemas.RoleValue)); p != "" && !seen[p] {
			m.Fields = append(m.Fields, p)
			seen[p] = true
		}
	}
	return m
}

func (g *gtype) suits(r schemas.Role) bool {
	switch g.kind {
	case "double", "float":
		return r != schemas.RoleKey
	case "int", "long":
		return r != schemas.RoleTime || g.logical != "time-millis" && g.logical != "time-micros"
	case "boolean", "null":
		return r == schemas.RoleValue
	case "string":
		return r != schemas.RoleValue
	case "bytes", "fixed":
		return (r == schemas.RoleValue) == (g.logical == "decimal") && r != schemas.RoleTime
	case "enum":
		return r == schemas.RoleKey
	}
	return false
}

// raw undoes what goavro makes of logical types: what was written.
func (g *gtype) raw(v any) any {
	switch v := v.(type) {
	case time.Time:
		switch g.logical {
		case "date":
			return int32(v.Unix() / 86400)
		case "timestamp-millis":
			return v.UnixMilli()
		default:
			return v.UnixMicro()
		}
	case time.Duration:
		return int32(v / time.Millisecond)
	case *big.Rat:
		f, _ := v.Float64()
		return f
	}
	return v
}
