package json

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	std "encoding/json"

	"odradek/schemas"
)

// schema is a JSON Schema, read for its fields alone: where it allows several types or
// specifies none, a path is found if a record can have it.
type schema struct {
	root place          // whose fields are looked for
	docs map[string]any // what it refers to, by name and by $id
	left int            // places that the current search may still visit
}

// place is a part of a schema: v in the document doc.
type place struct{ doc, v any }

// Limits of the search of a schema. A path beyond them counts as found.
const (
	maxRefs   = 64
	maxPlaces = 256
	maxPaths  = 4096
	maxLooks  = 20_000
)

func parseSchema(s *schemas.Schema) (schemas.Fields, error) {
	c := &schema{docs: map[string]any{}}
	parse := func(text string) (v any, err error) {
		if err := std.Unmarshal([]byte(text), &v); err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		switch v := v.(type) {
		case bool:
		case map[string]any:
			for _, key := range []string{"$id", "id"} {
				if id, ok := v[key].(string); ok {
					c.docs[strings.TrimSuffix(id, "#")] = v
				}
			}
		default:
			return nil, errors.New("a JSON Schema is an object, true or false")
		}
		return v, nil
	}
	for _, r := range s.References {
		v, err := parse(r.Text)
		if err != nil {
			return nil, fmt.Errorf("reference %s: %w", r.Name, err)
		}
		c.docs[r.Name] = v
	}
	root, err := parse(s.Text)
	c.root = place{root, root}
	return c, err
}

// follow resolves a $ref; ok is false where it leads nowhere.
func (sc *schema) follow(doc any, ref string) (p place, ok bool) {
	name, fragment, _ := strings.Cut(ref, "#")
	if name != "" {
		if doc, ok = sc.docs[name]; !ok {
			return p, false
		}
	}
	v := doc
	if fragment, err := url.PathUnescape(fragment); err == nil && fragment != "" {
		for _, step := range strings.Split(strings.TrimPrefix(fragment, "/"), "/") {
			step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
			switch at := v.(type) {
			case map[string]any:
				v, ok = at[step]
			case []any:
				i, err := strconv.Atoi(step)
				if ok = err == nil && i >= 0 && i < len(at); ok {
					v = at[i]
				}
			default:
				ok = false
			}
			if !ok {
				return p, false
			}
		}
	}
	return place{doc, v}, true
}

// places lists the schemas that a value at p can or must meet, p's own first.
func (sc *schema) places(p place) (list []place) {
	var add func(p place, refs int)
	add = func(p place, refs int) {
		if sc.left--; sc.left < 0 || len(list) == maxPlaces || refs == maxRefs {
			return
		}
		m, ok := p.v.(map[string]any)
		if !ok {
			if p.v == true {
				list = append(list, p)
			}
			return
		}
		if ref, ok := m["$ref"].(string); ok {
			if to, ok := sc.follow(p.doc, ref); ok {
				add(to, refs+1)
			} else {
				list = append(list, place{p.doc, true}) // it may be anything
			}
		}
		parts := 0
		for _, key := range []string{"allOf", "anyOf", "oneOf"} {
			several, _ := m[key].([]any)
			for _, v := range several {
				parts++
				add(place{p.doc, v}, refs+1)
			}
		}
		if _, only := m["$ref"]; !only && parts == 0 || m["type"] != nil || m["properties"] != nil {
			list = append(list, p)
		}
	}
	add(p, 0)
	return list
}

// types returns the types that a schema allows; nil for any.
func types(m map[string]any) (list []string) {
	switch t := m["type"].(type) {
	case string:
		return []string{t}
	case []any:
		for _, v := range t {
			if s, ok := v.(string); ok {
				list = append(list, s)
			}
		}
	}
	return list
}

// Find implements schemas.Fields.
func (sc *schema) Find(s *schemas.Sink) *schemas.Problem {
	sc.left = maxLooks
	return sc.find(s, sc.root, s.Segs, 0)
}

// Items implements schemas.Fields.
func (sc *schema) Items(s *schemas.Sink) schemas.Fields {
	sc.left = maxLooks
	if p, ok := sc.items(sc.root, s.Segs); ok {
		return &schema{root: p, docs: sc.docs}
	}
	return nil
}

// items returns the schema of the items of the array that the path segs leads to from p on.
func (sc *schema) items(p place, segs []schemas.Segment) (items place, ok bool) {
	for _, p := range sc.places(p) {
		m, _ := p.v.(map[string]any)
		if m == nil {
			continue
		}
		if len(segs) == 0 {
			if v := itemsOf(m); v != nil {
				return place{p.doc, v}, true
			}
		} else if next, _ := sc.property(m, segs[0].Name); next != nil {
			if items, ok = sc.items(place{p.doc, next}, segs[1:]); ok {
				return items, true
			}
		}
	}
	return items, false
}

// itemsOf returns the schema of the items of an array, for a tuple the schema of its first item; nil without one.
func itemsOf(m map[string]any) any {
	if tuple, ok := m["items"].([]any); ok && len(tuple) > 0 {
		return tuple[0]
	}
	if tuple, ok := m["prefixItems"].([]any); ok && len(tuple) > 0 {
		return tuple[0]
	}
	return m["items"]
}

func (sc *schema) find(s *schemas.Sink, p place, segs []schemas.Segment, count int) *schemas.Problem {
	first := &schemas.Problem{Class: schemas.ClassMissingField, Text: "cannot be there"}
	seen := false
	places := sc.places(p)
	if sc.left < 0 {
		return nil // given up
	}
	for _, p := range places {
		problem := sc.findIn(s, p, segs, count)
		if problem == nil {
			return nil
		}
		if !seen || first.Text == "is always null" || first.Class == schemas.ClassMissingField && problem.Class == schemas.ClassBadType {
			first, seen = problem, true
		}
	}
	return first
}

func (sc *schema) findIn(s *schemas.Sink, p place, segs []schemas.Segment, count int) *schemas.Problem {
	m, ok := p.v.(map[string]any)
	if !ok {
		return nil // true: anything
	}
	list := types(m)
	if len(list) == 1 && list[0] == "null" {
		return &schemas.Problem{Class: schemas.ClassMissingField, Text: "is always null"} // of several, another one says more
	}
	is := func(names ...string) bool {
		return list == nil || slices.ContainsFunc(names, func(n string) bool { return slices.Contains(list, n) })
	}
	title := strings.Join(list, " or ")
	switch {
	case count > 0:
		if !is("array") {
			return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is %s, not an array", title)}
		}
		items := itemsOf(m)
		if items == nil {
			return nil
		}
		return sc.find(s, place{p.doc, items}, segs, 0)
	case len(segs) > 0:
		if !is("object") {
			return &schemas.Problem{Class: schemas.ClassMissingField, Text: fmt.Sprintf("%s has no field %q", title, segs[0].Name)}
		}
		next, known := sc.property(m, segs[0].Name)
		switch {
		case !known:
			return &schemas.Problem{Class: schemas.ClassMissingField, Text: fmt.Sprintf("the object has no field %q", segs[0].Name)}
		case next == nil:
			return nil
		}
		return sc.find(s, place{p.doc, next}, segs[1:], segs[0].Count)
	case s.Role == schemas.RoleValue && m["title"] == "io.debezium.data.VariableScaleDecimal":
	case s.Role == schemas.RoleValue && (s.FromText || s.Scale != nil) && is("string"):
	case s.Role == schemas.RoleValue && !is("number", "integer", "boolean", "null"):
		if slices.Contains(list, "array") {
			return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is an array: give its length, as %s[3]", s.Text)}
		}
		hint := ""
		if slices.Contains(list, "string") {
			hint = schemas.TextHint
		}
		return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is %s, not a number%s", title, hint)}
	case s.Role == schemas.RoleTime && !is("number", "integer", "string"):
		return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is %s, not a time", title)}
	case s.Role == schemas.RoleOperand && !is("string", "number", "integer", "boolean", "null"):
		return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is %s, not a text, number or Boolean", title)}
	case s.Role == schemas.RoleReadings && !is("array"):
		return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is %s, not an array", title)}
	case s.Role == schemas.RoleKey && !is("string", "integer"):
		return &schemas.Problem{Class: schemas.ClassBadType, Text: fmt.Sprintf("is %s, which cannot be a series key", title)}
	}
	return nil
}

// property returns the schema of an object's field: nil for a field without one.
// known is false where the schema names fields, but not this one.
func (sc *schema) property(m map[string]any, name string) (v any, known bool) {
	properties, named := m["properties"].(map[string]any)
	if v, ok := properties[name]; ok {
		return v, true
	}
	patterns, _ := m["patternProperties"].(map[string]any)
	for pattern, v := range patterns {
		if re, err := regexp.Compile(pattern); err != nil || re.MatchString(name) {
			return v, true
		}
	}
	switch more := m["additionalProperties"].(type) {
	case bool:
		return nil, more
	case map[string]any:
		return more, true
	}
	return nil, !named
}

// Paths implements schemas.Fields: names in order of the alphabet, numbers in objects of
// any fields as "tags.*".
func (sc *schema) Paths(r schemas.Role) (out []string) {
	open := map[uintptr]bool{} // the schemas around the current one: a recursive one is not entered again
	var walk func(p place, path string, array bool)
	walk = func(p place, path string, array bool) {
		for _, p := range sc.places(p) {
			m, _ := p.v.(map[string]any)
			join := func(name string) string {
				if path == "" {
					return name
				}
				return path + "." + name
			}
			at := reflect.ValueOf(m).Pointer()
			if m == nil || open[at] {
				continue
			}
			open[at] = true
			properties, _ := m["properties"].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(properties)) {
				walk(place{p.doc, properties[name]}, join(schemas.Escape(name)), array)
			}
			if more, ok := m["additionalProperties"].(map[string]any); ok {
				walk(place{p.doc, more}, join("*"), array)
			}
			if items, ok := m["items"].(map[string]any); ok && r == schemas.RoleValue && !array && path != "" && !strings.HasSuffix(path, "*") {
				walk(place{p.doc, items}, path+"[]", true)
			}
			fits := [...][]string{schemas.RoleKey: {"string", "integer"}, schemas.RoleTime: {"number", "integer", "string"},
				schemas.RoleValue: {"number", "integer", "boolean"}, schemas.RoleReadings: {"array"},
				schemas.RoleOperand: {"string", "number", "integer", "boolean"}}[r]
			here := path
			if here == "" {
				here = "@value"
			}
			if slices.ContainsFunc(types(m), func(t string) bool { return slices.Contains(fits, t) }) && len(out) < maxPaths &&
				!slices.Contains(out, here) {
				out = append(out, here)
			}
			delete(open, at)
		}
	}
	sc.left = maxLooks
	walk(sc.root, "", false)
	return out
}
