//go:build ignore

// Command provenance prints, for scripts/release.sh, what the files of a release are made of: an in-toto statement, version 1, with a
// predicate of SLSA provenance, version 1 (https://slsa.dev/spec/v1.0/provenance). It is not signed and has no builder that others vouch
// for. Who builds the same commit with the same Go has the same bytes, which is what can be checked.
//
//	provenance -version V -commit C FOLDER
//
// The subjects are the folder's files. A commit that ends in -dirty had changes and is not named as the source.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

type object = map[string]any

// resource is a ResourceDescriptor of in-toto.
type resource struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

func main() {
	version := flag.String("version", "", "the release")
	commit := flag.String("commit", "", "the commit in full, with -dirty behind it where files are changed")
	flag.Parse()
	if *version == "" || *commit == "" || flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := write(*version, *commit, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "provenance:", err)
		os.Exit(1)
	}
}

func write(version, commit, folder string) error {
	entries, err := os.ReadDir(folder) // sorted by name
	if err != nil {
		return err
	}
	var subjects []resource
	for _, e := range entries {
		r, err := hashed(e.Name(), filepath.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		subjects = append(subjects, r)
	}
	modules, err := hashed("go.sum", "go.sum")
	if err != nil {
		return err
	}
	sources := []resource{modules}
	if !strings.HasSuffix(commit, "-dirty") {
		sources = append(sources, resource{Name: "source", Digest: map[string]string{"gitCommit": commit}})
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	return out.Encode(object{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": object{
			"buildDefinition": object{
				"buildType":            "urn:odradek:scripts/release.sh",
				"externalParameters":   object{"commit": commit, "version": version},
				"internalParameters":   object{"go": runtime.Version()},
				"resolvedDependencies": sources,
			},
			"runDetails": object{"builder": object{"id": "urn:odradek:unsigned"}},
		},
	})
}

func hashed(name, path string) (resource, error) {
	content, err := os.ReadFile(path)
	sum := sha256.Sum256(content)
	return resource{Name: name, Digest: map[string]string{"sha256": hex.EncodeToString(sum[:])}}, err
}
