package cycle

// cost estimates the time of a cycle, a fixed part and a part proportional to its bytes, from the last cycles: a line
// of least squares of seconds by bytes. The error of a time is relative, so each has the weight of its inverse square.
type cost struct {
	n, x, y, xx, xy float64 // sums of weights, bytes, seconds, and products
	slope           float64 // seconds a byte; it stays what it was where sizes hardly differ
}

const (
	// costMemory is what remains of a cycle's weight after the next one: the last seven count.
	costMemory = 0.85
	// costRidge is the variance of sizes, in squares of their mean, to which the last slope weighs as much as what was measured.
	costRidge = 0.01
	// costSpread is the variance below which sizes are too alike to tell the parts of the time.
	costSpread = 0.03
)

// add adds a cycle. One that took far longer than it should have outweighs all before it: brokers that have become slow
// would otherwise be drowned out by the times when they were fast, which weigh more.
func (c *cost) add(bytes, seconds float64) {
	w, keep := 1/(seconds*seconds), costMemory
	if c.n > 0 && seconds > paceLate*c.duration(bytes) {
		keep = min(keep, w/c.n)
	}
	c.n, c.x, c.y = c.n*keep+w, c.x*keep+w*bytes, c.y*keep+w*seconds
	c.xx, c.xy = c.xx*keep+w*bytes*bytes, c.xy*keep+w*bytes*seconds
	x, y := c.x/c.n, c.y/c.n
	if c.slope == 0 {
		c.slope = y / x
	}
	ridge := costRidge * x * x
	c.slope = (c.xy/c.n - x*y + ridge*c.slope) / (c.xx/c.n - x*x + ridge)
	c.slope = max(min(c.slope, y/x), y/x*1e-4) // neither part is negative
}

// fixed returns the seconds that a cycle takes regardless of its size.
func (c *cost) fixed() float64 { return c.y/c.n - c.slope*c.x/c.n }

// duration returns the seconds of a cycle of a size; 0 before the first cycle.
func (c *cost) duration(bytes float64) float64 {
	if c.n == 0 {
		return 0
	}
	return c.fixed() + c.slope*bytes
}

// alike reports whether sizes differ too little to tell the parts of the time.
func (c *cost) alike() bool {
	x := c.x / c.n
	return c.xx/c.n-x*x < costSpread*x*x
}
