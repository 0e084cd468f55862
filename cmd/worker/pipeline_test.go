package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/linkedin/goavro/v2"

	"odradek/cmd/internal/config"
	"odradek/schemas"
	"odradek/schemas/formats"
)

var (
	pageFence  = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?\n)```")
	pageExport = regexp.MustCompile(`\b(ODRADEK_[A-Z_]+=\S+)`)
)

// TestPipelinePage holds each example of docs/pipeline.md: its record, read with its settings, gives its samples.
func TestPipelinePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "pipeline.md"))
	must(t, err)
	examples := 0
	for _, section := range strings.Split(string(page), "\n## ") {
		name, _, _ := strings.Cut(section, "\n")
		fences := map[string]string{}
		for _, m := range pageFence.FindAllStringSubmatch(section, -1) {
			fences[m[1]] = m[2]
		}
		if fences["sh"] == "" {
			continue
		}
		examples++
		environ := append(pageExport.FindAllString(strings.ReplaceAll(fences["sh"], "'", ""), -1), "ODRADEK_GROUP=g")
		value := []byte(fences["json"])
		if lines := fences["influx"]; lines != "" {
			value = []byte(lines)
		} else if avsc := fences["avsc"]; avsc != "" {
			file := filepath.Join(t.TempDir(), "schema.avsc")
			must(t, os.WriteFile(file, []byte(avsc), 0o600))
			environ = append(environ, "ODRADEK_SCHEMA_FILE="+file)
			codec, err := goavro.NewCodec(avsc)
			must(t, err)
			native, _, err := codec.NativeFromTextual(value)
			must(t, err)
			value, err = codec.BinaryFromNative(nil, native)
			must(t, err)
		} else if !json.Valid(value) {
			t.Errorf("%s: the record is no JSON", name)
		}
		c, faults, warnings := config.Parse(environ)
		if len(faults)+len(warnings) > 0 {
			t.Errorf("%s: %v %v", name, faults, warnings)
			continue
		}
		opts, err := c.DecoderOptions()
		must(t, err)
		dec, err := formats.NewDecoder(c.RecordMapping(), nil, opts)
		must(t, err)
		var r schemas.Reading
		if err := dec.Decode(t.Context(), []byte("key"), value, 1, nil, &r); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		split, got := schemas.NewSplitter(c.Series()), ""
		for i := range split.Samples(&r) {
			key, at, values := split.Sample(&r, i)
			got += fmt.Sprintf("%s  %s  %s\n", key, time.UnixMicro(at).UTC().Format(time.RFC3339Nano), strings.Trim(fmt.Sprint(values), "[]"))
		}
		if got != fences["text"] {
			t.Errorf("%s: the record gives\n%swant\n%s", name, got, fences["text"])
		}
	}
	if examples != 4 {
		t.Errorf("%d examples read", examples)
	}
}
