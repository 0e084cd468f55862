package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// sumsFile is SHA256SUMS. It has a block for each fatbin: a title with its name, its checksum, and the
// checksums of the code (see code) of all sources that it was built from, as of that build. A header is
// in the block of each fatbin that includes it, so changed code in a header makes all of them stale
// until each is rebuilt; changed comments make none stale. sha256sum -c checks the fatbins, and skips
// titles and sources as comments.
const sumsFile = "SHA256SUMS"

// line is a file and its checksum: of its bytes if a fatbin, of its code if a source.
type line struct{ name, sum string }

// readSums returns the blocks of SHA256SUMS by the name of the fatbin without its ending.
func readSums(dir string) (map[string][]line, error) {
	text, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	blocks, name := map[string][]line{}, ""
	for l := range strings.Lines(string(text)) {
		l = strings.TrimPrefix(strings.TrimSpace(l), "# ")
		if title, ok := strings.CutSuffix(l, ".fatbin"); ok && !strings.Contains(title, " ") {
			name = title
			continue
		}
		sum, file, ok := strings.Cut(l, "  ")
		if !ok || name == "" {
			return nil, fmt.Errorf("%s: %q is in no fatbin's block", sumsFile, l)
		}
		blocks[name] = append(blocks[name], line{file, sum})
	}
	return blocks, nil
}

// fatbin is the name of a fatbin, without its ending, and its present sources with their
// checksums.
type fatbin struct {
	name    string
	sources []line
}

// newFatbin finds the sources of a fatbin.
func newFatbin(dir, name string) (f fatbin, err error) {
	sources := []string{name + ".cu"}
	if err := includes(dir, name+".cu", &sources); err != nil {
		return f, err
	}
	slices.Sort(sources)
	f.name = name
	for _, s := range sources {
		text, err := os.ReadFile(filepath.Join(dir, s))
		if err != nil {
			return f, err
		}
		c, err := code(text)
		if err != nil {
			return f, fmt.Errorf("%s: %w", s, err)
		}
		sum := fmt.Sprintf("%x", sha256.Sum256(c))
		f.sources = append(f.sources, line{s, sum})
	}
	return f, nil
}

// block returns the fatbin's block; the checksum of a missing fatbin is empty.
func (f *fatbin) block(dir string) ([]line, error) {
	name, sum := f.name+".fatbin", ""
	switch b, err := os.ReadFile(filepath.Join(dir, name)); {
	case err == nil:
		sum = fmt.Sprintf("%x", sha256.Sum256(b))
	case !os.IsNotExist(err):
		return nil, err
	}
	return append([]line{{name, sum}}, f.sources...), nil
}

var include = regexp.MustCompile(`(?m)^\s*#\s*include\s*"([^"/]+)"`)

// includes adds to found the headers that a source includes, directly or indirectly, except
// those in subfolders: these belong to the emulator, and nvcc does not read them.
func includes(dir, source string, found *[]string) error {
	text, err := os.ReadFile(filepath.Join(dir, source))
	if err != nil {
		return err
	}
	for _, m := range include.FindAllSubmatch(text, -1) {
		if header := string(m[1]); !slices.Contains(*found, header) {
			*found = append(*found, header)
			if err := includes(dir, header, found); err != nil {
				return fmt.Errorf("%s: %w", source, err)
			}
		}
	}
	return nil
}

// kernelFiles returns the names of the files with an ending, without it.
func kernelFiles(dir, ending string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(dir, "*"+ending))
	for i := range found {
		found[i] = strings.TrimSuffix(filepath.Base(found[i]), ending)
	}
	return found, err
}

// staleFatbins returns the fatbins that are missing, differ from SHA256SUMS, or were built
// from sources with other code than the present ones.
func staleFatbins(dir string) (stale []fatbin, err error) {
	names, err := kernelFiles(dir, ".cu")
	if err != nil {
		return nil, err
	}
	blocks, err := readSums(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		f, err := newFatbin(dir, name)
		if err != nil {
			return nil, err
		}
		block, err := f.block(dir)
		if err != nil {
			return nil, err
		}
		if !slices.Equal(blocks[name], block) {
			stale = append(stale, f)
		}
	}
	return stale, nil
}

// orphans returns the fatbins without a source.
func orphans(dir string) ([]string, error) {
	names, err := kernelFiles(dir, ".fatbin")
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(names, func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name+".cu"))
		return err == nil
	}), nil
}

// removeOrphans removes the fatbins without a source.
func removeOrphans(dir string) error {
	names, err := orphans(dir)
	for _, name := range names {
		if err := os.Remove(filepath.Join(dir, name+".fatbin")); err != nil {
			return err
		}
	}
	return err
}

// writeSums writes SHA256SUMS: new blocks for the fatbins that were built just now, with
// their sources as read before the build; the other blocks stay as they are.
func writeSums(dir string, built []fatbin) error {
	names, err := kernelFiles(dir, ".cu")
	if err != nil {
		return err
	}
	blocks, err := readSums(dir)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, name := range names {
		block := blocks[name]
		if i := slices.IndexFunc(built, func(f fatbin) bool { return f.name == name }); i >= 0 {
			if block, err = built[i].block(dir); err != nil {
				return err
			}
		}
		fmt.Fprintf(&text, "# %s.fatbin\n", name)
		for _, l := range block {
			if !strings.HasSuffix(l.name, ".fatbin") {
				text.WriteString("# ")
			}
			fmt.Fprintf(&text, "%s  %s\n", l.sum, l.name)
		}
	}
	return os.WriteFile(filepath.Join(dir, sumsFile), text.Bytes(), 0o644)
}
