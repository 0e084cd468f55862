package avro

import (
	"errors"
	"fmt"

	"odradek/schemas"
)

// status says how reading bytes ended; everything but statusOK means that the
// bytes do not fit the schema, and nothing after that position can be read.
type status uint8

const (
	statusOK status = iota
	statusTruncated
	statusOverflow  // a number of more bits than its type has
	statusNegative  // a negative length
	statusIndex     // union or enum index out of range, boolean neither 0 nor 1
	statusDeep      // recursion
	statusCount     // a count of items that take no bytes
	statusBlock     // items end elsewhere than their block's size says
	statusDuplicate // a map has the wanted key twice
)

var statusErrors = [...]struct {
	class string
	err   error
}{
	statusTruncated: {schemas.ClassTruncated, errors.New("the record ends too early")},
	statusOverflow:  {schemas.ClassMalformed, errors.New("a number has more bits than its type")},
	statusNegative:  {schemas.ClassMalformed, errors.New("a length is negative")},
	statusIndex:     {schemas.ClassMalformed, errors.New("an index is out of range")},
	statusDeep:      {schemas.ClassTooLarge, fmt.Errorf("values nested deeper than %d", maxDepth)},
	statusCount:     {schemas.ClassTooLarge, fmt.Errorf("more than %d items that take no bytes", maxEmptyItems)},
	statusBlock:     {schemas.ClassMalformed, errors.New("a block's items do not fill its size")},
	statusDuplicate: {schemas.ClassMalformed, errors.New("a map has the key twice")},
}

// Limits of a record.
const (
	maxDepth      = 64      // nested values of a recursive schema
	maxEmptyItems = 1 << 16 // items that take no bytes, as in an array of nulls
)
