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
	SingleObject0 = 0xc3 // and singleObject1, and a fingerprint, little endian
	SingleObject1 = 0x01
)
