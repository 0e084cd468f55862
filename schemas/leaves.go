package schemas

// Leaf is a value in a record: what a Format's Leaves finds with any mapping.
type Leaf struct {
	// Path leads to the value, as a mapping has it. The path of a value in an array leads through the array without a
	// length: points.at of each item of points.
	Path string
	// Array is the path of the array that the value is in, "@value" where the record itself is one; "" for none.
	// Values in arrays in arrays are not listed.
	Array string
	Item  int // which item of Array
	Kind  LeafKind
	Int   int64   // of LeafInt and LeafBool; of LeafTime microseconds since 1970; of LeafArray the number of items
	Float float64 // of LeafInt, LeafBool and LeafFloat
	Text  string  // of LeafText
}

// LeafKind is what a leaf is.
type LeafKind uint8

// The kinds of leaves.
const (
	LeafNull  LeafKind = iota
	LeafBool           // a value, 0 or 1
	LeafInt            // an integer without a logical type
	LeafFloat          // a number with a fraction, or beyond int64
	LeafText           // a text, an enumeration's symbol, a UUID: what can be a part of a key
	LeafTime           // a time by its type
	LeafArray          // an array, before its items
	LeafOther          // anything that a mapping cannot name, such as bytes
)

// maxLeafDepth bounds the nesting of records and arrays whose values are listed.
const maxLeafDepth = 32

// Leaves collects the leaves of a record; a format walks through the record and tells of each value.
type Leaves struct {
	List []Leaf
	// Most is the most leaves to collect. Cut reports that there were more; the walk may then end.
	Most int
	Cut  bool

	array string // that whose items come now
	item  int
	open  []int // arrays and records around the present value: the index of an array's own leaf, -1 for a record and an array in an array
	mute  int   // how many of them have values that are not listed
}

// Reset forgets the record before.
func (l *Leaves) Reset() { *l = Leaves{List: l.List[:0], Most: l.Most, open: l.open[:0]} }

// Add adds a value at a path.
func (l *Leaves) Add(path string, v Leaf) {
	switch {
	case l.mute > 0:
		return
	case len(l.List) >= l.Most:
		l.Cut = true
		return
	}
	v.Path, v.Array, v.Item = atLeast(path), l.array, l.item
	l.List = append(l.List, v)
}

func atLeast(path string) string {
	if path == "" {
		return "@value"
	}
	return path
}

// Record begins a record or a map, whose fields follow until End.
func (l *Leaves) Record() { l.start(-1, len(l.open) >= maxLeafDepth) }

// Array begins an array at a path, whose items follow until End, each after a call of Next.
func (l *Leaves) Array(path string) {
	at := -1
	if l.Add(path, Leaf{Kind: LeafArray}); l.mute == 0 && !l.Cut && l.array == "" && len(l.open) < maxLeafDepth {
		at = len(l.List) - 1
		l.array, l.item = atLeast(path), -1
	}
	l.start(at, at < 0)
}

func (l *Leaves) start(at int, mute bool) {
	if mute || l.mute > 0 {
		l.mute++
	}
	l.open = append(l.open, at)
}

// Next begins the next item of the innermost array.
func (l *Leaves) Next() {
	if at := l.open[len(l.open)-1]; at >= 0 {
		l.item++
		l.List[at].Int++
	}
}

// End ends the innermost record or array.
func (l *Leaves) End() {
	at := l.open[len(l.open)-1]
	l.open = l.open[:len(l.open)-1]
	if l.mute > 0 {
		l.mute--
	}
	if at >= 0 {
		l.array, l.item = "", 0
	}
}

// Under returns the path of a field of the record at a path.
func Under(path, name string) string {
	if name = Escape(name); path == "" {
		return name
	}
	return path + "." + name
}
