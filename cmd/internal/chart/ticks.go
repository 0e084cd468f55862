package chart

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// tick is a place on an axis with its label.
type tick struct {
	at   float64
	text string
}

// ticks returns at most about n places in a range, at multiples of 1, 2 or 5 times a power of ten.
func ticks(low, high float64, n int) (list []tick) {
	step := roundStep((high - low) / float64(n))
	for i := math.Ceil(low/step - 1e-6); i*step <= high+step*1e-6 && len(list) <= 2*n; i++ {
		v := i * step
		text := strconv.FormatFloat(v+0, 'f', max(0, -int(math.Floor(math.Log10(step)))), 64)
		if a := math.Abs(v); a >= 1e6 || step < 1e-5 {
			text = strconv.FormatFloat(v+0, 'g', 6, 64)
		}
		list = append(list, tick{v, text})
	}
	return list
}

// roundStep returns the least of 1, 2 and 5 times a power of ten that is no less than v.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// seconds are distances of times that a clock shows, in seconds.
var seconds = []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 3 * 3600, 6 * 3600, 12 * 3600, 86400}

// timeStep returns the distance of at most about n times in a range of seconds.
func timeStep(length float64, n int) float64 {
	each := length / float64(n)
	if each < 1 {
		return roundStep(each)
	}
	for _, s := range seconds {
		if s >= each {
			return s
		}
	}
	return 86400 * roundStep(each/86400)
}

// timeTicks draws the axis of time: the time of day, and below it the date.
func (c *Chart) timeTicks(v *canvas) {
	step := timeStep(v.to.X-v.from.X, 8)
	layout := "15:04:05"
	if step < 1 {
		layout += "." + strings.Repeat("0", min(6, int(math.Ceil(-math.Log10(step)))))
	}
	for i := math.Ceil(v.from.X/step - 1e-6); i*step <= v.to.X+step*1e-6; i++ {
		x := v.x(i * step)
		at := time.UnixMicro(int64(math.Round(i * step * 1e6))).UTC()
		v.printf(grid, x, v.upper, x, v.lower)
		v.text(x, v.lower+line-2, ` text-anchor="middle"`, at.Format(layout))
		v.text(x, v.lower+2*line-4, ` text-anchor="middle" fill="#5b6470"`, at.Format(time.DateOnly))
	}
}
