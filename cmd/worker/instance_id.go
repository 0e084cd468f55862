package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// This file gives a worker an instance id that it gets again after a restart, from a folder that outlives it.

// mostWorkers bounds the workers of a group that share a folder.
const mostWorkers = 1024

// claimInstanceID returns an id that no other worker of the group has while release is not called and the process lives.
// Workers that share the folder, also in several containers on a host, each hold the lock of a file there, and a
// worker that starts takes the first file that is free: after a crash its own, if the others run. The system frees the lock
// with the process, however that ends.
func claimInstanceID(dir, group string) (id string, release func(), err error) {
	sum := sha256.Sum256([]byte(group))
	for n := range mostWorkers {
		name := filepath.Join(dir, "instance-"+hex.EncodeToString(sum[:4])+"-"+strconv.Itoa(n))
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return "", nil, fmt.Errorf("instance: %w", err)
		}
		free, err := lock(f)
		if err != nil {
			f.Close()
			return "", nil, fmt.Errorf("instance: lock %s: %w", name, err)
		}
		if !free {
			f.Close()
			continue
		}
		if id, err = identify(f, n); err != nil {
			f.Close()
			return "", nil, fmt.Errorf("instance: %w", err)
		}
		return id, func() { f.Close() }, nil
	}
	return "", nil, fmt.Errorf("instance: %d workers of group %q hold the files in %s", mostWorkers, group, dir)
}

var valid = regexp.MustCompile(`^[0-9]+-[0-9a-f]{16}$`)

// identify returns the id in the file, or writes one where a worker has never got so far.
func identify(f *os.File, n int) (string, error) {
	b := make([]byte, 64)
	size, _ := f.ReadAt(b, 0) // io.EOF after the id
	if id := string(b[:size]); valid.MatchString(id) {
		return id, nil
	}
	var random [8]byte
	rand.Read(random[:]) // never fails
	id := strconv.Itoa(n) + "-" + hex.EncodeToString(random[:])
	if err := f.Truncate(0); err != nil {
		return "", err
	}
	if _, err := f.WriteAt([]byte(id), 0); err != nil {
		return "", err
	}
	return id, f.Sync()
}
