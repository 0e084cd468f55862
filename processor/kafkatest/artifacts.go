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

// cached returns the folder name in the cache, made by fill at the first call on
// this machine. Processes that want it at once wait for the one that makes it; a
// folder is there whole or not at all.
func cached(name string, fill func(dir string) error) (string, error) {
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

// logging is the slf4j backend of a version: it is not among the broker's own
// dependencies. Both versions speak slf4j 1. Kafka 4 runs without log4j; Kafka 3
// touches log4j 1's classes when it starts, which reload4j has.
func logging(version string) string {
	if strings.HasPrefix(version, "3.") {
		return dependency("org.slf4j", "slf4j-reload4j", "1.7.36") + dependency("ch.qos.reload4j", "reload4j", "1.2.25")
	}
	return dependency("org.slf4j", "slf4j-simple", "1.7.36")
}

func dependency(group, artifact, version string) string {
	return fmt.Sprintf("    <dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>\n",
		group, artifact, version)
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
	dir, err := cached("kafka-"+version, func(dir string) error {
		pom := `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>odradek</groupId><artifactId>kafka-for-tests</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
` + dependency("org.apache.kafka", "kafka_2.13", version) + logging(version) + `  </dependencies>
</project>
`
		if err := os.WriteFile(filepath.Join(dir, "pom.xml"), []byte(pom), 0o644); err != nil {
			return err
		}
		return maven(ctx, dir, "dependency:copy-dependencies", "-DoutputDirectory=lib", "-DincludeScope=runtime")
	})
	if err != nil {
		return "", &MissingError{"Apache Kafka " + version, err}
	}
	return filepath.Join(dir, "lib"), nil
}

// registryVersion is the newest Apicurio Registry that runs on Java 17.
const registryVersion = "3.0.9"

// registryJars returns the folder with the registry, unpacked.
func registryJars(ctx context.Context) (string, error) {
	dir, err := cached("apicurio-registry-"+registryVersion, func(dir string) error {
		artifact := "io.apicurio:apicurio-registry-app:" + registryVersion + ":tar.gz:all"
		if err := maven(ctx, dir, "dependency:copy", "-Dartifact="+artifact, "-DoutputDirectory="+dir); err != nil {
			return err
		}
		name := filepath.Join(dir, "apicurio-registry-app-"+registryVersion+"-all.tar.gz")
		if err := untar(name, dir); err != nil {
			return fmt.Errorf("unpacking %s: %w", name, err)
		}
		return os.Remove(name)
	})
	if err != nil {
		return "", &MissingError{"Apicurio Registry " + registryVersion, err}
	}
	return dir, nil
}

// untar unpacks the files of a .tar.gz below dir.
func untar(name, dir string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	r := tar.NewReader(z)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("entry %q lies outside", h.Name)
		}
		to := filepath.Join(dir, h.Name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		w, err := os.Create(to)
		if err != nil {
			return err
		}
		if _, err := io.Copy(w, r); err != nil {
			w.Close()
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
	}
}
