package schemas

// avroFormat is the row of this format.
var avroFormat = Format{
	Name: "avro", Type: "AVRO",
	Compile: func(l *layout, s *Schema) Program { return compile(l, s) },
	Check:   Check,
}
