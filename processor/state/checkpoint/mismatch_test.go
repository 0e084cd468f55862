package checkpoint

import (
	"errors"
	"reflect"
	"testing"
)

// TestList gathers the differences of keys, counts the keys of each, and names the first key.
func TestList(t *testing.T) {
	var l Mismatches
	if l.Add([]byte("a"), nil); l.Err() != nil || l.Sorted() != nil {
		t.Errorf("nothing differs: %v", l.Err())
	}
	z, held := Mismatch{Detector: "z", Params: 2}, Mismatch{Fields: true, Window: 7}
	l.Add([]byte("c"), []Mismatch{z, held})
	l.Add([]byte("b"), []Mismatch{z})
	z.Keys, held.Keys = 2, 1
	if got, want := l.Sorted(), []Mismatch{held, z}; !reflect.DeepEqual(got, want) {
		t.Errorf("differences %+v, want %+v", got, want)
	}
	err := l.Err()
	var e *MismatchError
	if !errors.Is(err, ErrMismatch) || !errors.As(err, &e) || e.Keys != 2 {
		t.Fatalf("%v", err)
	}
	var b Mismatches
	b.Add([]byte("b"), []Mismatch{z})
	if want := b.Err().(*MismatchError).Example; e.Example != want { //nolint:errorlint // Err returns no other
		t.Errorf("the example is %s, want %s", e.Example, want)
	}
}
