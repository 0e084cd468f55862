package output

import (
	"encoding/binary"
	"errors"
	"fmt"

	"odradek/schemas"
	"odradek/schemas/avro"
)

// unframe removes the framing of a record of one of the worker's schemas.
func unframe(b []byte, fingerprint uint64) ([]byte, error) {
	switch {
	case len(b) >= 5 && b[0] == schemas.MagicID:
		return b[5:], nil
	case len(b) >= 10 && b[0] == schemas.SingleObject0 && b[1] == schemas.SingleObject1:
		if crc := binary.LittleEndian.Uint64(b[2:]); crc != fingerprint {
			return nil, fmt.Errorf("fingerprint %016x is of another schema", crc)
		}
		return b[10:], nil
	}
	return nil, errors.New("starts with no known framing")
}

func mustFingerprint(schema string) uint64 {
	crc, err := avro.Fingerprint(schema)
	if err != nil {
		panic("output: a schema of this package is not Avro: " + err.Error())
	}
	return crc
}

// frameHead returns the framing before the Avro bytes of a record.
func frameHead(schemaID int32, fingerprint uint64) []byte {
	if schemaID < 0 {
		return binary.LittleEndian.AppendUint64([]byte{schemas.SingleObject0, schemas.SingleObject1}, fingerprint)
	}
	return binary.BigEndian.AppendUint32([]byte{schemas.MagicID}, uint32(schemaID))
}
