package config

import (
	"os"
	"strings"
)

// fileSuffix ends the name of the variable with a secret's file.
const fileSuffix = "_FILE"

// readSecret returns the content of a file less the newline that editors and `kubectl create secret` leave at the end.
func readSecret(path string) (string, error) {
	b, err := os.ReadFile(path)
	return strings.TrimRight(string(b), "\r\n"), err
}

// readSecretFiles puts the content of each <NAME>_FILE into vars under NAME.
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
		text, err := readSecret(path)
		if err != nil {
			faults = append(faults, Fault{Name: s.name + fileSuffix, Problem: err.Error(), Fix: "name a file that the worker may read"})
			continue
		}
		if text == "" {
			faults = append(faults, Fault{Name: s.name + fileSuffix, Problem: path + " is empty"})
		}
		vars[s.name] = text
	}
	return faults
}
