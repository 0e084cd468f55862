package config

import (
	"os"
	"strings"
)

const hidden = Hidden

// fileSuffix ends the name of the variable with a secret's file.
const fileSuffix = "_FILE"

// Secret is a value that no formatting prints.
type Secret = Value

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
