package influx

import (
	"bytes"
	"fmt"
	"strings"
)

// scan splits a record into lines and tokens. Its methods are called in the order of a line: next, measurement, tag and field
// until they return false, timestamp.
type scan struct {
	b    []byte
	pos  int
	line int // number of the line at pos, from 1
	err  error
}

// token is a name or a text as it is written.
type token struct {
	raw     []byte
	escaped bool
}

// stops has the bytes that end a token, by kind.
type stops [256]bool

var (
	nameStops  = stopsOf(", ") // of a measurement
	tagStops   = stopsOf(",= ")
	valueStops = stops{',': true, ' ': true, '\r': true, '\n': true}
)

func stopsOf(text string) (s stops) {
	for c := range 0x20 {
		s[c] = true // control characters
	}
	s[0x7f] = true
	for i := range len(text) {
		s[text[i]] = true
	}
	return s
}

// fail notes the first fault of a line, at pos.
func (s *scan) fail(text string) {
	if s.err == nil {
		s.err = fmt.Errorf("line %d, byte %d: %s", s.line, s.pos-bytes.LastIndexByte(s.b[:s.pos], '\n'), text)
	}
}

// at reports whether c is at pos.
func (s *scan) at(c byte) bool { return s.pos < len(s.b) && s.b[s.pos] == c }

func (s *scan) spaces() {
	for s.at(' ') {
		s.pos++
	}
}

// eol passes over the end of a line, which the end of the record is, too.
func (s *scan) eol() bool {
	rest := s.b[s.pos:]
	switch {
	case len(rest) == 0:
	case rest[0] == '\n':
		s.pos++
		s.line++
	case rest[0] == '\r' && len(rest) == 1:
		s.pos++
	case rest[0] == '\r' && rest[1] == '\n':
		s.pos += 2
		s.line++
	default:
		return false
	}
	return true
}

// next goes to the next line, over comments and empty lines. It returns false at the end of the record.
func (s *scan) next() bool {
	for {
		s.spaces()
		switch {
		case s.pos == len(s.b):
			return false
		case s.b[s.pos] == '#':
			n := bytes.IndexByte(s.b[s.pos:], '\n')
			if n < 0 {
				n = len(s.b) - s.pos
			}
			s.pos += n
		case !s.eol():
			return true
		}
	}
}

// token reads a token up to one of the stops. A backslash before one of escapes makes that a part of the token.
func (s *scan) token(until *stops, escapes string) (t token) {
	b, i := s.b, s.pos
	for i < len(b) {
		c := b[i]
		if until[c] {
			break
		}
		if i++; c == '\\' && i < len(b) && strings.IndexByte(escapes, b[i]) >= 0 {
			t.escaped = true
			i++
		}
	}
	t.raw, s.pos = b[s.pos:i:i], i
	return t
}

const (
	nameEscapes = ", "
	tagEscapes  = ",= "
)

// text returns a token without its escapes.
func (t *token) text(escapes string) []byte {
	if !t.escaped {
		return t.raw
	}
	out := make([]byte, 0, len(t.raw))
	for i := 0; i < len(t.raw); i++ {
		if t.raw[i] == '\\' && i+1 < len(t.raw) && strings.IndexByte(escapes, t.raw[i+1]) >= 0 {
			i++
		}
		out = append(out, t.raw[i])
	}
	return out
}

func (s *scan) measurement() token {
	t := s.token(&nameStops, nameEscapes)
	if len(t.raw) == 0 {
		s.fail("there is no measurement")
	}
	return t
}

// tag reads the next tag; ok is false after the last one.
func (s *scan) tag() (name, value token, ok bool) {
	if s.err != nil || !s.at(',') {
		if !s.at(' ') {
			s.fail("a space and a field are expected")
		}
		s.spaces()
		return name, value, false
	}
	s.pos++
	if name = s.token(&tagStops, tagEscapes); len(name.raw) == 0 || !s.at('=') {
		s.fail("a tag is expected, as host=web-1")
		return name, value, false
	}
	s.pos++
	if value = s.token(&tagStops, tagEscapes); len(value.raw) == 0 {
		s.fail("the tag has no value")
		return name, value, false
	}
	return name, value, true
}

// field reads the next field; more is false after the last one. The value is as it is written.
func (s *scan) field() (name token, value []byte, more bool) {
	if s.err != nil {
		return name, nil, false
	}
	if name = s.token(&tagStops, tagEscapes); len(name.raw) == 0 || !s.at('=') {
		s.fail("a field is expected, as usage=1.5")
		return name, nil, false
	}
	s.pos++
	switch start := s.pos; {
	case s.at('"'):
		s.quoted()
		value = s.b[start:s.pos]
	default:
		value = s.token(&valueStops, "").raw
		if len(value) == 0 || strings.IndexByte("tTfF-.0123456789", value[0]) < 0 {
			s.pos = start
			s.fail("the field has no value of a known type")
			return name, nil, false
		}
	}
	if s.err != nil {
		return name, nil, false
	}
	if s.at(',') {
		s.pos++
		return name, value, true
	}
	if s.pos < len(s.b) && !s.at(' ') && !s.at('\r') && !s.at('\n') {
		s.fail("a comma or a space is expected after the text")
	}
	return name, value, false
}

// quoted passes over a text in quotes.
func (s *scan) quoted() {
	start, line := s.pos, s.line
	for s.pos++; s.pos < len(s.b); s.pos++ {
		switch s.b[s.pos] {
		case '"':
			s.pos++
			return
		case '\\':
			if s.pos+1 < len(s.b) && (s.b[s.pos+1] == '"' || s.b[s.pos+1] == '\\') {
				s.pos++
			}
		case '\n':
			s.line++
		}
	}
	s.pos, s.line = start, line
	s.fail("the text has no closing quote")
}

// timestamp reads the time of a line and the line's end; nil without one.
func (s *scan) timestamp() []byte {
	if s.err != nil {
		return nil
	}
	s.spaces()
	start := s.pos
	for s.pos < len(s.b) && (s.b[s.pos] >= '0' && s.b[s.pos] <= '9' || s.b[s.pos] == '-') {
		s.pos++
	}
	text := s.b[start:s.pos]
	s.spaces()
	if !s.eol() {
		s.fail("a timestamp and the end of the line are expected")
	}
	return text
}
