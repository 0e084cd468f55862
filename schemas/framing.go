package schemas

import (
	"bytes"
	"compress/zlib"
	"errors"
	"io"
)

// SchemaIDHeader is the header that carries a schema id in front of a bare value
// (Confluent, version 1 framing).
const SchemaIDHeader = "__value_schema_id"

// KeySchemaIDHeader is the same for a bare key.
const KeySchemaIDHeader = "__key_schema_id"

// Framing.
const (
	MagicID       = 0x00 // and a 4-byte id, big endian
	MagicGUID     = 0x01 // and a 16-byte GUID
	MagicGlue     = 0x03 // and GlueBare or GlueZlib, and a 16-byte UUID: AWS Glue
	SingleObject0 = 0xc3 // and singleObject1, and a fingerprint, little endian
	SingleObject1 = 0x01

	GlueBare  = 0x00 // the record follows as it is
	GlueZlib  = 0x05 // compressed by zlib
	GlueBytes = 18   // before the record
)

// ErrInflated reports that a record is larger than the limit once it is read.
var ErrInflated = errors.New("schemas: a compressed record is larger than the limit")

// Inflater reads records that AWS Glue's serializers have compressed. It reuses its memory for the next record.
type Inflater struct{ z io.ReadCloser }

// Inflate returns what follows the header of a compressed record, in new memory. The error is ErrInflated for more than limit bytes, and
// io.EOF or io.ErrUnexpectedEOF where the record is cut off.
func (inf *Inflater) Inflate(b []byte, limit int) (body []byte, err error) {
	if inf.z == nil {
		inf.z, err = zlib.NewReader(bytes.NewReader(b))
	} else {
		err = inf.z.(zlib.Resetter).Reset(bytes.NewReader(b), nil)
	}
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if _, err = io.Copy(&out, io.LimitReader(inf.z, int64(limit)+1)); err == nil && out.Len() > limit {
		err = ErrInflated
	}
	return out.Bytes(), err
}

// IsGlue reports whether b begins with the header of AWS Glue's serializers.
func IsGlue(b []byte) bool {
	return len(b) >= GlueBytes && b[0] == MagicGlue && (b[1] == GlueBare || b[1] == GlueZlib)
}
