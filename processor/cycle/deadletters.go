package cycle

import (
	"fmt"
	"strconv"
	"strings"
)

// DeadLetterLimit bounds the dead letters of a partition (stop_above): the records are divided into successive windows of Of
// records, and at most Most records of a window may become dead letters. Of 0: no bound.
type DeadLetterLimit struct{ Most, Of int64 }

// LetterWindow counts the records so far of a partition's present window (DeadLetterLimit), and the dead letters among them. It is
// committed in the metadata of the offset, so that a restore continues to count.
type LetterWindow struct{ Dead, Records int64 }

// maxWindow is the largest window, in records.
const maxWindow = 1_000_000_000

// ParseDeadLetterLimit reads a share of a window, such as 0.5/1000; off is no bound.
func ParseDeadLetterLimit(text string) (l DeadLetterLimit, err error) {
	if text == "off" {
		return l, nil
	}
	share, window, ok := strings.Cut(text, "/")
	s, err1 := strconv.ParseFloat(share, 64)
	n, err2 := strconv.ParseInt(window, 10, 64)
	switch {
	case !ok || err1 != nil || err2 != nil:
		return l, fmt.Errorf("%q is not a share of a number of records", text)
	case !(s >= 0 && s < 1):
		return l, fmt.Errorf("the share %s is not from 0 to less than 1", share)
	case n < 1 || n > maxWindow:
		return l, fmt.Errorf("a window of %s records; it has 1 to %d", window, maxWindow)
	}
	// 0.07 of 100 is 7: the product is a little more than it, or less.
	return DeadLetterLimit{Most: int64(s*float64(n) + 1e-6), Of: n}, nil
}

// Pass counts a record that is no dead letter.
func (l DeadLetterLimit) Pass(w *LetterWindow) {
	l.renew(w)
	w.Records++
}

// Admit counts n records that become dead letters, all or none: it reports whether the bound allows them.
func (l DeadLetterLimit) Admit(w *LetterWindow, n int64) bool {
	l.renew(w)
	if w.Dead+n > l.Most {
		return false
	}
	w.Dead, w.Records = w.Dead+n, w.Records+n
	return true
}

// Full reports whether the bound allows no dead letter for the next record.
func (l DeadLetterLimit) Full(w LetterWindow) bool {
	l.renew(&w)
	return l.Of > 0 && w.Dead >= l.Most
}

// renew begins the next window where the present one is full.
func (l DeadLetterLimit) renew(w *LetterWindow) {
	if w.Records >= l.Of {
		*w = LetterWindow{}
	}
}

// String returns the bound as "500 of 1000 records".
func (l DeadLetterLimit) String() string { return fmt.Sprintf("%d of %d records", l.Most, l.Of) }

// letterField is the name of a window in the metadata of an offset commit, which is made of fields between semicolons.
const letterField = "dead_letters="

// AppendTo adds the window to the metadata of an offset commit.
func (w LetterWindow) AppendTo(metadata string) string {
	return fmt.Sprintf("%s;%s%d/%d", metadata, letterField, w.Dead, w.Records)
}

// LetterWindowOf returns the window in the metadata of an offset commit; an empty one where there is none.
func LetterWindowOf(metadata string) (w LetterWindow) {
	for f := range strings.SplitSeq(metadata, ";") {
		text, ok := strings.CutPrefix(f, letterField)
		if !ok {
			continue
		}
		dead, records, _ := strings.Cut(text, "/")
		d, err1 := strconv.ParseInt(dead, 10, 64)
		r, err2 := strconv.ParseInt(records, 10, 64)
		if err1 == nil && err2 == nil && d >= 0 && r >= 0 {
			w = LetterWindow{d, r}
		}
	}
	return w
}
