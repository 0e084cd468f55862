package plan

import "unsafe"

// View returns n elements at a byte offset.
func View[T any](b []byte, off, n int) []T {
	if n == 0 {
		return nil
	}
	var t T
	_ = b[off : off+n*int(unsafe.Sizeof(t))]
	return unsafe.Slice((*T)(unsafe.Pointer(&b[off])), n)
}
