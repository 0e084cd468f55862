package avro

import "odradek/schemas"

// Format is the row of Avro in the table of formats.
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
