package json

import (
	"bytes"
	std "encoding/json"
	"strings"

	"odradek/schemas"
)

// Text returns the lines of an indented record, or of the text as it is where that is no JSON.
func Text(_ *schemas.Schema, body []byte) (lines []string, err error) {
	var out bytes.Buffer
	if err = std.Indent(&out, body, "", "  "); err != nil {
		return strings.Split(strings.ToValidUTF8(string(body), "\uFFFD"), "\n"), err
	}
	return strings.Split(out.String(), "\n"), nil
}
