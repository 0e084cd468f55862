package suggest

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// count writes a number of things with its thousands separated.
func count(n int, thing string) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	if thing == "" {
		return text
	}
	switch stem, ends := strings.CutSuffix(thing, "y"); {
	case n == 1 || strings.HasSuffix(thing, "s"):
	case ends && !strings.HasSuffix(stem, "e"):
		thing = stem + "ies"
	default:
		thing += "s"
	}
	return text + " " + thing
}

// share writes a share in percent.
func share(part, whole int) string {
	if whole == 0 {
		return "0 %"
	}
	p := 100 * float64(part) / float64(whole)
	switch {
	case p > 0 && p < 1:
		return fmt.Sprintf("%.2g %%", p)
	case p > 99 && p < 100:
		return fmt.Sprintf("%.4g %%", min(p, 99.99))
	}
	return fmt.Sprintf("%.0f %%", p)
}

// figure writes a number with a few digits.
func figure(f float64) string {
	switch {
	case f == 0:
		return "0"
	case f >= 100:
		return count(int(math.Round(f)), "")
	}
	return strconv.FormatFloat(f, 'g', 2, 64)
}

// span writes microseconds as a time with few digits.
func span(micros int64) string {
	d := time.Duration(micros) * time.Microsecond
	switch {
	case d < 0:
		return "-" + span(-micros)
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(10 * time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(10 * time.Microsecond)
	}
	return text(d)
}

// text writes a duration without zeros at its end.
func text(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// round are the times that settings are rounded up to.
var round = []time.Duration{time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour,
	3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 96 * time.Hour, 168 * time.Hour, 336 * time.Hour,
	720 * time.Hour, 2160 * time.Hour, 8760 * time.Hour}

// roundUp returns the least round time that is no less than a number of microseconds.
func roundUp(micros int64) time.Duration {
	for _, d := range round {
		if d.Microseconds() >= micros {
			return d
		}
	}
	return round[len(round)-1]
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// median returns the middle of a list, which it sorts; 0 of none.
func median[T cmp.Ordered](list []T) (v T) {
	if len(list) == 0 {
		return v
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// entityWords mark fields that identify an entity; stateWords mark its changing state; early and late words mark times at the source
// and on the way.
var (
	entityWords = words("id device sensor machine host hostname asset tag serial station meter equipment line site node name key channel " +
		"point plant room building pump motor instance pod container vehicle robot hall cell zone area location well turbine metric " +
		"measurement measure parameter signal address mac imei uuid sn topic server unitid gateway source press furnace boiler valve " +
		"item variable")
	stateWords = words("status state quality level severity type op operation version firmware message note comment text description color " +
		"colour mode operator user product order batch recipe shift lot alarm unit units uom flag flags result trend action event kind class " +
		"category code reason snapshot")
	timeWords = words("time ts timestamp at date datetime event measured taken sampled sample observed recorded when occurred clock epoch")
	lateWords = words("created ingest ingested ingestion processed received sent updated inserted stored written kafka broker server db " +
		"commit arrival published upload uploaded install installed birth valid expires expiry calibrated due next last start end")
)

func words(text string) map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(text) {
		m[w] = true
	}
	return m
}

// tokens splits the last step of a path into words: deviceId and device_id into device and id.
func tokens(path string) (list []string) {
	last := path[strings.LastIndexByte(path, '.')+1:]
	word := ""
	end := func() {
		if word != "" {
			list = append(list, strings.ToLower(word))
		}
		word = ""
	}
	for i, r := range last {
		upper := r >= 'A' && r <= 'Z'
		switch {
		case r == '_' || r == '-' || r == ' ' || r == '\\' || r == '[' || r == ']' || r == '/' || r == ':':
			end()
			continue
		case upper && i > 0 && last[i-1] >= 'a' && last[i-1] <= 'z':
			end()
		}
		word += string(r)
	}
	end()
	return list
}

// hint returns how far the words of a path's last step speak for a meaning: 1, 0 or -1.
func hint(path string, yes, no map[string]bool) int {
	n := 0
	for _, w := range tokens(path) {
		if bare := strings.TrimRight(w, "0123456789"); bare != "" {
			w = bare
		}
		switch {
		case no[w]:
			n--
		case yes[w]:
			n++
		}
	}
	return max(-1, min(1, n))
}

// parent returns the path of the record that a field is in; "" for the whole record.
func parent(path string) string { return path[:max(0, strings.LastIndexByte(path, '.'))] }
