//go:build ignore

// Command image writes, for scripts/release.sh, the container image of the Dockerfile's target `worker` without Docker: an OCI image
// layout in a tar, with one index of an image for each architecture. Its bytes depend on its arguments and the version of Go alone.
//
//	image -out FILE -version V -commit C -time SECONDS -roots bundle.der -licences FILE,FILE ARCH=PROGRAM...
//
// The certificate authorities are Mozilla's, as golang.org/x/crypto/x509roots/fallback has them: DER, one after the other. A limit in
// time that Mozilla sets on an authority is not in a file of PEM, so it does not hold in the image.
package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	indexType    = "application/vnd.oci.image.index.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	layerType    = "application/vnd.oci.image.layer.v1.tar+gzip"
	user         = 65532
	cache        = "/var/cache/odradek"
)

type object = map[string]any

// file is an entry of a tar; a name that ends in a slash is a folder's.
type file struct {
	name    string
	mode    int64
	owner   int
	content []byte
}

// image collects the blobs of a layout.
type image struct {
	made  time.Time
	files []file
}

func main() {
	out := flag.String("out", "", "the archive to write")
	version := flag.String("version", "", "the release")
	commit := flag.String("commit", "", "the commit it is built of")
	seconds := flag.Int64("time", 0, "the commit's time, in seconds since 1970")
	roots := flag.String("roots", "", "bundle.der of golang.org/x/crypto/x509roots/fallback")
	licences := flag.String("licences", "", "files for /licenses, with commas between them")
	flag.Parse()
	if *out == "" || *version == "" || *commit == "" || *seconds == 0 || *roots == "" || *licences == "" || flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	made := time.Unix(*seconds, 0).UTC()
	labels := map[string]string{
		"org.opencontainers.image.title":       "odradek",
		"org.opencontainers.image.description": "Finds anomalies in sensor streams on Kafka.",
		"org.opencontainers.image.version":     *version,
		"org.opencontainers.image.revision":    *commit,
		"org.opencontainers.image.created":     made.Format(time.RFC3339),
		"org.opencontainers.image.licenses":    "Apache-2.0",
	}
	if err := write(*out, made, labels, *roots, strings.Split(*licences, ","), flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func write(out string, made time.Time, labels map[string]string, roots string, licences, programs []string) error {
	authorities, err := certificates(roots)
	if err != nil {
		return fmt.Errorf("%s: %w", roots, err)
	}
	base := []file{
		{"etc/", 0o755, 0, nil},
		{"etc/ssl/", 0o755, 0, nil},
		{"etc/ssl/certs/", 0o755, 0, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, 0, authorities},
		{"licenses/", 0o755, 0, nil},
		{"var/", 0o755, 0, nil},
		{"var/cache/", 0o755, 0, nil},
		{strings.TrimPrefix(cache, "/") + "/", 0o755, user, nil},
	}
	for _, name := range licences {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		base = append(base, file{"licenses/" + filepath.Base(name), 0o644, 0, content})
	}
	img := &image{made: made}
	var manifests []object
	for _, arg := range programs {
		arch, path, _ := strings.Cut(arg, "=")
		program, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		manifest, err := img.platform(arch, labels, base, []file{{"worker", 0o755, 0, program}})
		if err != nil {
			return err
		}
		manifests = append(manifests, manifest)
	}
	index, err := img.json(indexType, object{"schemaVersion": 2, "mediaType": indexType, "manifests": manifests, "annotations": labels})
	if err != nil {
		return err
	}
	// index.json names the one index of all architectures, so that a reader need not choose among several images.
	index["annotations"] = object{"org.opencontainers.image.ref.name": labels["org.opencontainers.image.version"]}
	top, err := json.Marshal(object{"schemaVersion": 2, "mediaType": indexType, "manifests": []object{index}})
	if err != nil {
		return err
	}
	archive, err := pack(made, append(
		img.files,
		file{"oci-layout", 0o644, 0, []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		file{"index.json", 0o644, 0, top},
		file{"blobs/", 0o755, 0, nil},
		file{"blobs/sha256/", 0o755, 0, nil},
	))
	if err != nil {
		return err
	}
	return os.WriteFile(out, archive, 0o644)
}

// platform adds the image of an architecture and returns its descriptor. Its settings are the Dockerfile's.
func (img *image) platform(arch string, labels map[string]string, layers ...[]file) (object, error) {
	var descriptors, history []object
	var diffs []string
	for _, files := range layers {
		plain, err := pack(img.made, files)
		if err != nil {
			return nil, err
		}
		var packed bytes.Buffer
		zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return nil, err
		}
		if _, err := zip.Write(plain); err != nil {
			return nil, err
		}
		if err := zip.Close(); err != nil {
			return nil, err
		}
		diffs = append(diffs, digest(plain))
		history = append(history, object{"created": img.made, "created_by": "deploy/packages/image.go"})
		descriptors = append(descriptors, img.blob(layerType, packed.Bytes()))
	}
	config, err := img.json(configType, object{
		"created": img.made, "architecture": arch, "os": "linux", "history": history,
		"rootfs": object{"type": "layers", "diff_ids": diffs},
		"config": object{
			"User":         fmt.Sprintf("%d:%d", user, user),
			"Env":          []string{"ODRADEK_SCHEMA_REGISTRY_CACHE_DIR=" + cache},
			"Volumes":      object{cache: object{}},
			"ExposedPorts": object{"9464/tcp": object{}},
			"Entrypoint":   []string{"/worker"},
			"Cmd":          []string{"run"},
			"StopSignal":   "SIGTERM",
			"Labels":       labels,
			"Healthcheck": object{
				"Test": []string{"CMD", "/worker", "healthcheck"}, "Interval": 10 * time.Second, "Timeout": 5 * time.Second,
				"StartPeriod": 2 * time.Minute, "Retries": 3,
			},
		},
	})
	if err != nil {
		return nil, err
	}
	manifest, err := img.json(manifestType, object{
		"schemaVersion": 2, "mediaType": manifestType, "config": config, "layers": descriptors, "annotations": labels,
	})
	if err == nil {
		manifest["platform"] = object{"os": "linux", "architecture": arch}
	}
	return manifest, err
}

func (img *image) json(mediaType string, v object) (object, error) {
	content, err := json.Marshal(v) // keys of maps are sorted
	return img.blob(mediaType, content), err
}

// blob adds a blob, once, and returns its descriptor.
func (img *image) blob(mediaType string, content []byte) object {
	sum := digest(content)
	name := "blobs/" + strings.Replace(sum, ":", "/", 1)
	if !slices.ContainsFunc(img.files, func(f file) bool { return f.name == name }) {
		img.files = append(img.files, file{name, 0o644, 0, content})
	}
	return object{"mediaType": mediaType, "digest": sum, "size": len(content)}
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// pack makes a tar of the files, sorted by name, all of one time.
func pack(made time.Time, files []file) ([]byte, error) {
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		kind := byte(tar.TypeReg)
		if strings.HasSuffix(f.name, "/") {
			kind = tar.TypeDir
		}
		header := &tar.Header{
			Typeflag: kind, Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.content)), ModTime: made,
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// certificates makes PEM of a file of certificates.
func certificates(name string) ([]byte, error) {
	der, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	all, err := x509.ParseCertificates(der)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("no certificate")
	}
	var out bytes.Buffer
	for _, c := range all {
		fmt.Fprintf(&out, "# %s\n", c.Subject)
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}
