package schemas

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"odradek/schemas/expression"
)

// Mapping locates the parts of a reading in a user's own schema.
//
// A path is field names joined by dots, as "site.device.id": it goes through
// records, through unions with null and through maps (where the name is a key
// of the map). A backslash takes the next character as it is: "tags.a\.b" is
// the entry "a.b" of the map tags. "@value" is the whole value, for topics of
// bare numbers.
type Mapping struct {
	// Key is the path of the series key: a string, bytes, fixed, enum, int, long
	// or uuid. Several paths joined with '+' make one key, their texts joined
	// with '/': "site+device.id" gives "oslo/42"; a '/' or '\' inside a part is
	// then escaped by '\', so that two series never share a key. "" and "@key"
	// mean the Kafka key's bytes as they are. "@partition" is the number of the
	// record's partition, so that all of a partition's records are one series.
	// Both may be parts too, as may paths into a Kafka key that names its schema or
	// is JSON: "@key.machine" is a field of it, "@key.@value" the key as a whole.
	Key string
	// Time is the path of the event time: a timestamp, a date, a plain int, long
	// or double in TimeUnit, or a string in RFC 3339. "" and "@timestamp" mean
	// the Kafka timestamp.
	Time string
	// Fields are the paths of the values, one or more. "accel[3]" is an array of
	// three numbers and gives three values; "channels[3].level" is the field
	// level of each record of an array of three.
	Fields []string
	// TimeUnit is the unit of a time without a logical type: "s", "ms", "us",
	// "ns", or "auto" and "", which mean "ms". A logical type always wins.
	TimeUnit string
	// TimeZone is the zone of texts without an offset, such as Europe/Berlin; "": such a text is a fault.
	TimeZone string
	// TimeLayout is the format of texts, as strptime has it; "": what TimeText says.
	TimeLayout string
	// Readings is the path of an array of readings; "": a record is one reading. Paths of key, time and fields that
	// begin with it lead into each item of the array, all others into the record: with the array "data.points",
	// "data.points.value" is a field of each reading and "data.machine" one of the record, the same for all of
	// them. "@value" is a record that is an array, into whose items all paths lead.
	Readings string
	// SkipTombstones says that a record without a value is left out; else it is a fault.
	SkipTombstones bool
	// TextNumbers says that a value may be a text that writes a number; else such a value is a fault.
	TextNumbers bool
	// Decimals are scales of values that are decimals in base64, as "price=2", in JSON records that do not have their schema.
	Decimals []string
	// Valid are bounds of values, as "temperature=-40..150" or "pressure=0.."; a value outside is missing.
	Valid []string
	// MissingIf are numbers that stand for no reading, as "temperature=-9999|6553.5": such a value is missing.
	MissingIf []string
	// OnlyIf is a condition over the record's fields, as package expression has them; a record for which it is false is left
	// out. If it uses a field of the array of readings, it is about each reading. "": there is none.
	OnlyIf string
	// Computed are values that are computed from the record's fields, as "celsius=(raw - 32.0) * 5.0 / 9.0". Fields names each
	// of them, in place of a path.
	Computed []string
}

// Limits of a mapping.
const (
	MaxKeyParts = 8
	maxWidth    = 65536 // values of a reading

	// MaxReadings is the most readings of a record, which have no more than maxValues values together.
	MaxReadings = 65536
	maxValues   = 1 << 20
)

// inKafkaKey begins the paths that lead into the Kafka key.
const inKafkaKey = "@key."

// Role is what a path is mapped to.
type Role uint8

// The roles.
const (
	RoleKey Role = iota
	RoleTime
	RoleValue
	RoleReadings // the array of readings
	RoleOperand  // a field that an expression uses; Slot is its operand
)

func (r Role) String() string {
	return [...]string{"key", "time", "field", "readings", "field of an expression"}[r]
}

// Segment is one step of a path. count > 0 asks for an array of that length.
type Segment struct {
	Name  string
	Count int
}

// Sink is one path of a mapping and where its content goes.
type Sink struct {
	Role Role
	Text string // as configured, for messages
	Segs []Segment
	Slot int // of the key: which part; of a value: first index in Values
	N    int // values

	// FromText says that a value may be a text that writes a number (TextNumber).
	FromText bool
	// Scale is the scale of a decimal whose record has none; nil: it is none.
	Scale *int
	// Wildcard says that the path leads to a record or a map, of which each number is a value.
	Wildcard bool

	field    int         // of a value: index in Mapping.Fields
	accept   *acceptance // of a value; nil: every one is taken
	optional bool        // of an operand: the expression asks whether the record has it
}

// Layout is a parsed mapping, the same for all schemas.
type Layout struct {
	Sinks     []Sink // paths into the value, in the order in which faults are reported: key, time, fields
	KeyParts  int    // parts of the key, 0: the Kafka key alone
	recordKey int    // which part is "@key"; -1: none
	partition int    // which part is "@partition"; -1: none
	kafkaTime bool
	extra     bool // a reading needs more than its sinks: resetMore, finishMore
	Width     int
	Unit      string   // of times without a logical type; "": the format's own, milliseconds if it has none
	Texts     TimeText // of event times
	// Key is the layout of the Kafka key where paths lead into it, with the slots of this one's parts; nil: none does.
	Key *Layout
	// Item is the layout of an item of the array of readings, with paths from the item on. Sinks then has the paths of the
	// record, and last the array's, and a program gives the items it finds to Reading.AddItem. nil: a record is one reading.
	Item     *Layout
	own      owner     // of a record with an array, or of its item
	screens  bool      // some field has an acceptance
	wildcard *wildcard // a field stands for each number below a path

	columns  []Sink                 // of all fields, in their order, also of an item's layout
	operands int                    // of expressions
	onlyIf   *expression.Expression // nil: there is none
	computed []computed
}

// Width returns the number of values of a reading: one for each plain path, N for
// a path with [N]. It is 0 where the mapping is not valid.
func (m Mapping) Width() int {
	l, err := m.paths()
	if err != nil {
		return 0
	}
	return l.Width
}

// Validate reports all faults of a mapping that show without a schema.
func (m Mapping) Validate() error {
	_, err := m.Layout()
	return err
}

// Columns returns the indices of the given fields' values in a reading, for a detector
// that takes some of them. A field is named as in Fields, an array with or
// without its [N]; "" or none means all.
func (m Mapping) Columns(fields []string) ([]int, error) {
	l, err := m.paths()
	if err != nil {
		return nil, err
	}
	var out []int
	for _, f := range fields {
		f = strings.TrimSpace(f)
		if f == "" {
			continue
		}
		found := false
		for i := range l.columns {
			s := &l.columns[i]
			if s.Text != f && withoutCount(s.Text) != f {
				continue
			}
			found = true
			for j := range s.N {
				out = append(out, s.Slot+j)
			}
			break
		}
		if !found {
			return nil, fmt.Errorf("schemas: field %q is none of the mapped fields %s", f, strings.Join(m.Fields, ", "))
		}
	}
	if out == nil {
		for i := range l.Width {
			out = append(out, i)
		}
	}
	return out, nil
}

// ColumnNames returns the names of columns: the field's, and for an element of an array the
// field with the element's index in the place of the count.
func (m Mapping) ColumnNames(columns []int) []string {
	l, err := m.paths()
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(columns))
	for _, c := range columns {
		for i := range l.columns {
			s := &l.columns[i]
			if c < s.Slot || c >= s.Slot+s.N {
				continue
			}
			name := s.Text
			if from, to := strings.IndexByte(name, '['), strings.IndexByte(name, ']'); 0 <= from && from < to {
				name = name[:from+1] + strconv.Itoa(c-s.Slot) + name[to:]
			}
			names = append(names, name)
			break
		}
	}
	return names
}

// KeyOfPartition reports whether a part of the key is the record's partition, so that no series is in two partitions.
func (m Mapping) KeyOfPartition() bool { return slices.Contains(split(m.Key, '+'), "@partition") }

func withoutCount(path string) string {
	i := strings.IndexByte(path, '[')
	j := strings.IndexByte(path, ']')
	if i < 0 || j < i {
		return path
	}
	return path[:i] + path[j+1:]
}

// Layout parses the paths of a mapping. An error lists all faults.
func (m Mapping) Layout() (*Layout, error) {
	l, err := m.paths()
	if err == nil {
		err = m.expressions(l)
	}
	if m.Readings == "" || err != nil && l != nil {
		return l, err
	}
	return m.itemize(l, err)
}

// paths parses the paths of a mapping, all of them from the record on. After a fault it returns no layout.
func (m Mapping) paths() (*Layout, error) {
	l := &Layout{recordKey: -1, partition: -1}
	var faults []error
	var err error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("schemas: "+format, args...)) }

	if m.Key != "" && m.Key != "@key" {
		for _, text := range split(m.Key, '+') {
			if own := map[string]*int{"@key": &l.recordKey, "@partition": &l.partition}[text]; own != nil {
				if *own >= 0 {
					fault("key %q: %s twice", m.Key, text)
				}
				*own = l.KeyParts
				l.KeyParts++
				continue
			}
			inKey, isInKey := strings.CutPrefix(text, inKafkaKey)
			segs, err := parsePath(inKey)
			if err != nil {
				fault("key %q: %w", m.Key, err)
				continue
			}
			if counted(segs) > 0 {
				fault("key %q: an array cannot be a key", m.Key)
			}
			s := Sink{Role: RoleKey, Text: text, Segs: segs, Slot: l.KeyParts}
			l.KeyParts++
			if !isInKey {
				l.Sinks = append(l.Sinks, s)
				continue
			}
			if l.Key == nil {
				l.Key = &Layout{recordKey: -1, partition: -1, own: owner{record: true}}
			}
			l.Key.Sinks = append(l.Key.Sinks, s)
		}
		if l.Key != nil {
			l.Key.KeyParts, l.Key.own.key = l.KeyParts, l.KeyParts == 1
		}
		if l.KeyParts > MaxKeyParts {
			fault("key %q: %d parts, %d at most", m.Key, l.KeyParts, MaxKeyParts)
		}
	}

	if m.Time == "" || m.Time == "@timestamp" {
		l.kafkaTime = true
	} else if segs, err := parsePath(m.Time); err != nil {
		fault("time %q: %w", m.Time, err)
	} else if counted(segs) > 0 {
		fault("time %q: an array cannot be a time", m.Time)
	} else {
		l.Sinks = append(l.Sinks, Sink{Role: RoleTime, Text: m.Time, Segs: segs})
	}

	switch m.TimeUnit {
	case "", "auto":
	case "s", "ms", "us", "ns":
		l.Unit = m.TimeUnit
	default:
		fault("time unit %q is none of auto, s, ms, us, ns", m.TimeUnit)
	}
	texts, wrong := newTimeText(&m)
	l.Texts, faults = texts, append(faults, wrong...)

	if len(m.Fields) == 0 {
		fault("no fields: name at least one path of a numeric field")
	}
	accepts, rejected := m.acceptances()
	scales, wrong := m.scales()
	faults = append(append(faults, rejected...), wrong...)
	values, wrong := m.computedValues()
	faults = append(faults, wrong...)
	seen := map[string]bool{}
	for i, text := range m.Fields {
		var segs []Segment
		if c := values[text]; c != nil {
			c.slot, c.field, c.accept = l.Width, i, accepts[i]
			l.computed = append(l.computed, *c)
		} else if prefix, _, ok := wildcardOf(text); ok {
			segs, err = parsePath(prefix)
		} else {
			segs, err = parsePath(text)
		}
		if err != nil {
			fault("field %q: %w", text, err)
			continue
		}
		if seen[text] {
			fault("field %q is named twice", text)
		}
		seen[text] = true
		n := max(1, counted(segs))
		sink := Sink{Role: RoleValue, Text: text, Segs: segs, Slot: l.Width, N: n, FromText: m.TextNumbers, Scale: scales[i],
			field: i, accept: accepts[i], Wildcard: IsWildcard(text)}
		if l.columns = append(l.columns, sink); values[text] == nil {
			l.Sinks = append(l.Sinks, sink)
		}
		l.Width += n
		l.screens = l.screens || accepts[i] != nil
	}
	faults = append(faults, m.wildcardField(l)...)
	if l.Width > maxWidth {
		fault("%d values a reading, %d at most", l.Width, maxWidth)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return l, nil
}

func counted(segs []Segment) int {
	for _, s := range segs {
		if s.Count > 0 {
			return s.Count
		}
	}
	return 0
}

// split cuts at a separator that no backslash precedes.
func split(s string, sep byte) []string {
	var out []string
	start := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case sep:
			out = append(out, s[start:i])
			start = i + 1
		}
	}
	return append(out, s[start:])
}

// parsePath reads a path. "@value" is the path of no steps.
func parsePath(text string) ([]Segment, error) {
	if text == "@value" {
		return nil, nil
	}
	if strings.HasPrefix(text, "@") {
		return nil, fmt.Errorf("%q is not @key, @partition, @timestamp or @value, or is not allowed here", text)
	}
	var segs []Segment
	for _, part := range split(text, '.') {
		var s Segment
		i := 0
		var name []byte
		for i < len(part) && part[i] != '[' {
			if part[i] == '\\' {
				i++
				if i == len(part) {
					return nil, fmt.Errorf("path %q ends with a backslash", text)
				}
			}
			name = append(name, part[i])
			i++
		}
		s.Name = string(name)
		if s.Name == "" {
			return nil, fmt.Errorf("path %q has an empty step", text)
		}
		if i < len(part) {
			inner, ok := strings.CutSuffix(part[i+1:], "]")
			if ok && inner == "" {
				return nil, fmt.Errorf("path %q: give the array's length, as %s[3]", text, s.Name)
			}
			n, err := strconv.Atoi(inner)
			if !ok || err != nil || n < 1 || n > maxWidth {
				return nil, fmt.Errorf("path %q: [%s is not a length between 1 and %d", text, part[i+1:], maxWidth)
			}
			if counted(segs) > 0 {
				return nil, fmt.Errorf("path %q goes through two arrays, one is allowed", text)
			}
			s.Count = n
		}
		segs = append(segs, s)
	}
	return segs, nil
}
