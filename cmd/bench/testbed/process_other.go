//go:build !linux

package testbed

import "time"

// Without /proc the figures that need a process's time or memory are 0.

// ProcessCPU returns 0.
func ProcessCPU(int) time.Duration { return 0 }

// OwnCPU returns 0.
func OwnCPU() time.Duration { return 0 }

// FamilyCPU returns 0.
func FamilyCPU(int) time.Duration { return 0 }

// KillChildren kills none.
func KillChildren(int) int { return 0 }

// MachineCPU returns 0.
func MachineCPU() (busy, idle time.Duration) { return 0, 0 }

// ResidentBytes returns 0.
func ResidentBytes(int) int64 { return 0 }

// PeakBytes returns 0.
func PeakBytes(int) int64 { return 0 }
