package kafka

// Header is a record header; a nil Value is null.
type Header struct {
	Key   string
	Value []byte
}
