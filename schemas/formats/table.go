package formats

import (
	"fmt"
	"strings"

	"odradek/schemas"
	"odradek/schemas/avro"
	"odradek/schemas/influx"
	"odradek/schemas/json"
	"odradek/schemas/otlp"
	"odradek/schemas/protobuf"
)

// table lists all input formats.
var table = []*schemas.Format{
	&avro.Format,
	&json.Format,
	&protobuf.Format,
	&influx.Format,
	&otlp.Format,
}

// Auto is the name that stands for the format of each record's schema in the registry.
const Auto = "auto"

// Names lists the values of the setting FORMAT, Auto first.
func Names() []string {
	names := []string{Auto}
	for _, f := range table {
		names = append(names, f.Name)
	}
	return names
}

// named returns the format of a name; nil for Auto and "". The caller has checked the name.
func named(name string) *schemas.Format {
	for _, f := range table {
		if f.Name == name {
			return f
		}
	}
	return nil
}

// Plain reports whether records of a format need neither a registry nor a schema.
func Plain(name string) bool {
	f := named(name)
	return f != nil && f.Plain
}

// Fixed reports whether a mapping for records of a format can be checked without a schema (CheckFile of "").
func Fixed(name string) bool {
	f := named(name)
	return f != nil && f.Fixed
}

// Lacking reports whether a part of the key that a record of a format lacks is empty.
func Lacking(name string) bool {
	f := named(name)
	return f != nil && f.Lacking
}

// Title returns the name of a format for messages.
func Title(name string) string { return named(name).Title }

// Like returns the name of the format that a value without framing is probably of, by that format itself; "" if no format says so.
func Like(value []byte) string {
	for _, f := range table {
		if f.Like != nil && f.Like(value) {
			return f.Name
		}
	}
	return ""
}

// formatOf returns the format that reads the records of a schema, given the configured format's
// name (Auto: any).
func formatOf(name string, schema *schemas.Schema) (*schemas.Format, error) {
	var titles []string
	for _, f := range table {
		if name != "" && name != Auto && f.Name != name {
			continue
		}
		if f.Type == schema.Type || schema.Type == "" && f == table[0] {
			return f, nil
		}
		titles = append(titles, f.Title)
	}
	err := fmt.Errorf("the schema is %s, and only %s is read", schema.Type, strings.Join(titles, ", "))
	for _, f := range table {
		if f.Type == schema.Type {
			err = fmt.Errorf("%w: set format=%s or format=%s", err, Auto, f.Name)
		}
	}
	return nil, err
}

// local returns the schema of a file, of the configured format; Avro without one.
func local(name, text string) *schemas.Schema {
	f := named(name)
	if f == nil {
		f = table[0]
	}
	return &schemas.Schema{ID: -1, Type: f.Type, Text: text}
}

// Check reports the faults of a mapping for records of a schema, given the configured
// format's name; see schemas.Format.Check.
func Check(name string, m schemas.Mapping, schema *schemas.Schema) []error {
	f, err := formatOf(name, schema)
	if err != nil {
		return []error{fmt.Errorf("formats: %w", err)}
	}
	return f.Check(m, schema)
}

// CheckFile is Check for the text of a schema file.
func CheckFile(name string, m schemas.Mapping, text string) []error {
	return Check(name, m, local(name, text))
}
