//go:build !linux

package main

import "time"

// Without /proc the figures that need a process's time or memory are 0.

func processCPU(int) time.Duration { return 0 }

func familyCPU(int) time.Duration { return 0 }

func machineCPU() (busy, idle time.Duration) { return 0, 0 }

func residentBytes(int) int64 { return 0 }
