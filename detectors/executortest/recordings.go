//go:build ignore

// Recordings writes pieces of recordings to a file, for TestDeviceWindows of package
// cuda: which tasks kernels leave to the CPU depends on the data.
//
//	go run detectors/executortest/recordings.go DATA FILE
//
// DATA has the folders nab, smd, asd and smap_msl, as `worker score` reads them, or
// some of these. The same data give the same file.
package main

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"odradek/detectors/quality"
)

const (
	rows    = 640 // of a piece
	single  = 400 // pieces of one value a row, of each set
	vectors = 60  // and of width values
	width   = 8
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run detectors/executortest/recordings.go DATA FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "windows:", err)
		os.Exit(1)
	}
}

func write(data, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	z, _ := gzip.NewWriterLevel(f, gzip.BestCompression)
	out := bufio.NewWriter(z)
	pieces := 0
	for _, folder := range []string{"nab", "smd", "asd", "smap_msl"} {
		dir := filepath.Join(data, folder)
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			fmt.Fprintln(os.Stderr, "windows: no", dir)
			continue
		}
		_, all, err := quality.Read(dir)
		if err != nil {
			return err
		}
		sets := map[string][]quality.Series{folder: all}
		names := []string{folder}
		if folder == "smap_msl" {
			if sets, err = bySpacecraft(dir, all); err != nil {
				return err
			}
			names = []string{"smap", "msl"}
		}
		for _, name := range names {
			rng := rand.New(rand.NewPCG(1, uint64(len(name))))
			pieces += cut(out, rng, name, sets[name], 1, single)
			if sets[name][0].Dim >= width {
				pieces += cut(out, rng, name, sets[name], width, vectors)
			}
		}
	}
	if pieces == 0 {
		return fmt.Errorf("%s has none of the sets", data)
	}
	return errors.Join(out.Flush(), z.Close(), f.Close())
}

// cut writes n pieces, from each series in turn and from random places, with dim adjacent values a row.
func cut(out *bufio.Writer, rng *rand.Rand, set string, all []quality.Series, dim, n int) int {
	written := 0
	for i := 0; written < n && i < 4*n; i++ {
		s := &all[i%len(all)]
		if s.Len() < rows {
			continue
		}
		from, column := rng.IntN(s.Len()-rows+1), rng.IntN(s.Dim-dim+1)
		fmt.Fprintf(out, "%s %d", set, dim)
		for r := from; r < from+rows; r++ {
			for _, v := range s.Row(r)[column : column+dim] {
				out.WriteByte(' ')
				out.WriteString(strconv.FormatFloat(v, 'g', -1, 64))
			}
		}
		out.WriteByte('\n')
		written++
	}
	return written
}

// bySpacecraft separates the channels of SMAP from the channels of MSL by MANIFEST.csv.
func bySpacecraft(dir string, all []quality.Series) (map[string][]quality.Series, error) {
	f, err := os.Open(filepath.Join(dir, "MANIFEST.csv"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	table, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	msl := map[string]bool{}
	for _, row := range table[1:] {
		msl[row[0]] = row[1] == "MSL"
	}
	sets := map[string][]quality.Series{}
	for _, s := range all {
		set := "smap"
		if msl[s.Name] {
			set = "msl"
		}
		sets[set] = append(sets[set], s)
	}
	return sets, nil
}
