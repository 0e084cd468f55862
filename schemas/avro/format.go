package avro

import (
	"odradek/schemas"
)

// avroFormat is the row of this format.
var Format = schemas.Format{
	Name: "avro", Type: "AVRO",
	Compile: func(l *schemas.Layout, s *schemas.Schema) schemas.Program { return compile(l, s) },
	Check:   Check,
}
