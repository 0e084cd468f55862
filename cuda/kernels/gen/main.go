// Gen rebuilds NAME.fatbin for every NAME.cu in cuda/kernels with changed code, comments
// aside, and writes SHA256SUMS: go generate ./cuda.
//
//	NVCC=/usr/local/cuda-11.8/bin/nvcc go generate ./cuda
//
// nvcc comes from $NVCC or the path (Debian 12: nvidia-cuda-toolkit, non-free),
// further flags for it from $NVCC_FLAGS, such as -ccbin g++-11. Without SHA256SUMS all
// fatbins are built.
package main

import (
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

// release is the version of nvcc for the committed fatbins. Version 13.0 builds nothing for
// V100, and what it builds needs a driver of 580 or later; what 11.8 builds runs on
// every driver from 520 on, drivers of newer devices included. Measured with both on an
// H200, driver 580: 13.0's code is 2 to 3 % faster for IKA-SST with w up to 320, 4 %
// slower with w=1024, and within 2 % for LOF either way.
const release = "11.8"

// targets are the architectures with machine code. It runs on the
// later ones of the same generation: V100's on T4, A100's on A10, L4 and
// RTX 30 and 40, H100's on H200. Later generations compile the PTX. Six
// targets (75, 86 and 89 besides) made twice the bytes, in twice the time.
var targets = []string{"70", "80", "90"}

const ptx = "90"

func main() {
	log.SetFlags(0)
	log.SetPrefix("gen: ")
	if err := os.Chdir(dir()); err != nil {
		log.Fatal(err)
	}
	stale, err := staleFatbins(".")
	if err != nil {
		log.Fatal(err)
	}
	if len(stale) > 0 {
		buildAll(stale)
	}
	if err := removeOrphans("."); err != nil {
		log.Fatal(err)
	}
	if err := writeSums(".", stale); err != nil {
		log.Fatal(err)
	}
}

// buildAll builds fatbins in parallel, one on each processor.
func buildAll(fatbins []fatbin) {
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
	var wait sync.WaitGroup
	free := make(chan bool, runtime.NumCPU())
	failed := make([]error, len(fatbins))
	for i, f := range fatbins {
		wait.Go(func() {
			free <- true
			failed[i] = build(nvcc, f.name)
			<-free
		})
	}
	wait.Wait()
	for _, err := range failed {
		if err != nil {
			log.Fatal(err)
		}
	}
}

// dir returns the folder of the kernels, independent of where go generate runs the program.
func dir() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(file))
}

// build builds one fatbin.
func build(nvcc, name string) error {
	args := []string{"-std=c++17", "-O3", "-fatbin", "-I.", "-Xfatbin", "-compress-all"}
	for _, t := range targets {
		code := "sm_" + t
		if t == ptx {
			code = "[sm_" + t + ",compute_" + t + "]"
		}
		args = append(args, "-gencode", "arch=compute_"+t+",code="+code)
	}
	args = append(args, strings.Fields(os.Getenv("NVCC_FLAGS"))...)
	if i := slices.IndexFunc(args, hasLineNumbers); i >= 0 {
		return fmt.Errorf("%s.cu: %s writes line numbers, which %s does not cover", name, args[i], sumsFile)
	}
	args = append(args, "-o", name+".fatbin", name+".cu")
	if text, err := exec.Command(nvcc, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s.cu: %w\n%s", name, err, text)
	}
	return nil
}
