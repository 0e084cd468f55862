package settingsfile

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Setting is a setting to write.
type Setting struct {
	Section  string // a heading before the first of it; "" for none
	Detector string // the detector below which it stands; "" for none
	Mapping  string // the mapping below which it stands; "" for none
	Key      string // in lower case, without the prefix of the variables or of the detector
	Value    string // as the variable has it, lists with commas
	List     bool
	Comment  string // above it; "" for none
	Off      bool   // write it as a comment: it is not set
}

// width is the column at which comments are wrapped.
const width = 100

// Format returns the text of a file with a comment at its head. Settings of detectors stand below
// detectors, where the first of them is, and settings of mappings below mappings; so they follow each other in list.
func Format(head string, list []Setting) string {
	var b strings.Builder
	comment(&b, "", head)
	section, below, setting := "", "", ""
	for i := range list {
		s := &list[i]
		if s.Section != section {
			section = s.Section
			fmt.Fprintf(&b, "\n## %s\n", section)
		}
		indent := ""
		if key, name := s.below(); key != "" {
			indent = "    "
			if below != key {
				fmt.Fprintf(&b, "\n%s:\n", key)
				below, setting = key, ""
			}
			if setting != name {
				fmt.Fprintf(&b, "  %s:\n", inline(name))
				setting = name
			}
		}
		if s.Key == "" { // a detector without settings
			continue
		}
		if s.Comment != "" {
			if indent == "" {
				b.WriteByte('\n')
			}
			comment(&b, indent, s.Comment)
		}
		b.WriteString(indent)
		if s.Off {
			b.WriteString("#")
		}
		fmt.Fprintf(&b, "%s:%s\n", s.Key, s.text())
	}
	return b.String()
}

// below returns the name below which a setting stands below a name of its own; "" for none.
func (s *Setting) below() (key, name string) {
	switch {
	case s.Detector != "":
		return strings.ToLower(detectorsKey), s.Detector
	case s.Mapping != "":
		return strings.ToLower(mappingsKey), s.Mapping
	}
	return "", ""
}

// text returns the value in YAML, after a space; nothing for none.
func (s *Setting) text() string {
	if s.Value == "" && s.Off {
		return ""
	}
	if !s.List {
		return " " + inline(s.Value)
	}
	var items []string
	for item := range strings.SplitSeq(s.Value, ",") {
		if item != "" {
			items = append(items, inline(item))
		}
	}
	return " [" + strings.Join(items, ", ") + "]"
}

// inline returns a text as a YAML scalar on one line, in quotes where it would be read as something else.
func inline(text string) string {
	if plain(text) {
		return text
	}
	b, err := yaml.Marshal(&yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Value: text})
	if err != nil {
		panic(err) // a scalar has no fault
	}
	return strings.TrimSpace(string(b))
}

// plain reports whether YAML reads a text without quotes as that text, in a list, too.
func plain(text string) bool {
	var n yaml.Node
	if strings.ContainsAny(text, "#\n\r\u0085\u2028\u2029") || yaml.Unmarshal([]byte("[ "+text+" ]"), &n) != nil {
		return false
	}
	list := n.Content[0]
	return len(list.Content) == 1 && list.Content[0].Kind == yaml.ScalarNode && list.Content[0].Style == 0 &&
		list.Content[0].Value == text && list.Content[0].Tag != "!!null"
}

// comment writes a comment, wrapped, each line of text a paragraph.
func comment(b *strings.Builder, indent, text string) {
	if text == "" {
		return
	}
	for line := range strings.SplitSeq(text, "\n") {
		at := 0
		for _, word := range strings.Fields(line) {
			if at > 0 && at+1+len(word) > width {
				b.WriteByte('\n')
				at = 0
			}
			if at == 0 {
				b.WriteString(indent + "#")
				at = len(indent) + 1
			}
			b.WriteString(" " + word)
			at += 1 + len(word)
		}
		if at == 0 {
			b.WriteString(indent + "#")
		}
		b.WriteByte('\n')
	}
}
