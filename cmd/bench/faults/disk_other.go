//go:build !linux

package faults

import "errors"

// disk is a file system in memory that can be filled; there is none here.
type disk struct{ dir string }

var errNoDisk = errors.New("faults: only Linux has disks in memory")

func mountDisk(string, int) (*disk, error) { return nil, errNoDisk }

func (*disk) free() {}

func fill(string) error { return errNoDisk }
