package config

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
)

// hidden replaces a secret wherever it would be printed.
const hidden = "(hidden)"

// fileSuffix ends the name of the variable with a secret's file.
const fileSuffix = "_FILE"

// Secret is a value that no formatting prints. Code that has to send it calls Reveal.
type Secret struct{ value string }

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return s.value }

// UnmarshalText takes the text as it is.
func (s *Secret) UnmarshalText(b []byte) error {
	s.value = string(b)
	return nil
}

func (s Secret) String() string {
	if s.value == "" {
		return ""
	}
	return hidden
}

// Format hides the secret from every verb, %#v and %+v included.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// MarshalText hides the secret from JSON and its like.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue hides the secret from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// readSecretFiles puts the content of each <NAME>_FILE into vars under NAME,
// less the newline that editors and `kubectl create secret` leave at the end.
func readSecretFiles(list []setting, vars map[string]string) (faults []Fault) {
	for _, s := range list {
		path := vars[s.name+fileSuffix]
		if !s.secret || path == "" {
			continue
		}
		if vars[s.name] != "" {
			faults = append(faults, Fault{Name: s.name, Problem: "set both by value and by " + s.name + fileSuffix, Fix: "keep one of them"})
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			faults = append(faults, Fault{Name: s.name + fileSuffix, Problem: err.Error(), Fix: "name a file that the worker may read"})
			continue
		}
		text := strings.TrimRight(string(b), "\r\n")
		if text == "" {
			faults = append(faults, Fault{Name: s.name + fileSuffix, Problem: path + " is empty"})
		}
		vars[s.name] = text
	}
	return faults
}

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
		parts[i] = p[:scheme+len("://")] + hidden + p[at:]
	}
	return strings.Join(parts, ",")
}
