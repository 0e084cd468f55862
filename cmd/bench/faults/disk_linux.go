package faults

import (
	"fmt"
	"os"
	"syscall"
)

// disk is a file system in memory that can be filled.
type disk struct{ dir string }

// mountDisk mounts one of some bytes on a folder; only root can.
func mountDisk(dir string, size int) (*disk, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		return nil, fmt.Errorf("faults: mount a small disk: %w", err)
	}
	return &disk{dir}, nil
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
