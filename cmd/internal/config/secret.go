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
func (v Secret) Reveal() string { return v.text }

// Current returns what the secret's file holds now; where there is none, or it is empty or cannot be read, Reveal.
func (v Secret) Current() string {
	if v.file == "" {
		return v.text
	}
	if text, err := readSecret(v.file); err == nil && text != "" {
		return text
	}
	return v.text
}

// UnmarshalText takes the text as it is.
func (v *Secret) UnmarshalText(b []byte) error {
	v.text = string(b)
	return nil
}

func (v Secret) String() string {
	if v.text == "" {
		return ""
	}
	return Hidden
}

// Format hides the secret from every verb, %#v and %+v included.
func (v Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, v.String()) }

// MarshalText hides the secret from JSON and its like.
func (v Secret) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// LogValue hides the secret from slog.
func (v Secret) LogValue() slog.Value { return slog.StringValue(v.String()) }

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
