package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// code returns a C++ source without its comments and blank lines, with each run of spaces as
// one space. Equal results compile to equal code: line ends and literals stay, so directives
// and strings keep their meaning, and names whose value is a line number are errors. So are raw
// strings, since splicing lines would change them.
func code(source []byte) ([]byte, error) {
	// A backslash at the end of a line joins it with the next before comments are found.
	s := scanner{rest: bytes.ReplaceAll(source, []byte("\\\n"), nil)}
	for len(s.rest) > 0 {
		if err := s.next(); err != nil {
			return nil, fmt.Errorf("%w, after %q", err, s.out[max(0, len(s.out)-40):])
		}
	}
	s.endLine()
	return s.out, nil
}

// scanner moves a source's tokens from rest to out.
type scanner struct {
	rest, out []byte
	space     bool // a space or comment precedes the rest on its line
}

// next moves one token, or drops one comment or space.
func (s *scanner) next() error {
	switch c := s.rest[0]; {
	case c == '\n':
		s.endLine()
		s.rest = s.rest[1:]
	case c == ' ', c == '\t', c == '\r', c == '\f', c == '\v':
		s.space = true
		s.rest = s.rest[1:]
	case bytes.HasPrefix(s.rest, []byte("//")):
		s.space = true
		s.rest = s.rest[lengthUntil(s.rest, '\n'):]
	case bytes.HasPrefix(s.rest, []byte("/*")):
		end := bytes.Index(s.rest[2:], []byte("*/"))
		if end < 0 {
			return errors.New("comment without end")
		}
		s.space = true
		s.rest = s.rest[2+end+2:]
	case c == '"', c == '\'':
		return s.literal(c)
	case isLetter(c):
		return s.name()
	case isDigit(c):
		// A number includes its separators: the quote of 1'000 begins no character.
		s.move(lengthWhile(s.rest, func(c byte) bool { return isLetter(c) || isDigit(c) || c == '.' || c == '\'' }))
	default:
		s.move(1)
	}
	return nil
}

// literal moves a string or character with its quotes.
func (s *scanner) literal(quote byte) error {
	for i := 1; i < len(s.rest) && s.rest[i] != '\n'; i++ {
		switch s.rest[i] {
		case '\\':
			i++
		case quote:
			s.move(i + 1)
			return nil
		}
	}
	return fmt.Errorf("%c without end on its line", quote)
}

// name moves an identifier or keyword.
func (s *scanner) name() error {
	n := lengthWhile(s.rest, func(c byte) bool { return isLetter(c) || isDigit(c) })
	switch name := string(s.rest[:n]); name {
	case "__LINE__", "__builtin_LINE", "source_location", "assert":
		return fmt.Errorf("%s depends on line numbers, which the checksum ignores", name)
	case "R", "LR", "uR", "UR", "u8R":
		if bytes.HasPrefix(s.rest[n:], []byte{'"'}) {
			return errors.New("raw string: the scanner does not read these")
		}
	}
	s.move(n)
	return nil
}

// move moves n bytes, after a space if there was any on the line.
func (s *scanner) move(n int) {
	if s.space && len(s.out) > 0 && s.out[len(s.out)-1] != '\n' {
		s.out = append(s.out, ' ')
	}
	s.space = false
	s.out = append(s.out, s.rest[:n]...)
	s.rest = s.rest[n:]
}

// endLine ends a line that has tokens, and drops one without.
func (s *scanner) endLine() {
	s.space = false
	if len(s.out) > 0 && s.out[len(s.out)-1] != '\n' {
		s.out = append(s.out, '\n')
	}
}

func lengthWhile(s []byte, in func(byte) bool) int {
	n := 0
	for n < len(s) && in(s[n]) {
		n++
	}
	return n
}

func lengthUntil(s []byte, end byte) int {
	return lengthWhile(s, func(c byte) bool { return c != end })
}

func isLetter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// hasLineNumbers reports whether a flag makes nvcc write line numbers into the code.
func hasLineNumbers(flag string) bool {
	switch strings.TrimLeft(flag, "-") {
	case "lineinfo", "generate-line-info", "G", "device-debug", "g", "debug":
		return true
	}
	return false
}
