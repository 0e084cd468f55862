package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"odradek/processor/state/changelog"
)

var update = flag.Bool("update", false, "write the fixture of the stored format anew")

// storedFixture is a changelog in the format that a version wrote, and the state that it holds, as Export has it.
type storedFixture struct {
	Log   []storedRecord
	State []byte
}

type storedRecord struct{ Key, Value []byte }

// TestStoredFormat: the format of the changelog is what testdata/format-VERSION.json has. If it changes, its number does
// (changelog.Version), and the fixture of the new one is written with -update; fixtures of earlier ones stay, and are read as
// they were, or refused as an older version's. A flag more, with what it announces, keeps the number: a build that does not know the flag
// refuses it, and the fixture of before stays as format-VERSION-1.json and so on.
func TestStoredFormat(t *testing.T) {
	const n = 400
	s, log := saved(t, fuzzConfig(), n)
	var now storedFixture
	for _, r := range compact(log, log, false) {
		now.Log = append(now.Log, storedRecord{r.key, r.value})
	}
	slices.SortFunc(now.Log, func(a, b storedRecord) int { return bytes.Compare(a.Key, b.Key) })
	now.State = s.Export(nil)
	text, err := json.Marshal(now)
	if err != nil {
		t.Fatal(err)
	}
	present := fmt.Sprintf("testdata/format-%d.json", changelog.Version)
	if *update {
		if err := os.WriteFile(present, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	switch want, err := os.ReadFile(present); {
	case err != nil:
		t.Errorf("the stored format has number %d, and %s is missing: write it with -update, keep the files of earlier numbers, make "+
			"processor/testdata/stored-%d.json (TestStoredState), and say in CHANGELOG.md what becomes of stored state: %v",
			changelog.Version, present, changelog.Version, err)
	case !bytes.Equal(want, text):
		t.Errorf("what is written differs from %s: workers of both builds would take it for one format. Raise changelog.Version, or for a "+
			"flag more keep that file under its name and -1, and write it anew with -update", present)
	}
	files, err := filepath.Glob("testdata/format-*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var was storedFixture
		if err := json.Unmarshal(text, &was); err != nil {
			t.Fatal(file, err)
		}
		log = log[:0]
		for _, r := range was.Log {
			log = append(log, record{r.Key, r.Value})
		}
		s, err := loaded(fuzzConfig(), log, n)
		if errors.Is(err, changelog.ErrOlder) && file != present {
			continue
		}
		if err != nil || !bytes.Equal(s.Export(nil), was.State) {
			t.Errorf("%s is not read as the state that it was: %v", file, err)
		}
	}
}
