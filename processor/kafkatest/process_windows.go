package kafkatest

import "os"

func (p *process) terminate() { _ = p.cmd.Process.Kill() }
func (p *process) pause()     { panic("kafkatest: a process cannot be paused on Windows") }
func (p *process) resume()    {}

func lockFile(*os.File) error { return nil }

func alive(int) bool { return true }
