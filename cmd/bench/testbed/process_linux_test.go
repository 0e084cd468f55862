package testbed

import (
	"os/exec"
	"strconv"
	"testing"
	"time"

	"odradek/processor/kafkatest"
)

// TestFamilyCPU: a worker's processor time includes its children's.
func TestFamilyCPU(t *testing.T) {
	cmd := exec.Command("sh", "-c", "(while :; do :; done) & wait")
	if err := kafkatest.Start(cmd); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = exec.Command("pkill", "-P", strconv.Itoa(cmd.Process.Pid)).Run()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	for range 200 {
		time.Sleep(20 * time.Millisecond)
		if family, own := FamilyCPU(cmd.Process.Pid), ProcessCPU(cmd.Process.Pid); family >= 50*time.Millisecond && own < family/2 {
			return
		}
	}
	t.Errorf("family %v, the process itself %v", FamilyCPU(cmd.Process.Pid), ProcessCPU(cmd.Process.Pid))
}

// TestPeakBytes: the peak is kept when the memory is not.
func TestPeakBytes(t *testing.T) {
	cmd := exec.Command("sh", "-c", "x=$(head -c 30000000 /dev/zero | tr '\\0' a); x=; echo; read end")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := kafkatest.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if peak := PeakBytes(cmd.Process.Pid); peak < 30_000_000 {
		t.Errorf("a peak of %d bytes, want 30,000,000 at least", peak)
	}
	stdin.Close()
	_ = cmd.Wait() // read fails at the end of its input
}
