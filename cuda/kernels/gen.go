//go:build ignore

// Gen builds NAME.fatbin of every NAME.cu here and SHA256SUMS of sources and
// fatbins: go generate ./cuda.
//
//	NVCC=/usr/local/cuda-11.8/bin/nvcc go generate ./cuda
//
// nvcc comes from $NVCC or the path (Debian 12: nvidia-cuda-toolkit, non-free),
// further flags for it from $NVCC_FLAGS, such as -ccbin g++-11. The fatbins are the
// same to the byte from any folder and with any host compiler, and whether the latter
// is one that nvcc knows (-allow-unsupported-compiler) makes no difference.
package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// release is the nvcc that makes what is committed. That of 13.0 builds nothing for
// V100, and what it builds needs a driver of 580 or later; what 11.8 builds runs on
// every driver from 520 on, those of newer devices included. Measured with both on an
// H200, driver 580: 13.0's code is 2 to 3 % faster for IKA-SST with w up to 320, 4 %
// slower with w=1024, and within 2 % for LOF either way.
const release = "11.8"

// targets are the architectures that there is machine code for. It runs on the
// later ones of the same generation: that of V100 on T4, that of A100 on A10, L4 and
// RTX 30 and 40, that of H100 on H200. Later generations compile the PTX. Six
// targets (75, 86 and 89 besides) made twice the bytes, in twice the time.
var targets = []string{"70", "80", "90"}

const ptx = "90"

func main() {
	log.SetFlags(0)
	log.SetPrefix("gen: ")
	if err := os.Chdir(dir()); err != nil {
		log.Fatal(err)
	}
	nvcc := os.Getenv("NVCC")
	if nvcc == "" {
		nvcc = "nvcc"
	}
	text, err := exec.Command(nvcc, "--version").CombinedOutput()
	if err != nil {
		log.Fatalf("%s: %v\n%s", nvcc, err, text)
	}
	got := regexp.MustCompile(`release ([0-9.]+)`).FindSubmatch(text)
	if got == nil || string(got[1]) != release {
		log.Fatalf("%s is not release %s, which makes what is committed", nvcc, release)
	}
	sources, _ := filepath.Glob("*.cu")
	var wait sync.WaitGroup
	free := make(chan bool, runtime.NumCPU())
	failed := make([]error, len(sources))
	for i, source := range sources {
		wait.Go(func() {
			free <- true
			failed[i] = build(nvcc, source)
			<-free
		})
	}
	wait.Wait()
	for _, err := range failed {
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := sum(); err != nil {
		log.Fatal(err)
	}
}

// dir is the folder of this file, wherever go generate runs it.
func dir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// build makes the fatbin of one source.
func build(nvcc, source string) error {
	args := []string{"-std=c++17", "-O3", "-fatbin", "-I.", "-Xfatbin", "-compress-all"}
	for _, t := range targets {
		code := "sm_" + t
		if t == ptx {
			code = "[sm_" + t + ",compute_" + t + "]"
		}
		args = append(args, "-gencode", "arch=compute_"+t+",code="+code)
	}
	args = append(args, strings.Fields(os.Getenv("NVCC_FLAGS"))...)
	args = append(args, "-o", strings.TrimSuffix(source, ".cu")+".fatbin", source)
	if text, err := exec.Command(nvcc, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %v\n%s", source, err, text)
	}
	return nil
}

// sum writes SHA256SUMS, as sha256sum(1) does, and drops fatbins without a source.
func sum() error {
	var names []string
	for _, pattern := range []string{"*.cu", "*.h", "*.fatbin"} {
		found, _ := filepath.Glob(pattern)
		names = append(names, found...)
	}
	slices.Sort(names)
	var sums bytes.Buffer
	for _, name := range names {
		if base, ok := strings.CutSuffix(name, ".fatbin"); ok && !slices.Contains(names, base+".cu") {
			if err := os.Remove(name); err != nil {
				return err
			}
			continue
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(b), name)
	}
	return os.WriteFile("SHA256SUMS", sums.Bytes(), 0o644)
}
