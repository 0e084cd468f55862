package table

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"odradek/schemas"
)

// TestParseTime: a row's time is read as a record's, in UTC where it has no offset, and numbers in the unit.
func TestParseTime(t *testing.T) {
	berlin := schemas.Mapping{TimeZone: "Europe/Berlin"}.Texts()
	for _, c := range []struct {
		text, unit string
		texts      *schemas.TimeText
		want       string // in RFC 3339; "": none
	}{
		{"2026-01-31 08:00:00", "ms", nil, "2026-01-31T08:00:00Z"},
		{"2026-01-31 08:00:00.25", "ms", nil, "2026-01-31T08:00:00.25Z"},
		{"2026-01-31T08:00:00", "ms", nil, "2026-01-31T08:00:00Z"},
		{"2026-01-31", "ms", nil, "2026-01-31T00:00:00Z"},
		{"2026-01-31t08:00:00z", "ms", nil, "2026-01-31T08:00:00Z"},
		{"2026-01-31 08:00:00.5+0100", "ms", nil, "2026-01-31T07:00:00.5Z"},
		{"2016-12-31T23:59:60Z", "ms", nil, "2017-01-01T00:00:00Z"},
		{"2026-01-31 08:00:00", "ms", berlin, "2026-01-31T07:00:00Z"},
		{"2016-12-31 23:59:60", "ms", berlin, "2016-12-31T23:00:00Z"},
		{"1772323200000", "ms", nil, "2026-03-01T00:00:00Z"},
		{"1772323200", "s", nil, "2026-03-01T00:00:00Z"},
		{"1772323200.5", "s", nil, "2026-03-01T00:00:00.5Z"},
		{"1772323200", "s", berlin, "2026-03-01T00:00:00Z"},
		{"never", "ms", nil, ""},
		{"2026-01-31 08:00:61", "ms", nil, ""},
	} {
		micros, err := parseTime(c.text, c.unit, c.texts)
		got := ""
		if err == nil {
			got = time.UnixMicro(micros).UTC().Format(time.RFC3339Nano)
		}
		if got != c.want {
			t.Errorf("%q: %q, %v, want %q", c.text, got, err, c.want)
		}
	}
}

// TestGuessUnit: without a unit the first time of a CSV file that can be read decides, and the file says so; of other numbers, and with a
// unit, nothing is guessed.
func TestGuessUnit(t *testing.T) {
	for _, c := range []struct{ rows, unit, want, note string }{
		{"1772323200,1\n1772323260,2\n", "auto", "2026-03-01T00:00:00Z", "taken for times in s;"},
		{"never,1\n1772323200.5,2\n", "", "2026-03-01T00:00:00.5Z", "taken for times in s;"},
		{"1772323200000,1\n", "auto", "2026-03-01T00:00:00Z", ""},
		{"1772323200000000,1\n", "auto", "2026-03-01T00:00:00Z", "taken for times in us;"},
		{"1772323200000000000,1\n", "auto", "2026-03-01T00:00:00Z", "taken for times in ns;"},
		{"1772323200,1\n", "ms", "1970-01-21T12:18:43.2Z", ""},
		{"60000,1\n", "auto", "1970-01-01T00:01:00Z", ""},
		{"2026-03-01 00:00:00,1\n1772323200,1\n", "auto", "2026-03-01T00:00:00Z", ""},
	} {
		path := filepath.Join(t.TempDir(), "a.csv")
		if err := os.WriteFile(path, []byte("timestamp,value\n"+c.rows), 0o600); err != nil {
			t.Fatal(err)
		}
		note := ""
		f, err := Open(path, Options{Mapping: schemas.Mapping{Fields: []string{"value"}, TimeUnit: c.unit},
			Note: func(text string) { note = text }})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := f.Read(t.Context(), func(b *Batch) error {
			if got == "" && b.Len() > 0 {
				got = time.UnixMicro(b.Times[0]).UTC().Format(time.RFC3339Nano)
			}
			b.Release()
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if got != c.want || !strings.Contains(note, c.note) || c.note == "" && note != "" {
			t.Errorf("%q in %q: %s, %q, want %s, %q", c.rows, c.unit, got, note, c.want, c.note)
		}
	}
}
