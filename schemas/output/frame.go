package output

import (
	"encoding/binary"
	"errors"
	"fmt"

	"odradek/schemas"
	"odradek/schemas/avro"
)

// In place of a schema's id in the registry these say how records are written without one.
const (
	SingleObject int32 = -1 // Avro's single-object encoding
	JSON         int32 = -2 // plain JSON, see avro.JSON
)

// JSONType is the content type of records in JSON, the value of their header content-type.
const JSONType = "application/json"

// compiled is one of the worker's schemas with its framing and its JSON converter.
type compiled struct {
	fingerprint uint64
	json        *avro.JSON
}

// compile panics where a schema is not sound.
func compile(schema string) *compiled {
	crc, err := avro.Fingerprint(schema)
	if err != nil {
		panic("output: a schema of this package is not Avro: " + err.Error())
	}
	j, err := avro.NewJSON(schema)
	if err != nil {
		panic("output: a schema of this package has no JSON: " + err.Error())
	}
	return &compiled{crc, j}
}

// asJSON replaces the Avro bytes from start on by their JSON. It allocates nothing where dst has room for both.
func (c *compiled) asJSON(dst []byte, start int) []byte {
	end := len(dst)
	all, err := c.json.Append(dst, dst[start:])
	if err != nil {
		panic("output: an encoder writes what its schema does not have: " + err.Error())
	}
	return all[:start+copy(all[start:], all[end:])]
}

// unframe returns the Avro bytes of a record of the schema, in any framing or in JSON.
func (c *compiled) unframe(b []byte) ([]byte, error) {
	switch {
	case len(b) > 0 && b[0] == '{':
		return c.json.Binary(nil, b)
	case len(b) >= 5 && b[0] == schemas.MagicID:
		return b[5:], nil
	case len(b) >= 10 && b[0] == schemas.SingleObject0 && b[1] == schemas.SingleObject1:
		if crc := binary.LittleEndian.Uint64(b[2:]); crc != c.fingerprint {
			return nil, fmt.Errorf("fingerprint %016x is of another schema", crc)
		}
		return b[10:], nil
	}
	return nil, errors.New("starts with no known framing")
}

// head returns the framing before the Avro bytes of a record.
func (c *compiled) head(schemaID int32) []byte {
	switch {
	case schemaID == JSON:
		return nil
	case schemaID < 0:
		return binary.LittleEndian.AppendUint64([]byte{schemas.SingleObject0, schemas.SingleObject1}, c.fingerprint)
	}
	return binary.BigEndian.AppendUint32([]byte{schemas.MagicID}, uint32(schemaID))
}
