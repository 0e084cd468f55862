package schemas

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// TimeText reads event times that are texts. The zero value reads RFC 3339, and what is written in its place:
//
//   - t, a space or an underscore instead of T, and z instead of Z;
//   - offsets without a colon or without minutes, as +0100 and +01;
//   - second 60, a leap second, which is the second after it, as in Unix time;
//   - nine digits or more, which are a time stamp in the mapping's unit: eight would be a date as well.
//
// With a zone it also reads dates and times without an offset; with a format, texts of that format alone.
type TimeText struct {
	zone   *time.Location // of texts without an offset; nil: they are faults
	format string         // as package time has it; "": the ones above
	clock  Clock
}

// newTimeText returns the reader of a mapping's texts.
func newTimeText(m *Mapping) (p TimeText, faults []error) {
	p.clock = ClockIn(m.TimeUnit)
	if m.TimeZone != "" {
		zone, err := time.LoadLocation(m.TimeZone)
		if err != nil || m.TimeZone == "Local" {
			faults = append(faults, fmt.Errorf("schemas: time zone %q is not known: write one as Europe/Berlin or UTC", m.TimeZone))
		}
		p.zone = zone
	}
	if m.TimeLayout != "" {
		format, err := layoutOf(m.TimeLayout)
		if err != nil {
			faults = append(faults, err)
		}
		zoned := strings.Contains(format, "0700") || strings.Contains(format, "Z")
		if err == nil && !zoned && p.zone == nil && m.TimeZone == "" {
			faults = append(faults, fmt.Errorf("schemas: time layout %q has no offset (%%z): name the texts' zone", m.TimeLayout))
		}
		p.format = format
	}
	return p, faults
}

// Texts returns the reader of a mapping's texts of event times; nil where it has neither a zone nor a layout.
func (m Mapping) Texts() *TimeText {
	if m.TimeZone == "" && m.TimeLayout == "" {
		return nil
	}
	p, _ := newTimeText(&m)
	return &p
}

// HasLayout reports whether texts have a layout of their own, which a text of digits may have, too.
func (tt *TimeText) HasLayout() bool { return tt != nil && tt.format != "" }

// maxTimeText bounds a text that can be a time.
const maxTimeText = 64

// Micros returns the time of a text, in microseconds since 1970.
func (tt *TimeText) Micros(b []byte) (t int64, wrong Fault) {
	var v time.Time
	switch {
	case len(b) > maxTimeText:
		return NoTime, FaultTimeText
	case tt.format != "":
		zone := tt.zone
		if zone == nil {
			zone = time.UTC
		}
		var err error
		if v, err = time.ParseInLocation(tt.format, string(b), zone); err != nil {
			return NoTime, FaultTimeText
		}
	case v.UnmarshalText(b) == nil:
	default:
		var stamp, ok bool
		if t, v, stamp, ok = tt.like(b); !ok {
			return NoTime, FaultTimeText
		} else if stamp {
			if t, ok = tt.micros(t); !ok {
				return NoTime, FaultTimeRange
			}
			return t, FaultNone
		}
	}
	t = v.UnixMicro() // rounds down; years 0 to 9999 are far from its limits
	if t < MinTime || t > MaxTime {
		return NoTime, FaultTimeRange
	}
	return t, FaultNone
}

// micros converts a time stamp that is written as a text. The zero value has no unit: milliseconds.
func (tt *TimeText) micros(stamp int64) (int64, bool) {
	if tt.clock.Divide == 0 {
		return ClockMillis.Micros(stamp)
	}
	return tt.clock.Micros(stamp)
}

// like reads what is written in the place of RFC 3339; stamp says that it is a number.
func (tt *TimeText) like(b []byte) (number int64, v time.Time, stamp, ok bool) {
	if n, err := strconv.ParseInt(string(b), 10, 64); err == nil && len(b) >= 9 && b[0] != '+' {
		return n, v, true, true
	}
	text := bytes.ToUpper(b)
	if len(text) > 10 && (text[10] == ' ' || text[10] == '_') {
		text[10] = 'T'
	}
	leap := len(text) > 18 && string(text[16:19]) == ":60"
	if leap {
		text[17], text[18] = '5', '9'
	}
	parse := func(layout string, zone *time.Location) bool {
		at, err := time.ParseInLocation(layout, string(text), zone)
		v = at
		return err == nil
	}
	for _, layout := range []string{"2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07"} {
		ok = ok || parse(layout, time.UTC)
	}
	if tt.zone != nil {
		for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
			ok = ok || parse(layout, tt.zone)
		}
	}
	if leap {
		v = v.Truncate(time.Second).Add(time.Second)
	}
	return 0, v, false, ok
}

// directives are strptime's, as package time writes them.
var directives = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'j': "002", 'b': "Jan", 'B': "January", 'a': "Mon", 'A': "Monday",
	'H': "15", 'I': "03", 'p': "PM", 'M': "04", 'S': "05", 'z': "Z0700", 'T': "15:04:05", 'F': "2006-01-02", '%': "%",
}

// layoutOf returns the layout of package time for a format of strptime. A fraction of a second may follow %S, with '.' or ','.
func layoutOf(format string) (string, error) {
	var b strings.Builder
	has := map[byte]bool{}
	for i := 0; i < len(format); i++ {
		c := format[i]
		if c != '%' {
			if c >= '0' && c <= '9' || c == '_' || c != 'T' && c != 'Z' && (c|0x20 >= 'a' && c|0x20 <= 'z') {
				return "", fmt.Errorf("schemas: time layout %q: %q is no separator: write a directive of strptime such as %%Y in its place", format, c)
			}
			b.WriteByte(c)
			continue
		}
		if i++; i == len(format) || directives[format[i]] == "" {
			return "", fmt.Errorf("schemas: time layout %q: use %%Y %%m %%d %%H %%M %%S, or another of %%F %%T %%y %%j %%e %%b %%B %%a %%A "+
				"%%I %%p %%z", format)
		}
		has[format[i]] = true
		b.WriteString(directives[format[i]])
	}
	year, day := has['Y'] || has['y'] || has['F'], has['d'] || has['e'] || has['j'] || has['F']
	if !year || !day {
		return "", fmt.Errorf("schemas: time layout %q lacks a year or a day", format)
	}
	return b.String(), nil
}
