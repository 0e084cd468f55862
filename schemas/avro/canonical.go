package avro

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/linkedin/goavro/v2"

	"odradek/schemas"
)

// form is the purpose of a schema's text.
type form uint8

const (
	// formCanonical is the Parsing Canonical Form of the Avro specification, from
	// which the fingerprint is computed. goavro's form differs where a schema has
	// logical types or nested namespaces, and is not used for that.
	formCanonical form = iota
	// formInline keeps what decoding needs and has all references inside.
	formInline
)

type schemaWriter struct {
	form form
	out  []byte
	seen map[*node]string
}

func (n *node) text(f form) string {
	w := &schemaWriter{form: f, seen: map[*node]string{}}
	w.write(n)
	return string(w.out)
}

func (w *schemaWriter) quote(s string) {
	// HTML escapes are harmless: a name with such characters is no Avro name.
	b, err := json.Marshal(s)
	if err != nil {
		panic("avro: a string that is not JSON")
	}
	w.out = append(w.out, b...)
}

func (w *schemaWriter) key(name string) {
	w.out = append(w.out, ',')
	w.quote(name)
	w.out = append(w.out, ':')
}

func (w *schemaWriter) write(n *node) {
	if name, ok := w.seen[n]; ok {
		w.quote(name)
		return
	}
	switch n.kind {
	case kindRecord, kindEnum, kindFixed:
		w.named(n)
	case kindArray, kindMap:
		w.out = append(w.out, `{"type":`...)
		w.quote(n.kind.String())
		if n.kind == kindArray {
			w.key("items")
		} else {
			w.key("values")
		}
		w.write(n.items)
		w.out = append(w.out, '}')
	case kindUnion:
		w.out = append(w.out, '[')
		for i, b := range n.branches {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			w.write(b)
		}
		w.out = append(w.out, ']')
	default:
		if w.form == formInline && n.logical != logicalNone {
			w.out = append(w.out, `{"type":`...)
			w.quote(n.kind.String())
			w.logical(n)
			w.out = append(w.out, '}')
			return
		}
		w.quote(n.kind.String())
	}
}

func (w *schemaWriter) named(n *node) {
	name := n.name
	w.seen[n] = name
	w.out = append(w.out, `{"name":`...)
	w.quote(name)
	if w.form == formInline {
		// A name without a dot would fall into the enclosing namespace.
		w.out = append(w.out, `,"namespace":""`...)
	}
	w.key("type")
	w.quote(n.kind.String())
	switch n.kind {
	case kindRecord:
		w.out = append(w.out, `,"fields":[`...)
		for i := range n.fields {
			w.field(&n.fields[i], i)
		}
		w.out = append(w.out, ']')
	case kindEnum:
		w.out = append(w.out, `,"symbols":[`...)
		for i, s := range n.symbols {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			w.quote(s)
		}
		w.out = append(w.out, ']')
	case kindFixed:
		w.out = append(w.out, `,"size":`...)
		w.out = strconv.AppendInt(w.out, int64(n.size), 10)
		if w.form == formInline {
			w.logical(n)
		}
	}
	w.out = append(w.out, '}')
}

func (w *schemaWriter) field(f *field, i int) {
	if i > 0 {
		w.out = append(w.out, ',')
	}
	w.out = append(w.out, `{"name":`...)
	w.quote(f.name)
	w.key("type")
	w.write(f.typ)
	if w.form == formInline && len(f.aliases) > 0 {
		w.out = append(w.out, `,"aliases":[`...)
		for j, a := range f.aliases {
			if j > 0 {
				w.out = append(w.out, ',')
			}
			w.quote(a)
		}
		w.out = append(w.out, ']')
	}
	w.out = append(w.out, '}')
}

func (w *schemaWriter) logical(n *node) {
	if n.logical == logicalNone {
		return
	}
	w.key("logicalType")
	w.quote(n.logicalName)
	if n.logical == logicalDecimal {
		w.out = fmt.Appendf(w.out, `,"precision":%d,"scale":%d`, n.precision, n.scale)
	}
}

// emptyFingerprint is the CRC-64-AVRO of no bytes at all, and the polynomial
// of its table (Avro specification, "Schema Fingerprints").
const emptyFingerprint = 0xc15d213aa4d7a795

var fingerprintTable = func() (t [256]uint64) {
	for i := range t {
		fp := uint64(i)
		for range 8 {
			fp = fp>>1 ^ emptyFingerprint&-(fp&1)
		}
		t[i] = fp
	}
	return t
}()

// crc64Avro returns the fingerprint of a canonical schema text.
func crc64Avro(text string) uint64 {
	fp := uint64(emptyFingerprint)
	for i := 0; i < len(text); i++ {
		fp = fp>>8 ^ fingerprintTable[byte(fp)^text[i]]
	}
	return fp
}

// Fingerprint returns the CRC-64-AVRO fingerprint of a schema, as the single-object
// encoding carries it. Namespaces are resolved, and docs, aliases, defaults
// and logical types do not count.
func Fingerprint(schemaJSON string) (uint64, error) {
	n, err := parseSchema(schemaJSON)
	if err != nil {
		return 0, fmt.Errorf("avro: fingerprint: %w", err)
	}
	return crc64Avro(n.text(formCanonical)), nil
}

// Fingerprints returns those that records of a schema may carry: the one of the
// specification, and goavro's where it takes the schema, since programs that
// write with goavro use that.
func Fingerprints(s *schemas.Schema) (list []uint64) {
	if s.Type != Format.Type {
		return nil
	}
	root, err := parseWithReferences(s)
	if err != nil {
		return nil
	}
	crc := crc64Avro(root.text(formCanonical))
	list = append(list, crc)
	defer func() { _ = recover() }() // goavro panics on two decimals without a scale
	if c, err := goavro.NewCodec(root.text(formInline)); err == nil && c.Rabin != crc {
		list = append(list, c.Rabin)
	}
	return list
}
