//go:build linux

package cuda

import (
	"os"
	"slices"
	"testing"
	"time"

	"odradek/detectors/executortest"
	"odradek/detectors/seedtest"
)

// recordings names the file of pieces of recordings, which detectors/executortest/recordings.go makes
// from data sets outside the repository.
const recordings = "ODRADEK_TEST_WINDOWS"

// TestEmulatedWindows counts the windows that kernels leave to the CPU, of series like recordings and
// of recordings.
func TestEmulatedWindows(t *testing.T) { windowsOn(t, emulated(t), 3, 40, 1, 0) }

// TestDeviceWindows is TestEmulatedWindows on a device, with more windows.
func TestDeviceWindows(t *testing.T) {
	windowsOn(t, deviceOptions(t), 100, 1<<20, 4, 200*time.Millisecond)
}

// windowsOn scores each synthetic series, and most of a recorded set, at the given number of places of
// a series.
func windowsOn(t *testing.T, o Options, each, most, places int, measured time.Duration) {
	e := placed{checked{open(t, o), t, noFault}}
	defer e.Close()
	executortest.Windows(t, e, executortest.LikeRecordings(seedtest.New(t), each, 640), places, measured)
	t.Run("recordings", func(t *testing.T) {
		path := os.Getenv(recordings)
		if path == "" {
			missing(t, "windows", recordings+" names no file (detectors/executortest/recordings.go makes one)")
		}
		all, err := executortest.ReadSeries(path)
		if err != nil {
			t.Fatal(err)
		}
		taken := map[string]int{}
		all = slices.DeleteFunc(all, func(s executortest.Series) bool {
			taken[s.Set]++
			return taken[s.Set] > most
		})
		executortest.Windows(t, e, all, places, measured)
	})
}
