package ops

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReadNPZ(t *testing.T) {
	array := func(descr, order, shape, data string) string {
		head := fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }\n", descr, order, shape)
		return "\x93NUMPY\x01\x00" + string([]byte{byte(len(head)), byte(len(head) >> 8)}) + head + data
	}
	var file bytes.Buffer
	z := zip.NewWriter(&file)
	for name, text := range map[string]string{
		"X":     array("<i2", "False", "2, 3", "\x01\x00\x02\x00\x03\x00\x04\x00\x05\x00\xff\xff"),
		"F":     array("|u1", "True", "2, 3", "\x01\x04\x02\x05\x03\x06"),
		"y":     array("<f4", "False", "2,", "\x00\x00\x80\x3f\x00\x00\x00\xbf"),
		"short": array("<f8", "False", "2, 3", "\x01"),
		"text":  array("<U9", "False", "2,", "ab"),
		"none":  "PK",
	} {
		w, err := z.Create(name + ".npy")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.npz")
	if err := os.WriteFile(path, file.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float64{"X": {1, 2, 3, 4, 5, -1}, "F": {1, 2, 3, 4, 5, 6}, "y": {1, -0.5}} {
		x, dim, err := readNPZ(path, name)
		if err != nil || !slices.Equal(x, want) || dim != len(want)/2 {
			t.Errorf("%s: %v, %d a row, %v; want %v", name, x, dim, err, want)
		}
	}
	for name, want := range map[string]string{"short": "not 2 x 3", "text": "type U9", "none": "no array", "missing": "missing"} {
		if _, _, err := readNPZ(path, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one with %q", name, err, want)
		}
	}
}
