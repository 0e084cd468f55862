//go:build unix

package kafkatest

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// TestPortClaims asks a second process for a port that this one got.
func TestPortClaims(t *testing.T) {
	const variable = "ODRADEK_TEST_PORT"
	if port, err := strconv.Atoi(os.Getenv(variable)); err == nil { // the second process
		if claimPort(port) {
			t.Fatalf("port %d belongs to two processes", port)
		}
		if _, err := FreePorts(1); err != nil {
			t.Fatal(err)
		}
		return
	}
	ports, err := FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	second := exec.Command(os.Args[0], "-test.run=^TestPortClaims$")
	second.Env = append(os.Environ(), variable+"="+strconv.Itoa(ports[0]))
	if out, err := second.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
