package avro

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"time"

	"odradek/schemas"
)

// maxTextLines bounds what Text returns of a record.
const maxTextLines = 1000

// Text returns the values of a record, each as a line "path = value". If the bytes do not fit the writer's schema, it returns
// the values before the first fault, and an error with the byte, the path and the reason.
func Text(s *schemas.Schema, body []byte) (lines []string, err error) {
	root, err := parseWithReferences(s)
	if err != nil {
		return nil, fmt.Errorf("not an Avro schema: %w", err)
	}
	t := textReader{fields: NewFieldReader(body)}
	t.value(root, "", 0)
	switch {
	case t.fields.st != statusOK:
		err = fmt.Errorf("byte %d, %s: %w", t.fields.pos, t.at, statusErrors[t.fields.st].err)
	case len(t.lines) >= maxTextLines:
		err = fmt.Errorf("byte %d: the rest is left out", t.fields.pos)
	case t.fields.pos != len(body):
		err = fmt.Errorf("byte %d: %d bytes behind the record's end", t.fields.pos, len(body)-t.fields.pos)
	}
	return t.lines, err
}

// textReader writes the values of a record.
type textReader struct {
	fields *FieldReader
	lines  []string
	at     string // path and type of the value that is being read
}

func (t *textReader) put(path, format string, args ...any) {
	if t.fields.st != statusOK {
		return
	}
	if path != "" {
		path += " = "
	}
	t.lines = append(t.lines, path+fmt.Sprintf(format, args...))
}

// bytes reads n bytes.
func (t *textReader) bytes(n int) []byte {
	if t.fields.st == statusOK && len(t.fields.buf)-t.fields.pos < n {
		t.fields.st = statusTruncated
	}
	if t.fields.st != statusOK {
		return nil
	}
	t.fields.pos += n
	return t.fields.buf[t.fields.pos-n : t.fields.pos]
}

// value reads a value of a type and all in it.
func (t *textReader) value(n *node, path string, depth int) {
	if t.fields.st != statusOK || len(t.lines) >= maxTextLines {
		return
	}
	if depth > maxDepth {
		t.fields.st = statusDeep
		return
	}
	t.at = n.kind.String()
	if path != "" {
		t.at = "at " + path + " of type " + t.at
	}
	switch n.kind {
	case kindNull:
		t.put(path, "null")
	case kindBoolean:
		b := t.bytes(1)
		if b != nil && b[0] > 1 {
			t.fields.st = statusIndex
		}
		t.put(path, "%t", b != nil && b[0] == 1)
	case kindInt:
		t.put(path, "%s", instant(n, int64(t.fields.Int())))
	case kindLong:
		t.put(path, "%s", instant(n, t.fields.Long()))
	case kindFloat:
		if b := t.bytes(4); b != nil {
			t.put(path, "%v", math.Float32frombits(binary.LittleEndian.Uint32(b)))
		}
	case kindDouble:
		t.put(path, "%v", t.fields.Double())
	case kindString:
		t.put(path, "%q", t.fields.Text())
	case kindBytes:
		t.put(path, "0x%s", hex.EncodeToString(t.fields.Text()))
	case kindFixed:
		t.put(path, "0x%s", hex.EncodeToString(t.bytes(n.size)))
	case kindEnum:
		i := t.fields.Index(len(n.symbols))
		if t.fields.st == statusOK {
			t.put(path, "%s", n.symbols[i])
		}
	case kindUnion:
		i := t.fields.Index(len(n.branches))
		if t.fields.st == statusOK {
			t.value(n.branches[i], path, depth+1)
		}
	case kindRecord:
		for i := range n.fields {
			name := n.fields[i].name
			if path != "" {
				name = path + "." + name
			}
			t.value(n.fields[i].typ, name, depth+1)
		}
	case kindArray, kindMap:
		t.items(n, path, depth)
	}
}

// items reads the blocks of an array or of a map.
func (t *textReader) items(n *node, path string, depth int) {
	for i := 0; t.fields.st == statusOK && len(t.lines) < maxTextLines; {
		count := t.fields.Long()
		if count < 0 { // the block's size in bytes follows
			t.fields.Long()
			count = -count
		}
		if count == 0 || t.fields.st != statusOK {
			if i == 0 {
				t.put(path, "%s without items", n.kind)
			}
			return
		}
		for ; count != 0 && t.fields.st == statusOK && len(t.lines) < maxTextLines; count-- {
			name := strconv.Itoa(i)
			if n.kind == kindMap {
				name = strconv.Quote(string(t.fields.Text()))
			}
			before := len(t.lines)
			t.value(n.items, path+"["+name+"]", depth+1)
			if i++; len(t.lines) == before && t.fields.st == statusOK { // takes no line, as an empty record: the count could be any
				t.put(path, "%s of %d items without content", n.kind, count)
				break
			}
		}
	}
}

// instant returns an integer, with the time that it means, if its logical type says so.
func instant(n *node, v int64) string {
	var at time.Time
	switch n.logical {
	case logicalMillis:
		at = time.UnixMilli(v)
	case logicalMicros:
		at = time.UnixMicro(v)
	case logicalNanos:
		at = time.Unix(0, v)
	default:
		return strconv.FormatInt(v, 10)
	}
	return fmt.Sprintf("%d (%s)", v, at.UTC().Format(time.RFC3339Nano))
}
