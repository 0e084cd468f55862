package formats

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"odradek/schemas"
)

// guessBytes is the number of bytes of a value that a guess reads.
const guessBytes = 64

// looksLike guesses the format of an unreadable value from its first bytes, for the error message: most often the topic
// has another format. It returns "" if no format fits.
func looksLike(value []byte) string {
	switch {
	case bytes.HasPrefix(value, []byte("Obj\x01")):
		return "an Avro container file: send each record by itself"
	case bytes.HasPrefix(value, []byte{0x1f, 0x8b}), bytes.HasPrefix(value, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return "compressed by its producer (gzip or zstd): use the producer's compression.type instead"
	case schemas.IsGlue(value):
		return "the framing of AWS Glue, which a schema file whose first field is a number cannot tell apart: set schema_registry_url"
	}
	head := value[:min(len(value), guessBytes)]
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	like := Like(value)
	switch {
	case len(text) == 0:
		return ""
	case like != "":
		return Title(like) + ", which format=" + like + " reads"
	case beginsJSON(text):
		return "JSON, which format=json reads"
	case text[0] == '<' && printable(head, len(value)):
		return "XML, which is no input format"
	case printable(head, len(value)):
		return "text, which is no input format"
	}
	return ""
}

// beginsJSON reports whether text begins as an object or an array does.
func beginsJSON(text []byte) bool {
	rest := bytes.TrimLeft(text[1:], " \t\r\n")
	switch text[0] {
	case '{':
		return len(rest) == 0 || rest[0] == '"' || rest[0] == '}'
	case '[':
		return len(rest) == 0 || strings.IndexByte(`{["]-0123456789tfn`, rest[0]) >= 0
	}
	return false
}

// printable reports whether the first bytes of a value of size bytes are text of at
// least 4 bytes.
func printable(head []byte, size int) bool {
	if len(head) < 4 {
		return false
	}
	for len(head) > 0 {
		r, n := utf8.DecodeRune(head)
		if r == utf8.RuneError && n == 1 && (size <= guessBytes || len(head) >= utf8.UTFMax) {
			return false // and not a rune that the guess cuts off
		}
		if r < ' ' && r != '\t' && r != '\r' && r != '\n' || r == 0x7f {
			return false
		}
		head = head[n:]
	}
	return true
}
