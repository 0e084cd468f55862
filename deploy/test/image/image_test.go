// Package image reads what scripts/release.sh adds to a release beside packages, the image and the provenance, with another reader of
// OCI layouts than the program that writes them.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

const repository = "../../.."

// run runs a program of deploy/packages at the repository's root.
func run(t *testing.T, program string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", append([]string{"run", "deploy/packages/" + program}, args...)...)
	cmd.Dir = repository
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, &stderr)
	}
	return out
}

func put(t *testing.T, name string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(name, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func certificate(t *testing.T) []byte {
	t.Helper()
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "one"}, NotAfter: time.Unix(1e9, 0)}
	der, err := x509.CreateCertificate(nil, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// contents reads a tar, and fails where an entry has another time.
func contents(t *testing.T, r io.Reader, made time.Time) map[string]*tar.Header {
	t.Helper()
	files := map[string]*tar.Header{}
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		if !h.ModTime.Equal(made) {
			t.Errorf("%s is of %v, want %v", h.Name, h.ModTime, made)
		}
		h.Linkname = string(content)
		files[h.Name] = h
	}
}

func TestImage(t *testing.T) {
	dir := t.TempDir()
	made := time.Unix(1_700_000_000, 0)
	roots := put(t, dir+"/bundle.der", slices.Concat(certificate(t), certificate(t)))
	licence := put(t, dir+"/LICENSE", []byte("licence"))
	var archives [2][]byte
	for i := range archives {
		out := filepath.Join(dir, "image.tar")
		run(t, "image.go", "-out", out, "-version", "1.2.3", "-commit", "abc", "-time", "1700000000", "-roots", roots, "-licences", licence,
			"amd64="+put(t, dir+"/amd64", []byte("program of amd64")), "arm64="+put(t, dir+"/arm64", []byte("program of arm64")))
		archives[i], _ = os.ReadFile(out)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two images of the same arguments differ")
	}

	folder := filepath.Join(dir, "layout")
	for name, h := range contents(t, bytes.NewReader(archives[0]), made) {
		if h.Typeflag == tar.TypeReg {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(folder, name), []byte(h.Linkname))
		}
	}
	top, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(top); err != nil {
		t.Fatal(err)
	}
	manifest, err := top.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("index.json names %d images (%v), want one index of all", len(manifest.Manifests), err)
	}
	index, err := top.ImageIndex(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if manifest, err = index.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	var platforms []string
	for _, m := range manifest.Manifests {
		platforms = append(platforms, m.Platform.String())
		img, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		check(t, img, m.Platform, made)
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) {
		t.Errorf("images of %v, want %v", platforms, want)
	}
}

// check compares an image with the Dockerfile's target `worker`.
func check(t *testing.T, img v1.Image, platform *v1.Platform, made time.Time) {
	t.Helper()
	got, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if got.Platform().String() != platform.String() || !got.Created.Time.Equal(made) {
		t.Errorf("config of %v, made %v; want %v, %v", got.Platform(), got.Created, platform, made)
	}
	c := got.Config
	if c.Labels["org.opencontainers.image.version"] != "1.2.3" || c.Labels["org.opencontainers.image.revision"] != "abc" {
		t.Errorf("labels %v", c.Labels)
	}
	dockerfile, err := os.ReadFile(repository + "/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, target, _ := strings.Cut(string(dockerfile), "\nFROM scratch AS worker\n")
	target, _, _ = strings.Cut(target, "\nFROM ")
	instruction := func(name string) string {
		m := regexp.MustCompile(`(?m)^` + name + ` (.*)$`).FindStringSubmatch(target)
		if m == nil {
			t.Fatalf("the Dockerfile's worker has no %s", name)
		}
		return m[1]
	}
	list := func(text string) (out []string) {
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return out
	}
	health, command, _ := strings.Cut(instruction("HEALTHCHECK"), " CMD ")
	want := v1.Config{
		User:         instruction("USER"),
		Env:          []string{instruction("ENV")},
		Volumes:      map[string]struct{}{list(instruction("VOLUME"))[0]: {}},
		ExposedPorts: map[string]struct{}{instruction("EXPOSE") + "/tcp": {}},
		StopSignal:   instruction("STOPSIGNAL"),
		Entrypoint:   list(instruction("ENTRYPOINT")),
		Cmd:          list(instruction("CMD")),
		Labels:       c.Labels,
		Healthcheck: &v1.HealthConfig{
			Test: append([]string{"CMD"}, list(command)...), Interval: 10 * time.Second, Timeout: 5 * time.Second,
			StartPeriod: 2 * time.Minute, Retries: 3,
		},
	}
	if health != "--interval=10s --timeout=5s --start-period=2m --retries=3" {
		t.Errorf("the Dockerfile has HEALTHCHECK %s, the image 10s, 5s, 2m, 3", health)
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("image %+v\nDockerfile %+v", c, want)
	}

	flat := mutate.Extract(img)
	defer flat.Close()
	files := contents(t, flat, made)
	if f := files["worker"]; f == nil || f.Mode != 0o755 || f.Linkname != "program of "+platform.Architecture {
		t.Errorf("worker: %+v", f)
	}
	if f := files["var/cache/odradek"]; f == nil || f.Uid != 65532 || f.Gid != 65532 || f.Typeflag != tar.TypeDir {
		t.Errorf("the schema cache: %+v", f)
	}
	if f := files["licenses/LICENSE"]; f == nil || f.Linkname != "licence" {
		t.Errorf("the licence: %+v", f)
	}
	if f := files["etc/ssl/certs/ca-certificates.crt"]; f == nil || strings.Count(f.Linkname, "-----BEGIN CERTIFICATE-----") != 2 ||
		!x509.NewCertPool().AppendCertsFromPEM([]byte(f.Linkname)) {
		t.Errorf("the certificates: %+v", f)
	}
}

func TestProvenance(t *testing.T) {
	dir := t.TempDir()
	sum := func(content []byte) map[string]string {
		s := sha256.Sum256(content)
		return map[string]string{"sha256": hex.EncodeToString(s[:])}
	}
	type resource struct {
		Name   string
		Digest map[string]string
	}
	want := []resource{{"a.deb", sum([]byte("a"))}, {"b.tar", sum([]byte("b"))}}
	put(t, dir+"/a.deb", []byte("a"))
	put(t, dir+"/b.tar", []byte("b"))
	modules, err := os.ReadFile(repository + "/go.sum")
	if err != nil {
		t.Fatal(err)
	}
	for commit, sources := range map[string][]resource{
		"abc":       {{"go.sum", sum(modules)}, {"source", map[string]string{"gitCommit": "abc"}}},
		"abc-dirty": {{"go.sum", sum(modules)}},
	} {
		var got struct {
			Type          string `json:"_type"`
			PredicateType string
			Subject       []resource
			Predicate     struct {
				BuildDefinition struct {
					BuildType            string
					ExternalParameters   map[string]string
					InternalParameters   map[string]string
					ResolvedDependencies []resource
				}
				RunDetails struct{ Builder struct{ ID string } }
			}
		}
		if err := json.Unmarshal(run(t, "provenance.go", "-version", "1.2.3", "-commit", commit, dir), &got); err != nil {
			t.Fatal(err)
		}
		build := got.Predicate.BuildDefinition
		if got.Type != "https://in-toto.io/Statement/v1" || got.PredicateType != "https://slsa.dev/provenance/v1" ||
			!reflect.DeepEqual(got.Subject, want) || !reflect.DeepEqual(build.ResolvedDependencies, sources) || build.BuildType == "" ||
			build.ExternalParameters["commit"] != commit || !strings.HasPrefix(build.InternalParameters["go"], "go1.") ||
			got.Predicate.RunDetails.Builder.ID == "" {
			t.Errorf("%s: %+v", commit, got)
		}
	}
}
