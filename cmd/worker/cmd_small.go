package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"time"

	"odradek/cmd/internal/config"
)

func (t terminal) config(_ context.Context, args []string) int {
	fs := t.flags("config", "Prints the effective configuration with where each value comes from. Secrets are hidden.",
		"  worker config\n  worker config -env > worker.env\n  worker config -yaml > plant.yaml")
	asEnv := fs.Bool("env", false, "print environment lines; secrets are left out")
	asYAML := fs.Bool("yaml", false, "print a settings file with a comment on each setting; secrets are left out")
	if code, done := parse(fs, args); done {
		return code
	}
	c, faults, warnings := config.Parse(t.environ)
	switch {
	case *asYAML:
		fmt.Fprint(t.out, c.PrintYAML())
	case *asEnv:
		fmt.Fprint(t.out, c.PrintEnv())
	default:
		fmt.Fprint(t.out, c.Print())
	}
	for _, w := range warnings {
		fmt.Fprintln(t.err, "warning:", w)
	}
	if len(faults) > 0 {
		printFaults(t.err, faults)
		return exitUsage
	}
	return exitOK
}

func (t terminal) version(_ context.Context, args []string) int {
	fs := t.flags("version", "Prints the version, and the commit that it was built from.", "  worker version -json")
	asJSON := fs.Bool("json", false, "print an object: version, go, os, arch")
	if code, done := parse(fs, args); done {
		return code
	}
	if *asJSON {
		_ = json.NewEncoder(t.out).Encode(struct {
			Version string `json:"version"`
			Go      string `json:"go"`
			OS      string `json:"os"`
			Arch    string `json:"arch"`
		}{buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH})
		return exitOK
	}
	fmt.Fprintf(t.out, "odradek %s %s %s/%s\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return exitOK
}

// release is the version that this source becomes, with -dev. scripts/release.sh takes -dev away by -ldflags "-X main.release=...".
var release = "0.1.0-dev"

// commit is set by -ldflags "-X main.commit=..." where the sources are built without their repository, as in the Dockerfile.
var commit string

// buildVersion returns the release and the commit of this build.
func buildVersion() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(commit, info)
}

// versionOf returns the release with the commit as build metadata, as in 0.1.0-dev+cf1f81349abc. Without one, as in a test, it is the
// release alone; a build of changed files says so.
func versionOf(commit string, info *debug.BuildInfo) string {
	changed := false
	if commit == "" && info != nil {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = s.Value[:min(12, len(s.Value))]
			case "vcs.modified":
				changed = s.Value == "true"
			}
		}
	}
	switch {
	case commit == "":
		return release
	case changed:
		commit += ".changed"
	}
	return release + "+" + commit
}

func (t terminal) healthcheck(ctx context.Context, args []string) int {
	fs := t.flags("healthcheck", "Asks the worker on this host for /healthz. Exits with 0 if it is healthy, 1 if not.",
		"  HEALTHCHECK CMD [\"/worker\", \"healthcheck\"]\n  worker healthcheck -path /readyz")
	url := fs.String("url", "", "base URL; default: ODRADEK_HTTP_ADDR on this host")
	path := fs.String("path", "/healthz", "what to ask for")
	timeout := fs.Duration("timeout", 3*time.Second, "time limit")
	if code, done := parse(fs, args); done {
		return code
	}
	if *url == "" {
		c, code, ok := t.configFor("HTTP_ADDR")
		if !ok {
			return code
		}
		if c.Program.HTTPAddr == config.Off {
			fmt.Fprintln(t.err, "worker: ODRADEK_HTTP_ADDR is off: there is nothing to ask")
			return exitUsage
		}
		*url = "http://" + localAddr(c.Program.HTTPAddr)
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, *url+*path, nil)
	if err != nil {
		fmt.Fprintln(t.err, "worker:", err)
		return exitUsage
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return t.fail(fmt.Errorf("no worker answers: %w", err))
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 4096))
	fmt.Fprint(t.out, string(body))
	if res.StatusCode != http.StatusOK {
		return exitFailed
	}
	return exitOK
}

// localAddr returns the address at which this host reaches a listening address.
func localAddr(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
