package chart

import (
	"fmt"
	"math"
	"strings"
)

// colors is how many colours cells have.
const colors = 64

// Cells returns cells as paths, one for each colour, in which a cell is 1 wide and 1 high and row 0 is at the bottom. The
// colours range from blue for low to red for high. A value that is no finite number leaves its cell empty.
func Cells(columns, rows int, value func(column, row int) float64, low, high float64) string {
	var paths [colors]strings.Builder
	for row := range rows {
		color, from := -1, 0
		for column := range columns + 1 {
			now := -1
			if column < columns {
				now = colorOf(value(column, row), low, high)
			}
			if now == color {
				continue
			}
			if color >= 0 {
				fmt.Fprintf(&paths[color], "M%d %dh%dv1H%dz", from, rows-1-row, column-from, from)
			}
			color, from = now, column
		}
	}
	var b strings.Builder
	b.WriteString(`<g shape-rendering="crispEdges">`)
	for i := range paths {
		if paths[i].Len() > 0 {
			fmt.Fprintf(&b, `<path d="%s" style="fill:%s"/>`, paths[i].String(), rgb(float64(i)/(colors-1)))
		}
	}
	b.WriteString("</g>")
	return b.String()
}

// colorOf returns the colour of a value, -1 for none.
func colorOf(v, low, high float64) int {
	if v-v != 0 {
		return -1
	}
	if !(high > low) {
		return 0
	}
	return int(math.Round((colors - 1) * min(1, max(0, (v-low)/(high-low)))))
}

// rgb returns the colour at a place from 0, blue, over 0.5, a light grey, to 1, red.
func rgb(at float64) string {
	low, middle, high := [3]float64{59, 76, 192}, [3]float64{221, 221, 221}, [3]float64{180, 4, 38}
	from, to, share := low, middle, 2*at
	if at > 0.5 {
		from, to, share = middle, high, 2*at-1
	}
	mix := func(i int) int { return int(math.Round(from[i] + share*(to[i]-from[i]))) }
	return fmt.Sprintf("#%02x%02x%02x", mix(0), mix(1), mix(2))
}
