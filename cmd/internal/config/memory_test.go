package config

import (
	"testing"
)

// TestStateBytes: a limit of 0 is none, and is not the default.
func TestStateBytes(t *testing.T) {
	if c, _, _ := Parse(minimal("ODRADEK_STATE_BYTES=0")); c.Keys.Bytes != 0 {
		t.Errorf("0 became %v", c.Keys.Bytes)
	}
	if c, _, _ := Parse(minimal()); int64(c.Keys.Bytes) != MemoryLimit()/5*3 {
		t.Errorf("the default is %v of %d", c.Keys.Bytes, MemoryLimit())
	}
}
