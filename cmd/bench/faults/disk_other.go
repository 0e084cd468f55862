//go:build !linux

package faults

import "errors"

// disk is a file system in memory with the data of a node; there is none here.
type disk struct {
	node int
	dir  string
}

var errNoDisk = errors.New("faults: only Linux has disks in memory")

func smallDisk(string, int) (*disk, error) { return nil, errNoDisk }

func (*disk) free() {}

func fill(string) error { return errNoDisk }
