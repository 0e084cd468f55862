package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// diskCache stores the answers of a registry in one directory, a file each, so
// that a restart in an outage still has the schemas. Schemas never
// change, so files are never updated, and nothing is lost if they are deleted.
//
// A file has "odradek schema 1", the CRC-32C of the content in hexadecimal, and the
// content, on a line each. It is written under another name and renamed; a file
// that was written in part nevertheless does not match its CRC and counts as absent.
type diskCache struct{ dir string }

const (
	diskHeader  = "odradek schema 1\n"
	maxDiskFile = maxAnswerBytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openDiskCache opens the part of dir that belongs to the registry at these
// addresses, since ids of one registry mean nothing in another. For a folder that can be read but not
// written it returns a cache and an error.
func openDiskCache(dir string, urls []*url.URL) (*diskCache, error) {
	var texts []string
	for _, u := range urls {
		plain := *u
		plain.User = nil
		texts = append(texts, strings.ToLower(plain.String()))
	}
	slices.Sort(texts)
	sum := sha256.Sum256([]byte(strings.Join(texts, "\n")))
	c := &diskCache{filepath.Join(dir, "registry-"+hex.EncodeToString(sum[:8]))}
	const setting = "registry: schema_registry_cache_dir"
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return nil, fmt.Errorf("%s: schemas cannot be cached, so a start needs the registry: %w", setting, err)
	}
	if err := c.put("probe", nil); err != nil {
		return c, fmt.Errorf("%s: new schemas cannot be cached, so a start that needs one needs the registry: %w", setting, err)
	}
	return c, nil
}

func (c *diskCache) path(name string) string { return filepath.Join(c.dir, name) }

func (c *diskCache) get(name string) ([]byte, bool) {
	if info, err := os.Stat(c.path(name)); err != nil || info.Size() > maxDiskFile {
		return nil, false
	}
	b, err := os.ReadFile(c.path(name))
	if err != nil {
		return nil, false
	}
	return openDiskFile(b)
}

// openDiskFile checks a file and returns its content.
func openDiskFile(b []byte) ([]byte, bool) {
	rest, ok := bytes.CutPrefix(b, []byte(diskHeader))
	if !ok || len(rest) < 9 || rest[8] != '\n' {
		return nil, false
	}
	sum, body := rest[:8], rest[9:]
	return body, string(sum) == fmt.Sprintf("%08x", crc32.Checksum(body, castagnoli))
}

// put writes a file. An error affects a later start alone.
func (c *diskCache) put(name string, body []byte) error {
	f, err := os.CreateTemp(c.dir, ".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // fails once it is renamed
	_, err = fmt.Fprintf(f, "%s%08x\n%s", diskHeader, crc32.Checksum(body, castagnoli), body)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), c.path(name))
	}
	return err
}
