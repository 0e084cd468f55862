package config

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // for hosts and images without zones

	"odradek/detectors"
	"odradek/detectors/season"
)

// seasonSettings say which time of day and of week a sample has.
type seasonSettings struct {
	Period   string `env:"PERIOD" envDefault:"day" oneof:"day|week" ops:"season" example:"week" doc:"Period of the levels. With week each day of the week has its own."`
	Zone     string `env:"ZONE" envDefault:"UTC" ops:"season band" example:"Europe/Berlin" doc:"Time zone whose days count, by its IANA name. State is refused when the zone or its rules change."`
	Calendar string `env:"CALENDAR" ops:"season band" example:"holidays.txt" doc:"File of days that count as another day of the week: a line such as 2026-12-24 Saturday, or 2026-12-25 for a Sunday. Of op season only with PERIOD=week."`

	offsets, days season.Table
	errs          map[string]error // by the setting
}

// The years of which a zone's changes of the clock are listed.
const firstZoneYear, lastZoneYear = 1970, 2100

// resolve reads the zone and the calendar.
func (s *seasonSettings) resolve() {
	*s = seasonSettings{Period: s.Period, Zone: s.Zone, Calendar: s.Calendar, errs: map[string]error{}}
	var err error
	if s.offsets, err = zoneOffsets(s.Zone); err != nil {
		s.errs["ZONE"] = err
	}
	if s.Calendar == "" {
		return
	}
	if s.days, err = readCalendar(s.Calendar); err != nil {
		s.errs["CALENDAR"] = err
	}
}

// sum returns the first digits of the SHA-256 of the zone's offsets and the calendar's days.
func (s *seasonSettings) sum() string {
	h := sha256.New()
	for _, t := range []season.Table{s.offsets, s.days} {
		_ = binary.Write(h, binary.LittleEndian, uint32(len(t)))
		_ = binary.Write(h, binary.LittleEndian, []uint32(t))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// zoneOffsets returns the changes of a zone's offset from UTC.
func zoneOffsets(name string) (t season.Table, err error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, fmt.Errorf("%q is no time zone", name)
	}
	at := time.Date(firstZoneYear, 1, 1, 0, 0, 0, 0, time.UTC)
	for last := 0; at.Year() <= lastZoneYear; {
		_, offset := at.In(zone).Zone()
		if t.Len() == 0 || offset != last {
			t = t.Append(at.Unix(), int32(offset))
		}
		last = offset
		_, end := at.In(zone).ZoneBounds()
		if end.IsZero() {
			break
		}
		if !end.After(at) { // what ZoneBounds says of the last day of a leap year, beyond a zone's list of changes
			end = at.Add(24 * time.Hour)
		}
		at = end.UTC()
	}
	return t, nil
}

// readCalendar reads the days that count as others, in ascending order. The error names every line at fault.
func readCalendar(file string) (t season.Table, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err // it names the file
	}
	defer func() { _ = f.Close() }()
	type entry struct {
		line    int
		weekday time.Weekday
	}
	byDate := map[int64]entry{}
	var faults []string
	var dates []int64
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		text, _, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "\ufeff"), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		day, err := time.Parse(time.DateOnly, words[0])
		if err != nil {
			faults = append(faults, fmt.Sprintf("line %d: %q is no day, write it like 2026-12-25", n, words[0]))
			continue
		}
		e := entry{n, time.Sunday}
		if len(words) > 1 {
			var ok bool
			if e.weekday, ok = weekdayOf(words[1]); !ok || len(words) > 2 {
				faults = append(
					faults,
					fmt.Sprintf("line %d: %q is no day of the week, write it like Saturday", n, strings.Join(words[1:], " ")),
				)
				continue
			}
		}
		date := day.Unix() / (24 * 60 * 60)
		if other, twice := byDate[date]; twice {
			faults = append(faults, fmt.Sprintf("line %d: %s is in line %d, too", n, words[0], other.line))
			continue
		}
		byDate[date] = e
		dates = append(dates, date)
	}
	const most = 5
	switch {
	case lines.Err() != nil:
		return nil, fmt.Errorf("%s: %w", file, lines.Err())
	case len(faults) > most:
		return nil, fmt.Errorf("%s: %s; and %d more", file, strings.Join(faults[:most], "; "), len(faults)-most)
	case len(faults) > 0:
		return nil, fmt.Errorf("%s: %s", file, strings.Join(faults, "; "))
	case len(dates) == 0:
		return nil, fmt.Errorf("%s has no days", file)
	}
	slices.Sort(dates)
	for _, date := range dates {
		t = t.Append(date, int32(byDate[date].weekday))
	}
	return t, nil
}

func weekdayOf(name string) (time.Weekday, bool) {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if strings.EqualFold(name, d.String()) {
			return d, true
		}
	}
	return 0, false
}

// seasonDetector returns the detector of op season or band of resolved settings and the op's own.
func (d *DetectorSettings) seasonDetector() (detectors.Detector, error) {
	v := d.values(none)
	if d.Op == season.OpBand.String() {
		return season.NewBand(
			season.BandParams{Rate: v.Float("RATE"), MinPoints: v.Int("MIN_POINTS"), Offsets: d.Season.offsets, Days: d.Season.days},
		)
	}
	return season.New(
		season.OpParams{Week: d.Season.Period == "week", Bins: v.Int("BINS"), Memory: v.Int("MEMORY"), MinPoints: v.Int("MIN_POINTS"),
			Offsets: d.Season.offsets, Days: d.Season.days},
	)
}

// isSeason reports whether the detector reads the times of samples.
func (d *DetectorSettings) isSeason() bool {
	return d.Op == season.Op.String() || d.Op == season.OpBand.String()
}

// season checks the settings of a detector's zone and calendar.
func (ch *checker) season(short string, d *DetectorSettings) {
	s := &d.Season
	if !d.isSeason() {
		for name, set := range map[string]bool{"PERIOD": s.Period == "week", "ZONE": s.Zone != "UTC", "CALENDAR": s.Calendar != ""} {
			if set {
				ch.add(short+name, "set, but op "+d.Op+" reads no times", "use "+Prefix+short+"OP="+season.Op.String()+" or remove it")
			}
		}
		return
	}
	if err := s.errs["ZONE"]; err != nil {
		ch.add(short+"ZONE", err.Error(), "use an IANA name, such as Europe/Berlin or UTC")
	}
	if err := s.errs["CALENDAR"]; err != nil {
		ch.add(short+"CALENDAR", err.Error(), "")
	}
	if d.Op == season.OpBand.String() {
		if s.Period == "week" {
			ch.add(short+"PERIOD", "set, but op band finds the period", "remove it")
		}
		return
	}
	if s.Calendar != "" && s.Period == "day" {
		ch.add(short+"CALENDAR", "set, but with "+Prefix+short+"PERIOD=day all days are alike", "use PERIOD=week or remove it")
	}
}
