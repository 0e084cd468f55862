package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// disk is a file system in memory with the data of a node.
type disk struct {
	node int // its place
	dir  string
}

// diskBytes is the size of such a disk: what a node writes in a round, several times.
const diskBytes = 3 << 29

// smallDisk mounts one for the last node of a cluster that keeps its data in a folder; only root can.
func smallDisk(dir string, nodes int) (*disk, error) {
	d := &disk{node: nodes - 1, dir: filepath.Join(dir, fmt.Sprintf("node-%d", nodes), "data")}
	if err := os.MkdirAll(d.dir, 0o755); err != nil {
		return nil, err
	}
	if err := syscall.Mount("tmpfs", d.dir, "tmpfs", 0, fmt.Sprintf("size=%d", diskBytes)); err != nil {
		return nil, fmt.Errorf("faults: mount a small disk: %w", err)
	}
	return d, nil
}

// free takes the disk away.
func (d *disk) free() {
	if d != nil {
		_ = syscall.Unmount(d.dir, syscall.MNT_DETACH)
	}
}

// fill makes a file that takes all space of its disk.
func fill(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	// Brokers go on to write, and delete segments: what is free changes until there is nothing.
	for range 100 {
		var at syscall.Statfs_t
		if err := syscall.Fstatfs(int(f.Fd()), &at); err != nil {
			return err
		}
		info, err := f.Stat()
		if err != nil {
			return err
		}
		free := int64(at.Bavail) * at.Bsize
		if free < 1<<12 {
			return nil
		}
		if err := syscall.Fallocate(int(f.Fd()), 0, info.Size(), free); err != nil && err != syscall.ENOSPC {
			return fmt.Errorf("faults: fill a disk: %w", err)
		}
	}
	return nil
}
