package kafkatest

import "os"

func (p *process) terminate() { _ = p.cmd.Process.Kill() }

// Pause panics on Windows.
func Pause(*os.Process) { panic("kafkatest: a process cannot be paused on Windows") }

// Resume does nothing on Windows.
func Resume(*os.Process) {}

func lockFile(*os.File) error { return nil }

func alive(int) bool { return true }

// claimPort claims nothing.
func claimPort(int) bool { return true }
