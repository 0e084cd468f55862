package page

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
)

//go:generate go test -run TestOpenAPI -update .

// OpenAPI returns the description of the JSON API in OpenAPI 3.1. It is made of the routes and of the types of their
// bodies and answers, whose fields have their meaning in the tag doc.
func OpenAPI() []byte {
	d := &document{schemas: map[string]any{}}
	paths := map[string]map[string]any{}
	fault := d.answer("The request failed.", Fault{})
	for i := range routes {
		t := &routes[i]
		operation := map[string]any{"summary": t.summary, "operationId": operationID(t), "responses": map[string]any{
			"200": d.answer("The answer.", t.result), "default": fault,
		}}
		parameters := []any{}
		for _, m := range pathParameter.FindAllStringSubmatch(t.path, -1) {
			parameters = append(parameters, map[string]any{"name": m[1], "in": "path", "required": true,
				"schema": map[string]any{"type": "string"}})
		}
		for _, p := range t.parameters {
			parameter := map[string]any{"name": p.name, "in": "query", "description": p.doc, "schema": json.RawMessage(p.schema)}
			if strings.HasSuffix(p.doc, "Required.") {
				parameter["required"] = true
			}
			parameters = append(parameters, parameter)
		}
		if len(parameters) > 0 {
			operation["parameters"] = parameters
		}
		if t.body != nil {
			operation["requestBody"] = map[string]any{"required": true,
				"content": map[string]any{"application/json": map[string]any{"schema": d.schema(reflect.TypeOf(t.body))}}}
		}
		if paths[t.path] == nil {
			paths[t.path] = map[string]any{}
		}
		paths[t.path][strings.ToLower(t.method)] = operation
	}
	b, err := json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{"title": "Odradek worker", "version": "1",
			"description": "What a worker answers on ODRADEK_PAGE_ADDR. Any worker answers for the anomalies, series and feedback of the whole " +
				"group, " +
				"and for its own partitions. With ODRADEK_PAGE_TOKEN a request needs the token; feedback is written with a token or a client " +
				"certificate only."},
		"security":   []any{map[string]any{}, map[string]any{"token": []any{}}, map[string]any{"certificate": []any{}}},
		"paths":      paths,
		"components": map[string]any{"schemas": d.schemas, "securitySchemes": securitySchemes},
	}, "", "  ")
	if err != nil {
		panic(err) // maps, slices and texts
	}
	return append(b, '\n')
}

var securitySchemes = map[string]any{
	"token":       map[string]any{"type": "http", "scheme": "bearer", "description": "ODRADEK_PAGE_TOKEN"},
	"certificate": map[string]any{"type": "mutualTLS", "description": "ODRADEK_PAGE_TLS_CLIENT_CA_FILE"},
}

var pathParameter = regexp.MustCompile(`\{([a-z]+)\}`)

// operationID returns the operation's name: getAnomalies, getAnomaliesId.
func operationID(t *route) string {
	id := strings.ToLower(t.method)
	for _, word := range strings.FieldsFunc(t.path, func(r rune) bool { return strings.ContainsRune("/{}.", r) }) {
		id += strings.ToUpper(word[:1]) + word[1:]
	}
	return id
}

// document collects the schemas of types.
type document struct{ schemas map[string]any }

func (d *document) answer(what string, v any) map[string]any {
	return map[string]any{"description": what,
		"content": map[string]any{"application/json": map[string]any{"schema": d.schema(reflect.TypeOf(v))}}}
}

// schema returns the schema of a type; of a struct, a reference to it.
func (d *document) schema(t reflect.Type) map[string]any {
	switch t {
	case reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case reflect.TypeFor[Number]():
		return map[string]any{"type": []string{"number", "null"}}
	case reflect.TypeFor[Duration]():
		return map[string]any{"type": "number", "description": "Seconds."}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.schema(t.Elem())
	case reflect.Slice, reflect.Array:
		return map[string]any{"type": "array", "items": d.schema(t.Elem())}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Struct:
		d.add(t)
		return map[string]any{"$ref": "#/components/schemas/" + t.Name()}
	}
	return map[string]any{"type": "integer"}
}

// add describes a struct, once.
func (d *document) add(t reflect.Type) {
	if d.schemas[t.Name()] != nil {
		return
	}
	properties, required := map[string]any{}, []string{}
	d.schemas[t.Name()] = map[string]any{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		property := d.schema(f.Type)
		property["description"] = f.Tag.Get("doc")
		properties[name] = property
		if options == "" {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	d.schemas[t.Name()] = map[string]any{"type": "object", "properties": properties, "required": required}
}
