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
