package kafkatest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// cacheDir is where jars are kept between runs.
func cacheDir() (string, error) {
	if d := os.Getenv("ODRADEK_TEST_CACHE"); d != "" {
		return filepath.Abs(d)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".cache", "odradek-test"), nil
}

// tempDir makes a folder that ends with this process, and removes those that
// killed processes left behind.
func tempDir(name string) (string, error) {
	prefix := "odradek-" + name + "-"
	old, err := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*", "owner"))
	if err != nil {
		return "", err
	}
	for _, f := range old {
		b, err := os.ReadFile(f)
		if pid, bad := strconv.Atoi(string(b)); err == nil && bad == nil && !alive(pid) {
			os.RemoveAll(filepath.Dir(f))
		}
	}
	dir, err := os.MkdirTemp("", prefix)
	if err != nil || os.Getenv("ODRADEK_TEST_KEEP") != "" {
		return dir, err
	}
	return dir, os.WriteFile(filepath.Join(dir, "owner"), []byte(strconv.Itoa(os.Getpid())), 0o600)
}

// Cached returns the folder name in the cache, made by fill at the first call on
// this machine. Processes that want it at once wait for the one that makes it; a
// folder is there whole or not at all.
func Cached(name string, fill func(dir string) error) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(cache, name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := lockFile(lock); err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	part, err := os.MkdirTemp(cache, name+".part-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(part)
	if err := fill(part); err != nil {
		return "", err
	}
	if err := os.Chmod(part, 0o755); err != nil {
		return "", err
	}
	return dir, os.Rename(part, dir)
}

// maven runs one goal quietly in dir.
func maven(ctx context.Context, dir string, args ...string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return errors.New("no Maven to resolve it with: install Maven (mvn)")
	}
	cmd := exec.CommandContext(ctx, mvn, append([]string{"-B", "-q"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %.600s", strings.Join(cmd.Args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

// CachedFile returns the folder name in the cache, into which unpack has unpacked an artifact of Maven Central
// (group:name:version:type, or with :classifier at the end).
func CachedFile(ctx context.Context, name, artifact string, unpack func(file, dir string) error) (string, error) {
	dir, err := Cached(name, func(dir string) error {
		if err := maven(ctx, dir, "dependency:copy", "-Dartifact="+artifact, "-DoutputDirectory=packed"); err != nil {
			return err
		}
		packed := filepath.Join(dir, "packed")
		files, err := os.ReadDir(packed)
		if err == nil && len(files) != 1 {
			err = fmt.Errorf("%d files in place of the artifact", len(files))
		}
		if err == nil {
			err = unpack(filepath.Join(packed, files[0].Name()), dir)
		}
		if err != nil {
			return fmt.Errorf("unpacking %s: %w", artifact, err)
		}
		return os.RemoveAll(packed)
	})
	if err != nil {
		return "", &MissingError{name, err}
	}
	return dir, nil
}

// Artifact is a jar of Maven Central.
type Artifact struct {
	Group, Name, Version string
	Without              []string // dependencies to leave out, as group:name; name may be *
}

// Jars returns a folder with the jars of artifacts and of their dependencies at run time, from
// the folder name in the cache or from Maven Central.
func Jars(ctx context.Context, name string, artifacts ...Artifact) (string, error) {
	dir, err := Cached(name, func(dir string) error {
		pom := `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>odradek</groupId><artifactId>jars-for-tests</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
`
		for _, a := range artifacts {
			pom += a.dependency()
		}
		pom += "  </dependencies>\n</project>\n"
		if err := os.WriteFile(filepath.Join(dir, "pom.xml"), []byte(pom), 0o644); err != nil {
			return err
		}
		return maven(ctx, dir, "dependency:copy-dependencies", "-DoutputDirectory=lib", "-DincludeScope=runtime")
	})
	if err != nil {
		return "", &MissingError{name, err}
	}
	return filepath.Join(dir, "lib"), nil
}

// dependency returns the dependency on the artifact as a line of a pom.
func (a Artifact) dependency() string {
	var without string
	for _, w := range a.Without {
		group, name, _ := strings.Cut(w, ":")
		without += fmt.Sprintf("<exclusion><groupId>%s</groupId><artifactId>%s</artifactId></exclusion>", group, name)
	}
	return fmt.Sprintf("    <dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version>"+
		"<exclusions>%s</exclusions></dependency>\n", a.Group, a.Name, a.Version, without)
}

// Logging returns the slf4j backend of a version of Kafka: it is not among the broker's
// own dependencies. Both versions speak slf4j 1. Kafka 4 runs without log4j; Kafka 3
// touches log4j 1's classes when it starts, which reload4j has.
func Logging(version string) []Artifact {
	if strings.HasPrefix(version, "3.") {
		return []Artifact{{Group: "org.slf4j", Name: "slf4j-reload4j", Version: "1.7.36"},
			{Group: "ch.qos.reload4j", Name: "reload4j", Version: "1.2.25"}}
	}
	return []Artifact{{Group: "org.slf4j", Name: "slf4j-simple", Version: "1.7.36"}}
}

// MissingError says that something cannot be started because this machine lacks
// a part of it: Java, Maven, or the jars and a way to fetch them.
type MissingError struct {
	What string
	Err  error
}

func (e *MissingError) Error() string { return "kafkatest: " + e.What + ": " + e.Err.Error() }
func (e *MissingError) Unwrap() error { return e.Err }

// kafkaJars returns the folder with Apache Kafka's jars, from the cache or from
// Maven Central.
func kafkaJars(ctx context.Context, version string) (string, error) {
	jars, err := Jars(ctx, "kafka-"+version,
		append([]Artifact{{Group: "org.apache.kafka", Name: "kafka_2.13", Version: version}}, Logging(version)...)...)
	if m := (*MissingError)(nil); errors.As(err, &m) {
		return "", &MissingError{"Apache Kafka " + version, m.Err}
	}
	return jars, err
}

// registryVersion is the newest Apicurio Registry that runs on Java 17.
const registryVersion = "3.0.9"

// registryJars returns the folder with the registry, unpacked.
func registryJars(ctx context.Context) (string, error) {
	dir, err := CachedFile(ctx, "apicurio-registry-"+registryVersion,
		"io.apicurio:apicurio-registry-app:"+registryVersion+":tar.gz:all", UntarGz)
	if m := (*MissingError)(nil); errors.As(err, &m) {
		return "", &MissingError{"Apicurio Registry " + registryVersion, m.Err}
	}
	return dir, err
}

// UntarGz unpacks the files and links of a .tar.gz below dir.
func UntarGz(name, dir string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	return Untar(z, dir)
}

// Untar unpacks the files and links of a tar below dir, and refuses paths that lead out of dir.
func Untar(from io.Reader, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	r := tar.NewReader(from)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && h.Typeflag != tar.TypeDir {
			err = root.MkdirAll(filepath.Dir(h.Name), 0o755)
		}
		if err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeReg:
			err = unpackFile(root, h, r)
		case tar.TypeSymlink:
			err = root.Symlink(h.Linkname, h.Name)
		}
		if err != nil {
			return err
		}
	}
}

// unpackFile unpacks one file of a tar.
func unpackFile(root *os.Root, h *tar.Header, from io.Reader) error {
	w, err := root.OpenFile(h.Name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, h.FileInfo().Mode()&0o755|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, from)
	return errors.Join(err, w.Close())
}
