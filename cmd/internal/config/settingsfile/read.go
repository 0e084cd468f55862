// Package settingsfile reads and writes a YAML file of settings. It knows the shape of the
// file and no setting: package config says which names there are, and what they take.
//
// A file is a mapping of names to values. A name is the variable's without its prefix,
// usually in lower case; a list is a YAML list or, as in a variable, a text with commas.
// The settings of detectors and of mappings stand below their names:
//
//	group: plant
//	topics: [sensors, pumps]
//	mappings:
//	  pumps: {topics: [pumps], key_field: pump}
//	detectors:
//	  vibration:
//	    op: knn
//	    window: 512
package settingsfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Parsed is a setting that was read from a file.
type Parsed struct {
	Name     string // of the variable without its prefix, such as KAFKA_BROKERS or DETECTOR_NEAR_K
	Key      string // as the file has it
	Value    string // as the variable would have it; "" where the file has none, which counts as not set
	List     bool   // Value was a list
	Detector string // the detector below which it stands; "" for none
	Mapping  string // the mapping below which it stands; "" for none
	Line     int
}

// Fault is what is wrong with a line of a file.
type Fault struct {
	Line         int // 0: of the whole file
	Problem, Fix string
}

// File is the content of a file.
type File struct {
	Settings []Parsed
	// Detectors are the names below detectors, in order, and DetectorsLine is its line.
	Detectors     []string
	DetectorsLine int
	// Faults are the faults of the file's shape. Broken reports that the text is not YAML, so that there are no settings.
	Faults []Fault
	Broken bool
}

// The names below which settings stand below a name of their own.
const (
	detectorsKey = "DETECTORS"
	mappingsKey  = "MAPPINGS"
)

// Parse reads the text of a file. prefix is the prefix of the variables' names, which a name in the file may
// have, too. envName returns what stands for the name of a detector or a mapping in the names of its settings.
func Parse(text []byte, prefix string, envName func(string) string) *File {
	r := reader{prefix: prefix, envName: envName, lines: map[string]int{}, f: new(File)}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if !errors.Is(err, io.EOF) { // a file without a document sets nothing
			r.broken(err)
		}
		return r.f
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		r.fault(more.Line, "a second YAML document begins here", "keep one document in a file")
	case !errors.Is(err, io.EOF):
		r.broken(err)
		return r.f
	}
	if root := resolve(doc.Content[0]); root.Kind == yaml.MappingNode {
		r.top(root)
	} else if root.Tag != "!!null" {
		r.fault(root.Line, "the file is "+kindOf(root)+", not a mapping of names to values", "write it like group: plant")
		r.f.Broken = true
	}
	return r.f
}

type reader struct {
	prefix  string
	envName func(string) string
	lines   map[string]int // of the names read
	f       *File
}

func (r *reader) fault(line int, problem, fix string) {
	r.f.Faults = append(r.f.Faults, Fault{line, problem, fix})
}

var lineRE = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)

// broken reports a text that is not YAML.
func (r *reader) broken(err error) {
	m := lineRE.FindStringSubmatch(err.Error())
	line, _ := strconv.Atoi(m[1])
	r.f.Settings, r.f.Detectors, r.f.Broken = nil, nil, true
	r.fault(line, "not YAML: "+strings.TrimPrefix(err.Error(), m[0]), "")
}

// top reads the mapping that is the file.
func (r *reader) top(n *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], resolve(n.Content[i+1])
		name := strings.TrimPrefix(strings.ToUpper(key.Value), r.prefix)
		if (name == detectorsKey || name == mappingsKey) && value.Kind == yaml.MappingNode {
			switch {
			case !r.first(name, key):
			case name == detectorsKey:
				r.f.DetectorsLine = key.Line
				r.f.Detectors = r.named("detector", value, func(e *Parsed, name string) { e.Detector = name })
			default:
				r.named("mapping", value, func(e *Parsed, name string) { e.Mapping = name })
			}
			continue
		}
		r.setting(Parsed{Name: name, Key: key.Value, Line: key.Line}, key, value)
	}
}

// named reads the settings of detectors or of mappings, which stand below their names, and returns these. in notes a
// name in a setting.
func (r *reader) named(what string, n *yaml.Node, in func(e *Parsed, name string)) (names []string) {
	example := map[string]string{"detector": "{op: knn, window: 512}", "mapping": "{topics: [pumps], key_field: pump}"}[what]
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], resolve(n.Content[i+1])
		if slices.Contains(names, key.Value) {
			r.fault(key.Line, fmt.Sprintf("%s %s is given twice", what, key.Value), "keep one of them")
			continue
		}
		names = append(names, key.Value)
		switch {
		case value.Kind == yaml.MappingNode:
			pre := strings.ToUpper(what) + "_" + r.envName(key.Value) + "_"
			for j := 0; j+1 < len(value.Content); j += 2 {
				k := value.Content[j]
				e := Parsed{Name: pre + strings.ToUpper(k.Value), Key: k.Value, Line: k.Line}
				in(&e, key.Value)
				r.setting(e, k, resolve(value.Content[j+1]))
			}
		case value.Tag != "!!null": // a name alone has the defaults
			r.fault(value.Line, fmt.Sprintf("%s %s is %s, not a mapping of its settings", what, key.Value, kindOf(value)),
				"write it like "+example)
		}
	}
	return names
}

// first reports whether a name is not in the file yet.
func (r *reader) first(name string, key *yaml.Node) bool {
	if line, twice := r.lines[name]; twice {
		r.fault(key.Line, fmt.Sprintf("%s is given twice, first in line %d", key.Value, line), "keep one of them")
		return false
	}
	r.lines[name] = key.Line
	return true
}

// setting reads the value of a name.
func (r *reader) setting(e Parsed, key, value *yaml.Node) {
	if !r.first(e.Name, key) {
		return
	}
	switch value.Kind {
	case yaml.ScalarNode:
		if !r.scalar(key, value) {
			return
		}
		e.Value = value.Value
		if value.Tag == "!!null" {
			e.Value = ""
		}
	case yaml.SequenceNode:
		e.List = true
		var items []string
		for _, item := range value.Content {
			item = resolve(item)
			switch {
			case item.Kind != yaml.ScalarNode || item.Tag == "!!null":
				r.fault(item.Line, fmt.Sprintf("an item of %s is %s", key.Value, kindOf(item)), "use texts and numbers")
				return
			case !r.scalar(key, item):
				return
			case strings.Contains(item.Value, ","):
				r.fault(item.Line, fmt.Sprintf("an item of %s has a comma: %q", key.Value, item.Value),
					"commas separate items here, too: make it two")
				return
			}
			items = append(items, item.Value)
		}
		e.Value = strings.Join(items, ",")
	default:
		r.fault(value.Line, fmt.Sprintf("%s is a mapping, not a value", key.Value),
			"only detectors and mappings are; write other names in full, such as kafka_brokers")
		return
	}
	r.f.Settings = append(r.f.Settings, e)
}

// scalar reports whether a value is a plain one. A tag would promise a type that settings do not have.
func (r *reader) scalar(key, value *yaml.Node) bool {
	if value.Style&yaml.TaggedStyle == 0 {
		return true
	}
	r.fault(value.Line, fmt.Sprintf("%s has the tag %s", key.Value, value.Tag), "remove the tag")
	return false
}

// resolve follows an alias to its anchor.
func resolve(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "empty"
	}
	return fmt.Sprintf("the text %q", n.Value)
}
