package brokertest

import (
	"bytes"
	"testing"

	"odradek/detectors/seedtest"
)

// TestEqual: a random record equals its copy, and none in which one thing is another.
func TestEqual(t *testing.T) {
	r := seedtest.New(t)
	nulls, empty, headers := 0, 0, 0
	for i := range 500 {
		p := RandomRecord(r, int64(i))
		same := p
		same.Key, same.Value, same.Headers = bytes.Clone(p.Key), bytes.Clone(p.Value), CopyHeaders(p.Headers)
		if !p.Equal(same) || !SameHeaders(Headers[Header](p), p.Headers) {
			t.Fatalf("%+v is not equal to its copy", p)
		}
		for what, change := range map[string]func(*Record){
			"offset": func(o *Record) { o.Offset++ },
			"time":   func(o *Record) { o.Time++ },
			"key":    func(o *Record) { o.Key = append(bytes.Clone(o.Key), 'x') },
			"value":  func(o *Record) { o.Value = append(bytes.Clone(o.Value), 'x') },
			"header": func(o *Record) { o.Headers = append(CopyHeaders(o.Headers), Header{Key: "x"}) },
		} {
			other := same
			if change(&other); p.Equal(other) {
				t.Errorf("another %s of %+v is not noticed", what, p)
			}
		}
		headers += len(p.Headers)
		switch {
		case p.Key == nil:
			nulls++
		case len(p.Key) == 0:
			empty++
		}
	}
	if nulls == 0 || empty == 0 || headers == 0 || Same(nil, []byte{}) {
		t.Errorf("%d null keys, %d empty ones, %d headers; a null is as empty: %v", nulls, empty, headers, Same(nil, []byte{}))
	}
}
