package formats

import (
	"bytes"
	"errors"
	"testing"

	"odradek/schemas"
)

func record(fields string) string {
	return `{"type":"record","name":"R","namespace":"acme","fields":[` + fields + `]}`
}

// wantClass checks an error's class and field and returns its text.
func wantClass(t *testing.T, err error, class, field string) {
	t.Helper()
	var e *schemas.DecodeError
	if !errors.As(err, &e) || e.Class != class || e.Field != field {
		t.Errorf("error %v, want class %s, field %q", err, class, field)
	}
}

func cat(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// withSchemas lists the formats whose records have schemas in the registry.
func withSchemas() (names []string) {
	for _, f := range table {
		if !f.Fixed {
			names = append(names, f.Name)
		}
	}
	return names
}
