package rules

import (
	"fmt"
	"math"
	"unicode/utf8"

	"odradek/processor/anomaly"
)

// AlarmOf returns an anomaly that has just opened as it is compared.
func AlarmOf(detector string, key []byte, a *anomaly.Anomaly) Alarm {
	own := a.Own()
	alarm := Alarm{
		Detector: anomaly.ScorerName(detector, own.Member), Series: SeriesOf(key), Opened: float64(own.Score), Peak: float64(own.Score),
	}
	alarm.Field, alarm.Side = SideOf(a.Side, a.Expected, a.Actual, a.Contribution)
	if d := a.Deviation(alarm.Field); !math.IsInf(d, 1) {
		alarm.First = d
	}
	alarm.Initial = a.Range.Width()
	if a.Range != nil {
		alarm.Early = int(a.Range.Held)
	}
	return alarm
}

// SeriesOf returns a series key as text, as anomaly records have it.
func SeriesOf(key []byte) string {
	if utf8.Valid(key) {
		return string(key)
	}
	return fmt.Sprintf("0x%x", key)
}

// LikeOf returns the false alarms that an anomaly resembles that has just opened; nil: none.
func (l LearnedList) LikeOf(detector string, key []byte, a *anomaly.Anomaly) *anomaly.Like {
	alarm := AlarmOf(detector, key, a)
	r := l.Like(&alarm)
	if r == nil {
		return nil
	}
	return &anomaly.Like{Bounds: r.Bounds, Count: uint32(r.Count), Labels: r.Labels,
		Field: r.Field, Since: a.Own().Samples, Deviation: a.Deviation(r.Field)}
}
