package config

import (
	"fmt"
	"log/slog"
	"strings"
)

// This file keeps passwords and tokens out of everything that is printed.

// Hidden replaces a secret wherever it would be printed.
const Hidden = "(hidden)"

// Secret is a text that no formatting prints. Code that has to send it calls Reveal, or Current.
type Secret struct{ text, file string }

// Reveal returns the secret itself, as it was at the start.
func (s Secret) Reveal() string { return s.text }

// Current returns what the secret's file holds now; where there is none, or it is empty or cannot be read, Reveal.
func (s Secret) Current() string {
	if s.file == "" {
		return s.text
	}
	if text, err := readSecret(s.file); err == nil && text != "" {
		return text
	}
	return s.text
}

// UnmarshalText takes the text as it is.
func (s *Secret) UnmarshalText(b []byte) error {
	s.text = string(b)
	return nil
}

func (s Secret) String() string {
	if s.text == "" {
		return ""
	}
	return Hidden
}

// Format hides the secret from every verb, %#v and %+v included.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// MarshalText hides the secret from JSON and its like.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the secret from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// RedactURLs returns a comma-separated list of URLs with each user and password hidden.
func RedactURLs(list string) string {
	parts := strings.Split(list, ",")
	for i, p := range parts {
		at := strings.LastIndexByte(p, '@')
		if at < 0 {
			continue
		}
		scheme := strings.Index(p, "://")
		if scheme < 0 || scheme > at {
			scheme = -len("://")
		}
		parts[i] = p[:scheme+len("://")] + Hidden + p[at:]
	}
	return strings.Join(parts, ",")
}
