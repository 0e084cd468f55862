package changelog

// Emitter counts what is emitted and stops at the first error.
type Emitter struct {
	Emit  func(key, value []byte) error // value is nil for a deletion; both slices are valid until it returns
	Bytes int                           // of keys and values
	Err   error                         // of Emit

	key []byte
}

// Put emits a record. suffix are the big-endian numbers after the name.
func (e *Emitter) Put(kind byte, name, value []byte, suffix ...uint64) {
	if e.Err != nil {
		return
	}
	e.key = AppendKey(e.key[:0], kind, name, suffix...)
	e.Bytes += len(e.key) + len(value)
	e.Err = e.Emit(e.key, value)
}

// DeleteFragments deletes the n fragments of a head.
func (e *Emitter) DeleteFragments(name []byte, gen uint8, n uint16) {
	for i := range int(n) {
		e.Put(Fragment, name, nil, FragmentID(gen, i))
	}
}
