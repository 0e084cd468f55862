package schemas

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

// IsGlue reports whether b begins with the header of AWS Glue's serializers.
func IsGlue(b []byte) bool {
	return len(b) >= GlueBytes && b[0] == MagicGlue && (b[1] == GlueBare || b[1] == GlueZlib)
}
