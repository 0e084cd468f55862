package admin

import (
	"bytes"
	"encoding/binary"

	"odradek/schemas"
)

// Reframe makes the letter's value name another schema of the registry: it replaces the id that the value or the header
// __value_schema_id names, and puts one before a value that names none. The record's payload stays as it is, but for one that AWS
// Glue's serializer compressed: no other framing has that. first says that a value without a schema needs the indexes of Protobuf's
// first message, too.
func (l *Letter) Reframe(id int32, first bool) {
	prefix := binary.BigEndian.AppendUint32([]byte{schemas.MagicID}, uint32(id))
	for i := range l.Headers {
		h := &l.Headers[i]
		if h.Key != schemas.SchemaIDHeader {
			continue
		}
		_, rest := unframed(h.Value)
		h.Value = append(bytes.Clone(prefix), rest...)
		return
	}
	framed, body := unframed(l.Value)
	if !framed && first {
		prefix = append(prefix, 0)
	}
	l.Value = append(prefix, body...)
}

// unframed returns what follows the framing that b begins with; all of b where it has none.
func unframed(b []byte) (framed bool, body []byte) {
	switch {
	case len(b) >= 5 && b[0] == schemas.MagicID:
		return true, b[5:]
	case len(b) >= 17 && b[0] == schemas.MagicGUID:
		return true, b[17:]
	case schemas.IsGlue(b) && b[1] == schemas.GlueBare:
		return true, b[schemas.GlueBytes:]
	case schemas.IsGlue(b):
		if body, err := new(schemas.Inflater).Inflate(b[schemas.GlueBytes:], inflatedBytes); err == nil {
			return true, body
		}
	case len(b) >= 10 && b[0] == schemas.SingleObject0 && b[1] == schemas.SingleObject1:
		return true, b[10:]
	}
	return false, b
}

// inflatedBytes is the most that a compressed payload may become: more than any broker takes.
const inflatedBytes = 64 << 20
