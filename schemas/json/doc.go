// Package json reads the mapped fields of JSON records: plain ones, and those after a
// schema id, whose JSON Schema lists the fields.
//
// A record is first checked as a whole by encoding/json, then the mapped paths are followed
// through its bytes (walk.go), which need no further checks. Other fields are skipped, and
// nothing is allocated unless a name or a key is written with escapes.
//
// # What a record means
//
//   - Values are read by path alone: a JSON Schema serves to check the mapping; records
//     are not validated against it.
//   - A number is a number, true and false are 1 and 0. null and a field that is not there
//     are a missing value; a record with none of the mapped fields is a missing_field, since
//     a misspelled path would otherwise go unnoticed. A string is a bad_type, even "1.5", unless
//     the mapping reads texts as numbers.
//   - A text of Kafka Connect's Decimal, in base64, is a number where the record has its schema in front, or the mapping has
//     its scale; an object of a scale and a value in base64 alone, Debezium's VariableScaleDecimal, is one by itself.
//   - A number beyond float64 is an infinite_value. NaN and Infinity, which some writers
//     produce, are no JSON: malformed.
//   - A key is a string or a whole number; a time is a number in the mapping's unit or a
//     string in RFC 3339.
//   - A mapped field that comes twice in an object is malformed; other fields are not
//     compared.
package json
