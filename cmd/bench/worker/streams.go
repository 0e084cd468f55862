package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"odradek/cmd/bench/testbed"
	"odradek/processor/kafkatest"
)

// The Kafka Streams baseline is the program in docs/benchmarks/peers/kafka-streams,
// built here from its sources with Maven and run on the same input.

// streamsPace runs the program. It counts records processed, not committed,
// which is in its favour.
func (b *Bench) streamsPace(ctx context.Context, in *testbed.Input) (testbed.Pace, error) {
	classes, err := b.buildStreams(ctx)
	if err != nil {
		return testbed.Pace{}, err
	}
	app := in.Topic + "-streams"
	out := app + "-scores"
	if err := b.Cluster.Admin().CreateTopic(ctx, out, testbed.Partitions, 0, nil); err != nil {
		return testbed.Pace{}, err
	}
	defer b.Drop(out, app+"-mean-changelog")
	var count testbed.Counter
	p, err := b.Spawn("kafka-streams", os.Environ(), &count, javaProgram("java"), "-Xmx2g", "-cp", classes, "Peer",
		strings.Join(b.Cluster.Brokers, ","), app, strconv.Itoa(max(2, b.Procs)), in.Topic, out, "eos", b.Compression())
	if err != nil {
		return testbed.Pace{}, err
	}
	defer p.Kill()
	total := min(int64(in.Records), int64(b.Scale(streamsRecords)))
	ticks, err := b.Watch(ctx, p, total, 5*time.Minute, func() (int64, error) { return count.Records.Load(), nil })
	if err != nil {
		return testbed.Pace{}, err
	}
	r, err := testbed.Steady(ticks, 0.5, 0.95) // its first half is the JVM's warming up
	if err == nil {
		b.Say("kafka-streams: %v", r)
	}
	return r, err
}

// buildStreams compiles the program and returns its class path. The jars are
// kept between runs.
func (b *Bench) buildStreams(ctx context.Context) (classPath string, err error) {
	missing := func(format string, args ...any) error {
		return &kafkatest.MissingError{What: "Kafka Streams program", Err: fmt.Errorf(format, args...)}
	}
	src, err := filepath.Abs(b.Streams)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(src, "Peer.java")); err != nil {
		return "", missing("no Peer.java in %s: run from the repository, or set -streams", b.Streams)
	}
	for _, tool := range []string{javaProgram("java"), javaProgram("javac"), "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", missing("no %s: install Java 17 (a JDK) and Maven", filepath.Base(tool))
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	libs := filepath.Join(cache, "odradek-bench", "kafka-streams")
	if _, err := os.Stat(libs); err != nil {
		part := libs + ".part"
		if err := os.RemoveAll(part); err != nil {
			return "", err
		}
		if err := runQuietly(ctx, src, "mvn", "-B", "-q", "dependency:copy-dependencies", "-DoutputDirectory="+part); err != nil {
			return "", missing("%v", err)
		}
		if err := os.Rename(part, libs); err != nil {
			return "", err
		}
	}
	classes := filepath.Join(b.Dir, "kafka-streams")
	err = runQuietly(ctx, src, javaProgram("javac"), "-cp", filepath.Join(libs, "*"), "-d", classes, "Peer.java", "Aggregate.java")
	if err != nil {
		return "", err
	}
	return filepath.Join(libs, "*") + string(os.PathListSeparator) + classes, nil
}

// javaProgram returns a program of JAVA_HOME, or of the path.
func javaProgram(name string) string {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		return filepath.Join(home, "bin", name)
	}
	return name
}

// runQuietly runs a program quietly.
func runQuietly(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return errors.New(strings.TrimSpace(fmt.Sprintf("%s: %v: %.500s", name, err, out)))
	}
	return nil
}
