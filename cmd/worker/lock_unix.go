//go:build unix

package main

import (
	"errors"
	"os"
	"syscall"
)

// lock takes the exclusive lock of a file if no other process has it.
func lock(f *os.File) (free bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
