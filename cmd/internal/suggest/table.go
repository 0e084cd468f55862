package suggest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"odradek/cmd/internal/config"
	"odradek/cmd/internal/config/settingsfile"
	"odradek/schemas"
	"odradek/schemas/formats"
)

const (
	maxRecordLeaves = 2000    // values of a record that are looked at
	maxLeaves       = 600_000 // of all records
	maxFixed        = 16      // items of an array that are values of one sample
)

// mapping finds out what the fields of records mean.
type mapping struct {
	c        *Config
	s        *suggestion
	sample   *topicSample
	settings []settingsfile.Setting

	format   string
	lists    []listed // the records that can be read, until chooseReadings makes points of them
	t        *table
	readings string        // path of the array of readings; "": a record is one
	times    []int64       // of each point, in microseconds; nil: no field has the time, and they are Kafka's
	order    []int         // points by segment and time
	series   []int32       // of each point: the number of its series
	keys     int           // series seen
	width    int           // values of a sample
	ranges   []float64     // scales of the values
	sensors  int           // series of a key: 1, or the number of fields
	every    time.Duration // events are counted in intervals of this length; 0: there are values
	there    []string      // fields of the key and the time that some records lack: these are left out
	lacking  int           // how many
}

// listed are the values of one record.
type listed struct {
	segment int
	record  *raw
	leaves  []schemas.Leaf
}

// table has the values of the sample by field.
type table struct {
	records, bad, tombstones int
	why                      string // of the first bad one
	schemas                  map[int32]string
	points                   []point
	fields                   []*field // in the order in which they were seen first
	index                    map[string]*field
	rows                     map[string]int // records in which an array of readings was
}

// point is one reading of a record, or a record.
type point struct {
	segment   int // index of the chunk
	partition int
	record    int
	raw       *raw
}

// field is a path and what points have there.
type field struct {
	path  string
	whole string // as value_fields names it: an array with its length; else path
	item  bool   // it is a field of the readings
	cells []cell
	texts []string // by cell.text
	ids   map[string]int32

	quoted, decimal bool   // its numbers are texts, or decimals in base64
	example         string // of such a text

	timed   bool // moments is known
	moments *moments
}

// cell is the value of a point; its kind is LeafNull where there is none.
type cell struct {
	kind  schemas.LeafKind
	text  int32
	int   int64
	float float64
}

func (c *cell) number() bool { return c.kind == schemas.LeafInt || c.kind == schemas.LeafFloat }

// at returns the cell of a point.
func (f *field) at(i int) *cell {
	if i >= len(f.cells) {
		return &cell{}
	}
	return &f.cells[i]
}

// set sets the cell of a point. Points come in order.
func (f *field) set(i int, l *schemas.Leaf) {
	for len(f.cells) < i {
		f.cells = append(f.cells, cell{})
	}
	c := cell{kind: l.Kind, int: l.Int, float: l.Float}
	if l.Kind == schemas.LeafText {
		id, ok := f.ids[l.Text]
		if !ok {
			id = int32(len(f.texts))
			f.texts = append(f.texts, l.Text)
			f.ids[l.Text] = id
		}
		c.text = id
	}
	if len(f.cells) > i { // a path that comes twice in a record
		f.cells[i] = c
		return
	}
	f.cells = append(f.cells, c)
}

// kinds counts the cells by kind, of n points.
func (f *field) kinds(n int) (k [schemas.LeafOther + 1]int) {
	for i := range f.cells {
		k[f.cells[i].kind]++
	}
	k[schemas.LeafNull] += n - len(f.cells)
	return k
}

// detectFormat says which format reads the records.
func (m *mapping) detectFormat() (set settingsfile.Setting, err error) {
	d := m.sample.look()
	if d.values == 0 {
		return set, fmt.Errorf("suggest: the %s of topic %q that were looked at have no value (tombstones)",
			count(m.sample.records(), "record"), m.c.Topic)
	}
	set = settingsfile.Setting{Key: "format", Value: formats.Auto}
	has := len(m.c.Given.Registry.URLs) > 0
	given, isGiven := m.s.given["format"]
	for name, n := range d.like {
		if n > d.values/2 && !isGiven {
			m.format = name
			return settingsfile.Setting{Key: "format", Value: name, Comment: fmt.Sprintf("%s of %s are %s.", count(n, "record"), count(d.values, ""),
				formats.Title(name))}, nil
		}
	}
	switch {
	case isGiven:
		set.Value, set.Comment = given.Value, ""
	case m.c.Given.Mapping.SchemaFile != "":
		set.Comment = "The schema file decides."
	case d.framed > d.values/2 && has:
		set.Comment = fmt.Sprintf("%s of %s name a schema of the registry, whose type decides.", count(d.framed, "record"), count(d.values, ""))
	case d.json > d.values/2:
		set.Value, set.Comment = "json", fmt.Sprintf("%s of %s are JSON without a schema id.", count(d.json, "record"), count(d.values, ""))
	case d.framedJSON > d.values/2:
		set.Value, set.Comment = "json", fmt.Sprintf("%s of %s are JSON behind a schema id; without %sSCHEMA_REGISTRY_URL the schema is not "+
			"looked at.", count(d.framedJSON, "record"), count(d.values, ""), config.Prefix)
	case d.framed > d.values/2:
		return set, fmt.Errorf("suggest: %s of %s of topic %q name a schema by an id: set %sSCHEMA_REGISTRY_URL to the registry that its "+
			"producers use", count(d.framed, "record"), count(d.values, ""), m.c.Topic, config.Prefix)
	case !has:
		set.Value = "json" // its error says what the records look like
	}
	m.format = set.Value
	return set, nil
}

// newTable lists the values of the records.
func (m *mapping) newTable(ctx context.Context) (*table, error) {
	t := &table{schemas: map[int32]string{}, index: map[string]*field{}, rows: map[string]int{}}
	opts, err := m.c.decoderOptions(m.format)
	if err != nil {
		return nil, err
	}
	inspector, err := formats.NewInspector(m.c.Registry, opts)
	if err != nil {
		return nil, fmt.Errorf("suggest: %w", err)
	}
	room := maxLeaves / len(m.sample.chunks)
	out := schemas.Leaves{Most: maxRecordLeaves}
	for i := range m.sample.chunks {
		ch := &m.sample.chunks[i]
		left := room
		for j := range ch.records {
			r := &ch.records[j]
			if t.records++; r.value == nil {
				t.tombstones++
				continue
			}
			schema, err := inspector.Leaves(ctx, r.value, r.headers(), &out)
			if err == nil && len(out.List) == 0 {
				err = errors.New("it has no field")
			}
			var de *schemas.DecodeError
			if errors.As(err, &de) && de.Retry && !de.Absent {
				return nil, fmt.Errorf("suggest: %w", err) // the registry does not answer
			}
			if err != nil {
				if t.bad++; t.bad == 1 {
					t.why = fmt.Sprintf("%s at offset %d: %s", m.sample.ranges[ch.partition].tp, r.offset, strings.TrimPrefix(err.Error(), "schemas: "))
				}
				continue
			}
			if schema.ID >= 0 {
				t.schemas[schema.ID] = schema.Type
			}
			m.lists = append(m.lists, listed{i, r, slices.Clone(out.List)})
			if left -= len(out.List); left < 0 {
				m.sample.whole = m.sample.whole && j == len(ch.records)-1
				break
			}
		}
	}
	if len(m.lists) == 0 {
		fix := "correct " + config.Prefix + "FORMAT or _SCHEMA_REGISTRY_URL, or name the schema of bare Avro or Protobuf in " + config.Prefix +
			"SCHEMA_FILE"
		return nil, fmt.Errorf("suggest: none of %s of topic %q can be read (FORMAT=%s), such as %s; %s", count(t.records-t.tombstones, "record"),
			m.c.Topic, m.format, t.why, fix)
	}
	if t.bad > 0 {
		m.s.head = append(m.s.head, fmt.Sprintf("%s of %s cannot be read and would be dead letters, such as %s.", count(t.bad, "record"),
			count(t.records, ""), t.why))
	}
	if t.tombstones > 0 {
		m.settings = append(m.settings, settingsfile.Setting{Key: "tombstones", Value: "skip", Comment: fmt.Sprintf("%s of %s have no value "+
			"(tombstones), and would be dead letters.", count(t.tombstones, "record"), count(t.records, ""))})
	}
	return t, nil
}

// array is what is known of an array.
type array struct {
	path           string
	records, items int
	least, most    int
	objects        bool
	number, named  bool // an item has a number that is no time, a text
	times          int  // that items have
	changes        bool // it is not the same in all records, as a schema is
	first          map[itemPath]schemas.Leaf
}

// itemPath is a path in an item of an array.
type itemPath struct {
	item int
	path string
}

// arrays returns what arrays the records have.
func (m *mapping) arrays() map[string]*array {
	all := map[string]*array{}
	for i := range m.lists {
		for j := range m.lists[i].leaves {
			l := &m.lists[i].leaves[j]
			if l.Kind == schemas.LeafArray && l.Array == "" {
				a := all[l.Path]
				if a == nil {
					a = &array{path: l.Path, least: int(l.Int), first: map[itemPath]schemas.Leaf{}}
					all[l.Path] = a
				}
				a.records++
				a.items += int(l.Int)
				a.least, a.most = min(a.least, int(l.Int)), max(a.most, int(l.Int))
			}
			a := all[l.Array]
			if a == nil {
				continue
			}
			a.objects = a.objects || l.Path != l.Array
			if !a.changes {
				at := itemPath{l.Item, l.Path}
				was, seen := a.first[at]
				a.first[at] = *l
				a.changes = seen && was != *l
			}
			_, _, isTime := timeOf(l, m.lists[i].record.timestamp)
			if isTime {
				a.times++
			}
			a.number = a.number || !isTime && (l.Kind == schemas.LeafFloat || l.Kind == schemas.LeafInt)
			a.named = a.named || !isTime && l.Kind == schemas.LeafText
		}
	}
	return all
}

// chooseReadings says whether records are batches of readings, and makes points of them.
func (m *mapping) chooseReadings() error {
	all := m.arrays()
	var list []*array
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if a := all[path]; a.objects && a.number && a.changes && (a.times > 0 || a.named || a.least != a.most) {
			list = append(list, a)
		}
	}
	slices.SortStableFunc(list, func(a, b *array) int { return b.items - a.items })
	if given, ok := m.s.given["readings_field"]; ok {
		m.readings = given.Value
		m.settings = append(m.settings, settingsfile.Setting{Key: "readings_field", Value: given.Value})
	} else if len(list) > 0 {
		a := list[0]
		m.readings = a.path
		size := fmt.Sprintf("%d to %d readings here, %s in the mean", a.least, a.most, figure(float64(a.items)/float64(a.records)))
		if a.least == a.most {
			size = fmt.Sprintf("%d readings here", a.least)
		}
		comment := fmt.Sprintf("A record is a batch: %s of %s have an array of %s.", count(a.records, ""), count(len(m.lists), "record"), size)
		if a.times >= a.items {
			comment += " Each has a time of its own."
		}
		for _, other := range list[1:] {
			comment += fmt.Sprintf(" %s is an array of such readings, too (%s); one worker reads one of them.", other.path,
				count(other.items, "item"))
		}
		m.settings = append(m.settings, settingsfile.Setting{Key: "readings_field", Value: a.path, Comment: comment})
	}
	m.flatten(all)
	if len(m.t.points) == 0 {
		return fmt.Errorf("suggest: the records of topic %q have no reading in %s", m.c.Topic, m.readings)
	}
	m.unquote()
	return nil
}

// flatten makes the points.
func (m *mapping) flatten(all map[string]*array) {
	t := m.t
	room := make([]int, len(m.sample.chunks)) // cells of the points of each chunk
	for i := range room {
		room[i] = 2 * maxLeaves / len(room)
	}
	for i := range m.lists {
		l := &m.lists[i]
		n := 1
		if m.readings != "" {
			if n = 0; all[m.readings] != nil {
				for j := range l.leaves {
					if l.leaves[j].Kind == schemas.LeafArray && l.leaves[j].Path == m.readings && l.leaves[j].Array == "" {
						n = int(l.leaves[j].Int)
					}
				}
			}
		}
		own := 0
		for j := range l.leaves {
			if l.leaves[j].Array == "" {
				own++
			}
		}
		if room[l.segment] < 0 {
			continue
		}
		room[l.segment] -= n*own + len(l.leaves) // the record's own values are repeated for each reading
		base := len(t.points)
		for range n {
			t.points = append(t.points, point{l.segment, m.sample.chunks[l.segment].partition, i, l.record})
		}
		for j := range l.leaves {
			leaf := &l.leaves[j]
			switch a := all[leaf.Array]; {
			case leaf.Kind == schemas.LeafArray:
			case leaf.Array == "":
				f := t.field(leaf.Path, leaf.Path, false)
				for k := range n {
					f.set(base+k, leaf)
				}
			case leaf.Array == m.readings:
				if leaf.Item < n {
					t.field(leaf.Path, leaf.Path, true).set(base+leaf.Item, leaf)
				}
			case a != nil && a.least == a.most && a.most <= maxFixed && leaf.Array != "@value":
				rest := strings.TrimPrefix(leaf.Path, leaf.Array)
				f := t.field(fmt.Sprintf("%s[%d]%s", leaf.Array, leaf.Item, rest), fmt.Sprintf("%s[%d]%s", leaf.Array, a.most, rest), false)
				for k := range n {
					f.set(base+k, leaf)
				}
			}
		}
	}
	m.lists = nil
}

// drop takes points out of the table.
func (m *mapping) drop(out func(i int) bool) {
	var kept []int
	for i := range m.t.points {
		if !out(i) {
			kept = append(kept, i)
		}
	}
	m.t.points = pick(m.t.points, kept)
	m.series = pick(m.series, kept)
	if m.times != nil {
		m.times = pick(m.times, kept)
	}
	for _, f := range m.t.fields {
		cells := make([]cell, len(kept))
		for k, i := range kept {
			cells[k] = *f.at(i)
		}
		f.cells = cells
	}
	m.sortPoints()
}

// pick returns the items of a list with these numbers.
func pick[T any](list []T, at []int) []T {
	out := make([]T, len(at))
	for k, i := range at {
		out[k] = list[i]
	}
	return out
}

// field returns the field of a path.
func (t *table) field(path, whole string, item bool) *field {
	f := t.index[path]
	if f == nil {
		f = &field{path: path, whole: whole, item: item, ids: map[string]int32{}}
		t.index[path] = f
		t.fields = append(t.fields, f)
	}
	return f
}
