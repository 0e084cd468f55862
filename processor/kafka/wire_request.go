package kafka

import (
	"encoding/binary"
	"io"

	"github.com/segmentio/kafka-go/protocol"
)

// wireMessage is a request that is written and read here and not by kafka-go: an API
// version that kafka-go does not have, or a response that is to stay raw.
type wireMessage interface {
	protocol.Message
	// Exchange writes the request and reads the response. highest is the highest
	// version that kafka-go and the broker share. After an error the connection
	// is closed, because it may stand in the middle of a response.
	Exchange(rw io.ReadWriter, highest int16, correlation int32, clientID string) (protocol.Message, error)
}

// appendRequest begins a request: a place for its size, and the header (v2 for
// a flexible version, KIP-482, else v1).
func appendRequest(b []byte, key protocol.ApiKey, version int16, correlation int32, clientID string, flexible bool) []byte {
	be := binary.BigEndian
	b = append(b, 0, 0, 0, 0)
	b = be.AppendUint16(b, uint16(key))
	b = be.AppendUint16(b, uint16(version))
	b = be.AppendUint32(b, uint32(correlation))
	b = be.AppendUint16(b, uint16(len(clientID)))
	b = append(b, clientID...)
	if flexible {
		b = append(b, 0) // no tagged fields
	}
	return b
}

// writeRequest fills in the size of what AppendRequest began and sends it.
func writeRequest(w io.Writer, b []byte) error {
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	_, err := w.Write(b)
	return err
}

// appendString appends a string with its length in two bytes.
func appendString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

// appendCompactString appends a string with its length plus one as a varint (KIP-482).
func appendCompactString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s)+1)), s...)
}

// appendCompactNullable is appendCompactString, with null in the place of an empty string.
func appendCompactNullable(b []byte, s string) []byte {
	if s == "" {
		return append(b, 0)
	}
	return appendCompactString(b, s)
}
