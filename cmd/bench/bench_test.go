package main

import (
	"bytes"
	"flag"
	"strings"
	"testing"
)

func TestBenchNames(t *testing.T) {
	type options struct {
		json   bool
		repeat int
		set    settingList
	}
	parse := func(args ...string) (names []string, o options, code int, done bool) {
		fs := flag.NewFlagSet("bench", flag.ContinueOnError)
		fs.SetOutput(new(bytes.Buffer))
		fs.BoolVar(&o.json, "json", false, "")
		fs.IntVar(&o.repeat, "repeat", 3, "")
		fs.Var(&o.set, "set", "")
		names, code, done = benchNames(fs, args, map[string]bool{"decode": true, "skew": true})
		return
	}
	names, o, _, done := parse("decode", "-json", "skew", "-repeat", "1", "-set", "ODRADEK_COMPRESSION=none")
	if done || strings.Join(names, " ") != "decode skew" || !o.json || o.repeat != 1 || o.set.String() != "ODRADEK_COMPRESSION=none" {
		t.Errorf("names %v, options %+v, done %t", names, o, done)
	}
	for _, bad := range [][]string{{"decoder"}, {"-jason"}, {"-set", "COMPRESSION=none"}, {"decode", "-repeat"}} {
		if _, _, code, done := parse(bad...); !done || code != exitUsage {
			t.Errorf("%v: exit code %d, want %d", bad, code, exitUsage)
		}
	}
	// -child is a flag, wherever it stands.
	silent := terminal{new(bytes.Buffer), new(bytes.Buffer), nil}
	if code := silent.bench(t.Context(), []string{"-child", "/none/odradek-cuda", "decoder"}); code != exitUsage {
		t.Errorf("-child and no benchmark: exit code %d, want %d", code, exitUsage)
	}
	var help bytes.Buffer
	if code := (terminal{nil, &help, nil}).bench(t.Context(), []string{"-h"}); code != exitOK ||
		!strings.Contains(help.String(), "usage: bench ") {
		t.Errorf("-h: exit code %d, %s", code, &help)
	}
	// Without a worker nothing is started.
	var out, errs bytes.Buffer
	code := (terminal{&out, &errs, nil}).bench(t.Context(), []string{"-kafka", "kfake", "-worker", "/none/worker", "path-cpu"})
	if code != exitFailed || !strings.Contains(errs.String(), "/none/worker") || out.Len() > 0 {
		t.Errorf("without a worker: exit code %d, %s%s", code, &errs, &out)
	}
	if names, _, _, done := parse(); done || names != nil {
		t.Errorf("without arguments: %v", names)
	}
}
