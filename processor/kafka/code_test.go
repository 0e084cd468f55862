package kafka

import (
	"errors"
	"strings"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
)

// TestCodeError: every code of the protocol has the protocol's name, and is found in the error by its number.
func TestCodeError(t *testing.T) {
	if err := newCodeError(int16(0)); err != nil {
		t.Errorf("code 0: %v", err)
	}
	for code := kafkago.Unknown; code <= 120; code++ {
		if code == 0 {
			continue
		}
		err := newCodeError(code)
		_, name, _ := strings.Cut(err.Error(), "] ")
		if !errors.Is(err, code) || strings.Trim(name, " :") == "" {
			t.Errorf("code %d: %v", int(code), err)
		}
	}
	if text := newCodeError(int16(55)).Error(); !strings.HasPrefix(text, "[55] Operation Not Attempted: ") {
		t.Error(text)
	}
}
