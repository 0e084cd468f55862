package schemas

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"odradek/detectors/seedtest"
)

// TestTimeText: what a text means as an event time.
func TestTimeText(t *testing.T) {
	const no = "no time"
	for _, c := range []struct{ zone, format, unit, text, want string }{
		{"", "", "", "2026-01-31T08:00:00.25+01:00", "2026-01-31T07:00:00.25Z"},
		{"", "", "", "2026-01-31t08:00:00z", "2026-01-31T08:00:00Z"},
		{"", "", "", "2026-01-31 08:00:00Z", "2026-01-31T08:00:00Z"},
		{"", "", "", "2026-01-31 08:00:00,5+0100", "2026-01-31T07:00:00.5Z"},
		{"", "", "", "2026-01-31T08:00:00+01", "2026-01-31T07:00:00Z"},
		{"", "", "", "2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"},
		{"", "", "", "2016-12-31T23:59:60.75Z", "2017-01-01T00:00:00Z"},
		{"", "", "", "2016-12-31T23:59:61Z", no},
		{"", "", "", "2026-01-31T08:00:00", no},
		{"", "", "", "1700000000000", "2023-11-14T22:13:20Z"},
		{"", "", "s", "1700000000", "2023-11-14T22:13:20Z"},
		{"", "", "s", "-1000000000", "1938-04-24T22:13:20Z"},
		{"", "", "", "20260131", no},
		{"", "", "", "+1700000000000", no},
		{"", "", "", "1700000000000.5", no},
		{"", "", "", "", no},
		{"", "", "", "yesterday", no},
		{"", "", "", strings.Repeat("2", 65), no},
		{"", "", "", "99999-01-01T00:00:00Z", no},
		{"Europe/Berlin", "", "", "2026-01-31 08:00:00", "2026-01-31T07:00:00Z"},
		{"Europe/Berlin", "", "", "2026-07-31T08:00", "2026-07-31T06:00:00Z"},
		{"Europe/Berlin", "", "", "2026-07-31", "2026-07-30T22:00:00Z"},
		{"Europe/Berlin", "", "", "2026-07-31T08:00:00Z", "2026-07-31T08:00:00Z"},
		{"UTC", "%d.%m.%Y %H:%M:%S", "", "31.01.2026 08:00:00", "2026-01-31T08:00:00Z"},
		{"UTC", "%d.%m.%Y %H:%M:%S", "", "31.01.2026 08:00:00,125", "2026-01-31T08:00:00.125Z"},
		{"UTC", "%d.%m.%Y %H:%M:%S", "", "2026-01-31T08:00:00Z", no},
		{"", "%m/%d/%y %I:%M:%S %p %z", "", "01/31/26 08:00:00 PM +0100", "2026-01-31T19:00:00Z"},
		{"UTC", "%e %b %Y, %H:%M", "", " 1 Feb 2026, 08:00", "2026-02-01T08:00:00Z"},
		{"Asia/Tokyo", "%Y/%j %T", "", "2026/032 08:00:00", "2026-01-31T23:00:00Z"},
	} {
		l, err := Mapping{Fields: []string{"v"}, TimeUnit: c.unit, TimeZone: c.zone, TimeLayout: c.format}.Layout()
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		got := no
		if at, wrong := l.Texts.Micros([]byte(c.text)); wrong == FaultNone {
			got = time.UnixMicro(at).UTC().Format(time.RFC3339Nano)
		}
		if got != c.want {
			t.Errorf("%q in zone %q, format %q, unit %q: %s, want %s", c.text, c.zone, c.format, c.unit, got, c.want)
		}
	}
}

// TestTimeTextRandom: a random time that is written in a format, in a zone, is read as that time to the second.
func TestTimeTextRandom(t *testing.T) {
	rng := seedtest.New(t)
	formats := map[string]string{"": "2006-01-02 15:04:05-0700", "%a %d %B %Y %T%z": "Mon 02 January 2006 15:04:05-0700",
		"%y%m%dT%H%M%S%z": "060102T150405Z0700"}
	for range 3000 {
		zone := []string{"UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu"}[rng.IntN(4)]
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(rng.Int64N(2_000_000_000), 0).In(location)
		for format, layout := range formats {
			l, err := Mapping{Fields: []string{"v"}, TimeZone: zone, TimeLayout: format}.Layout()
			if err != nil {
				t.Fatal(err)
			}
			text := at.Format(layout)
			if got, wrong := l.Texts.Micros([]byte(text)); wrong != FaultNone || got != at.UnixMicro() {
				t.Fatalf("%q by %q: %d, want %d (%v)", text, format, got, at.UnixMicro(), wrong)
			}
		}
	}
}

// TestTimeTextFaults: zones and formats that no text can be read by are faults of the mapping.
func TestTimeTextFaults(t *testing.T) {
	for _, c := range []struct{ zone, format, want string }{
		{"Berlin", "", `time zone "Berlin" is not known`},
		{"Local", "", "is not known"},
		{"", "%Y-%m-%d", "has no offset"},
		{"UTC", "%Y-%Q", "use %Y"},
		{"UTC", "%Y-%m-%", "use %Y"},
		{"UTC", "yyyy-MM-dd", "is no separator"},
		{"UTC", "2006-01-02", "is no separator"},
		{"UTC", "%H:%M:%S", "lacks a year or a day"},
	} {
		err := Mapping{Fields: []string{"v"}, TimeZone: c.zone, TimeLayout: c.format}.Validate()
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", fmt.Sprintf("%q %q", c.zone, c.format), err, c.want)
		}
	}
}
