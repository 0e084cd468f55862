package cycle

import "testing"

// TestRanges: rising numbers are written as ranges, and very many of them are cut.
func TestRanges(t *testing.T) {
	for want, numbers := range map[string][]int{"": {}, "5": {5}, "0-1": {0, 1}, "0,2-4,9": {0, 2, 3, 4, 9}} {
		if got := string(appendRanges(nil, numbers)); got != want {
			t.Errorf("%v: %s, want %s", numbers, got, want)
		}
	}
	var odd []int
	for i := range 1 << 15 {
		odd = append(odd, 2*i+1)
	}
	if got := string(appendRanges(nil, odd)); len(got) > maxRanges || got[:6] != "1,3,5," || got[len(got)-4:] != ",..." {
		t.Errorf("%d bytes: %s", len(got), got[max(0, len(got)-20):])
	}
}
