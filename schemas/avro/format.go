package avro

import "odradek/schemas"

// Format makes Avro known to the worker: it is an entry of the table of input formats in package schemas/formats.
var Format = schemas.Format{
	Name: "avro", Type: "AVRO", Title: "Avro",
	Compile: compileBatch,
	Text:    Text,
	Leaves:  leavesOf,
	Fields: func(s *schemas.Schema) (schemas.Fields, error) {
		root, err := parseWithReferences(s)
		if err != nil {
			return nil, err
		}
		return root, nil
	},
}
