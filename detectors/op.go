package detectors

// Op is an index into the op table: a batched function of rows of numbers.
type Op uint32

// Elem is the element type of an op's X.
type Elem uint8

// The element types of X.
const (
	F32 Elem = iota
	F64
	I64
)

// The ops. Their numbers go into tasks, never into anything stored.
const (
	// ZScore: distance of a sample to the mean of the samples before it, in
	// their standard deviations.
	ZScore Op = iota
	// IKASST: change score by the implicit Krylov approximation of the singular
	// spectrum transformation.
	IKASST
	opCount
)
