package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"odradek/detectors"
	"odradek/detectors/season"
)

// TestSeason: a detector of op season has its zone's offsets and its calendar's days, a fingerprint of what
// they hold, and what is wrong is named, all at once.
func TestSeason(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	parse := func(more ...string) (*DetectorSettings, *Config, string) {
		list := []string{"ODRADEK_VALUE_FIELDS=a,b", "ODRADEK_DETECTORS=x", "ODRADEK_DETECTOR_X_OP=season"}
		for _, m := range more {
			list = append(list, "ODRADEK_DETECTOR_X_"+m)
		}
		c, faults, _ := Parse(minimal(list...))
		return &c.Detectors[0], c, fmt.Sprint(faults)
	}
	holidays := write("holidays.txt", "\ufeff# of 2026\n2026-12-26 saturday # a half one\r\n\n2026-12-25\n")
	d, c, faults := parse("PERIOD=week", "ZONE=Europe/Berlin", "CALENDAR="+holidays)
	if faults != "[]" {
		t.Fatal(faults)
	}
	ks, err := c.KeystateConfig()
	if err != nil || ks.Check() != nil {
		t.Fatal(err, ks.Check())
	}
	if _, ok := ks.Detectors[0].Detector.(detectors.Timed); !ok {
		t.Error("the detector reads no times")
	}
	clock := season.Clock{Week: true, Bins: 168, Offsets: d.Season.offsets, Days: d.Season.days}
	for at, want := range map[string]int{
		"2026-07-01T10:00:00Z": 3*24 + 12, "2026-01-07T10:00:00Z": 3*24 + 11, // Wednesdays
		"2026-12-25T11:00:00Z": 12, "2026-12-25T23:00:00Z": 6 * 24, "2026-12-26T23:00:00Z": 0,
	} {
		u, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		if got := clock.Bin(u.UnixMicro()); got != want {
			t.Errorf("%s is in bin %d, want %d", at, got, want)
		}
	}
	same, _, _ := parse("PERIOD=week", "ZONE=Europe/Berlin", "CALENDAR="+write("same.txt", "2026-12-25 Sunday\n2026-12-26 Saturday\n"))
	if same.canonical() != d.canonical() {
		t.Errorf("two files of the same days: %s and %s", d.canonical(), same.canonical())
	}
	texts := map[string][]string{d.canonical(): nil}
	for _, other := range [][]string{
		{"PERIOD=week", "ZONE=Europe/Berlin"}, {"PERIOD=week", "ZONE=America/New_York", "CALENDAR=" + holidays}, {"ZONE=Europe/Berlin"}, {},
		{"PERIOD=week", "ZONE=Europe/Berlin", "CALENDAR=" + write("other.txt", "2026-12-25\n2026-12-26\n")}, {"BINS=24"},
	} {
		o, _, faults := parse(other...)
		if before, ok := texts[o.canonical()]; ok || faults != "[]" {
			t.Errorf("%v has the fingerprint of %v; %s", other, before, faults)
		}
		texts[o.canonical()] = other
	}
	for want, bad := range map[string][]string{
		`ZONE: "Europe/Berlyn" is no time zone`:    {"ZONE=Europe/Berlyn"},
		`ZONE: "Local" is no time zone`:            {"ZONE=Local"},
		"no such file":                             {"PERIOD=week", "CALENDAR=" + filepath.Join(dir, "none.txt")},
		`line 2: "25.12.2026" is no day`:           {"PERIOD=week", "CALENDAR=" + write("a.txt", "2026-12-24\n25.12.2026\n")},
		`line 1: "2026-02-30" is no day`:           {"PERIOD=week", "CALENDAR=" + write("b.txt", "2026-02-30\n")},
		`line 1: "Funday" is no day of the week`:   {"PERIOD=week", "CALENDAR=" + write("c.txt", "2026-12-24 Funday\n")},
		"line 3: 2026-12-24 is in line 1, too":     {"PERIOD=week", "CALENDAR=" + write("d.txt", "2026-12-24\n\n2026-12-24\n")},
		"has no days":                              {"PERIOD=week", "CALENDAR=" + write("e.txt", "# none\n")},
		"all days are alike":                       {"CALENDAR=" + holidays},
		`PERIOD: "month"`:                          {"PERIOD=month"},
		"BINS: 256":                                {"BINS=256"},
		"up to the 4 that the memory of 2 bins":    {"BINS=2", "MEMORY=2", "MIN_POINTS=5"},
		"ZONE: set, but op zscore reads no times":  {"OP=zscore", "ZONE=Europe/Berlin"},
		"CALENDAR: set, but op zscore reads no ti": {"OP=zscore", "CALENDAR=" + holidays},
	} {
		if _, _, faults := parse(bad...); !strings.Contains(faults, want) {
			t.Errorf("%v: %s does not mention %q", bad, faults, want)
		}
	}
	if _, _, faults := parse("PERIOD=week", "ZONE=Mars", "CALENDAR="+filepath.Join(dir, "none.txt")); !strings.Contains(faults, "ZONE") ||
		!strings.Contains(faults, "CALENDAR") {
		t.Errorf("two faults, and %s", faults)
	}
}
